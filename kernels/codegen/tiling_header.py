"""Reads the fields of a TilingData struct from a hand-written tiling header."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["CUBE_TILING", "FIELD_TYPES", "cann_type", "read_fields", "resolve_alias"]

# The tiling of a Matmul object (kernels/primitives/cube_tiling.h), and what CANN's tiling classes make of it.
CUBE_TILING = "CubeTiling"
_CANN_CUBE_TILING = "TCubeTiling"

# What CANN's TILING_DATA_FIELD_DEF and a C struct lay out alike.
FIELD_TYPES = ("uint32_t", "int32_t", "uint64_t", "int64_t", "float", CUBE_TILING)

_INCLUDE = re.compile(r'#include\s+"([^"]+)"')
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_FIELD = re.compile(r"(\w+)\s+(\w+)(?:\s*=\s*[^;]+|\s*\{[^}]*\})?")


def cann_type(kind: str) -> str:
    """The type of a field in CANN's tiling data."""
    return _CANN_CUBE_TILING if kind == CUBE_TILING else kind


def read_fields(header: Path, struct: str) -> list[tuple[str, str]]:
    """(type, name) of every field of `struct`, in order.

    The struct may be an alias (`using A = B;`) of one here or in a header that this one includes.

    Raises:
        ValueError: the struct is missing, or holds something that is no plain field.
    """
    header, struct = resolve_alias(header, struct)
    text = _COMMENT.sub("", header.read_text(encoding="utf-8"))
    match = re.search(rf"struct\s+{struct}\s*\{{(.*?)\n\}};", text, re.DOTALL)
    if match is None:
        raise ValueError(f"{header}: there is no 'struct {struct}'")
    fields = []
    for statement in filter(None, (part.strip() for part in match[1].split(";"))):
        field = _FIELD.fullmatch(statement)
        if field is None or field[1] not in FIELD_TYPES:
            raise ValueError(
                f"{header}: {struct} must hold plain fields of {', '.join(FIELD_TYPES)}, got '{statement}'"
            )
        fields.append((field[1], field[2]))
    return fields


def resolve_alias(header: Path, struct: str) -> tuple[Path, str]:
    """The header and the name under which the fields of `struct` stand."""
    text = _COMMENT.sub("", header.read_text(encoding="utf-8"))
    alias = re.search(rf"using\s+{struct}\s*=\s*(\w+)\s*;", text)
    if alias is not None:
        if re.search(rf"struct\s+{alias[1]}\b", text):
            return resolve_alias(header, alias[1])
        kernels = header.parent.parent
        for included in (kernels / path for path in _INCLUDE.findall(text)):
            if included.is_file() and re.search(rf"struct\s+{alias[1]}\b", included.read_text(encoding="utf-8")):
                return resolve_alias(included, alias[1])
    return header, struct
