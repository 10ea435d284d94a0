"""Reads the fields of a TilingData struct from a hand-written tiling header."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["CUBE_TILING", "FIELD_TYPES", "cann_name", "cann_type", "header_of", "read_fields", "resolve_alias"]

# The tiling of a Matmul object (kernels/primitives/cube_tiling.h), and what CANN's tiling classes make of it.
CUBE_TILING = "CubeTiling"
_CANN_CUBE_TILING = "TCubeTiling"

# CANN's TILING_DATA_FIELD_DEF and a C struct lay these out alike.
FIELD_TYPES = ("uint32_t", "int32_t", "uint64_t", "int64_t", "float", CUBE_TILING)

# Or the tiling data of a part of the kernel.
_PART = re.compile(r"\w+TilingData")

_INCLUDE = re.compile(r'#include\s+"([^"]+)"')
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_FIELD = re.compile(r"(\w+)\s+(\w+)(?:\s*=\s*[^;]+|\s*\{[^}]*\})?")


def cann_type(kind: str) -> str:
    """The type of a field in CANN's tiling data."""
    return _CANN_CUBE_TILING if kind == CUBE_TILING else kind


def cann_name(field: str) -> str:
    """The name of a field in CANN's tiling data, which is flat."""
    return field.replace(".", "_")


def read_fields(header: Path, struct: str) -> list[tuple[str, str]]:
    """(type, name) of every field of `struct`, in order; those of a part have the names `part.field`.

    The struct may be an alias (`using A = B;`), and parts may be structs, of this header or of one that it includes.

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
        if field is not None and _PART.fullmatch(field[1]):
            fields += [
                (kind, f"{field[2]}.{name}") for kind, name in read_fields(header_of(header, field[1]), field[1])
            ]
            continue
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
        found = header_of(header, alias[1])
        if re.search(rf"struct\s+{alias[1]}\b", found.read_text(encoding="utf-8")):
            return resolve_alias(found, alias[1])
    return header, struct


def header_of(header: Path, struct: str) -> Path:
    """The header, this one or one that it includes, that has the struct; this one if none has."""
    text = header.read_text(encoding="utf-8")
    kernels = header.parent.parent
    candidates: list[Path] = [header, *(kernels / path for path in _INCLUDE.findall(text))]
    for candidate in candidates:
        if candidate.is_file() and re.search(rf"struct\s+{struct}\b", candidate.read_text(encoding="utf-8")):
            return candidate
    return header
