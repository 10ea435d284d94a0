"""The kernel sources as they stand in a CANN project: all in one folder, as its build copies files, not folders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from codegen.tiling_header import CUBE_TILING, cann_type

__all__ = ["code_of", "device_files", "flat", "flat_name", "reachable", "tiling_structs"]

_INCLUDE = re.compile(r'^#include "([^"]+)"\n', re.MULTILINE)
_TILING_STRUCT = re.compile(r"^struct \w+TilingData \{.*?^\};\n", re.MULTILINE | re.DOTALL)
_TILING_ALIAS = re.compile(r"^using \w+TilingData = \w+;\n", re.MULTILINE)
# Come from the toolkit, or belong to builds of the host layer only.
_FOREIGN = frozenset({"kernel_operator.h", "lib/matmul_intf.h", "observed/hooks.h"})
_CUBE_TILING = re.compile(rf"\b{CUBE_TILING}\b")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|^#(?:\\\n|[^\n])*", re.MULTILINE | re.DOTALL)
# What a namespace holds ends in the first column; its lines that begin there name it.
_END = re.compile(r"^\}[^\n]*\n", re.MULTILINE)
_NAMED = re.compile(r"^(?!namespace\b|template\b)(?=\S).*?(?:\b(?:class|struct) (\w+)|\b(\w+)\()", re.MULTILINE)


def device_files(start: Path, folders: Sequence[Path]) -> dict[str, Path]:
    """Do as `reachable`, but a tiling header leads to other tiling headers only: the kernel needs its structs."""
    return reachable(start, folders, only_tiling=True)


def reachable(start: Path, folders: Sequence[Path], *, only_tiling: bool = False) -> dict[str, Path]:
    """The files that `start` includes, and theirs, `start` itself too, by the name that they have in a project."""
    found: dict[str, Path] = {}
    todo = [start.resolve()]
    while todo:
        path = todo.pop()
        found[flat_name(path)] = path
        for name in _INCLUDE.findall(path.read_text(encoding="utf-8")):
            if only_tiling and path.name.endswith("_tiling.h") and not name.endswith("_tiling.h"):
                continue
            included = _locate(name, path.parent, folders)
            if included is not None and included not in found.values():
                todo.append(included)
    return found


def code_of(entry: str, texts: Iterable[str]) -> str:
    """The functions and classes among `texts` that `entry` is made of: itself, what it names, what those name ...

    A class counts whole, and all functions of a name count as one. Comments and preprocessor lines are left out.

    Raises:
        ValueError: there is no such entry.
    """
    definitions: dict[str, str] = {}
    for text in texts:
        for piece in _END.split(_COMMENT.sub("", text)):
            for a, b in _NAMED.findall(piece):
                definitions[a or b] = definitions.get(a or b, "") + piece
    if entry not in definitions:
        raise ValueError(f"there is no function {entry} in the kernel's files")
    used: dict[str, str] = {}
    todo = {entry}
    while todo:
        name = todo.pop()
        used[name] = definitions[name]
        todo |= set(re.findall(r"\w+", definitions[name])) & definitions.keys() - used.keys()
    return "".join(used.values())


def flat(path: Path, folders: Sequence[Path]) -> str:
    """The text of a file with its includes as they are when all files lie in one folder."""

    def replaced(match: re.Match[str]) -> str:
        included = _locate(match[1], path.parent, folders)
        return match[0] if included is None else f'#include "{flat_name(included)}"\n'

    return _INCLUDE.sub(replaced, path.read_text(encoding="utf-8"))


def flat_name(path: Path) -> str:
    """The name of a file in a project: softmax/softmax_tiling.h keeps its own, primitives/tile.h takes its folder's."""
    folder = path.parent.name
    return path.name if path.name.startswith(f"{folder}_") or folder == "generated" else f"{folder}_{path.name}"


def tiling_structs(path: Path, folders: Sequence[Path]) -> str:
    """Return what a kernel needs of a tiling header: the structs. The functions are for the host."""
    text = path.read_text(encoding="utf-8")
    guard = f"MS_ASCEND_OPS_DEVICE_{Path(flat_name(path)).stem.upper()}_H"
    found = [_locate(name, path.parent, folders) for name in _INCLUDE.findall(text) if name.endswith("_tiling.h")]
    includes = [f'#include "{flat_name(included)}"\n' for included in found if included is not None]
    structs = [match[0] for pattern in (_TILING_STRUCT, _TILING_ALIAS) for match in pattern.finditer(text)]
    structs = [_CUBE_TILING.sub(cann_type(CUBE_TILING), struct) for struct in structs]
    return f"""// The structs of {path.name} of ms_ascend_ops, taken out by kernels/codegen. Changes here are lost.
#ifndef {guard}
#define {guard}

#include <cstdint>
{"".join(includes)}
namespace ms_ascend_ops {{

{chr(10).join(structs)}
}}  // namespace ms_ascend_ops

#endif  // {guard}
"""


def _locate(name: str, own: Path, folders: Sequence[Path]) -> Path | None:
    if name in _FOREIGN:
        return None
    for candidate in (folder / name for folder in (own, *folders)):
        if candidate.is_file():
            return candidate.resolve()
    return None
