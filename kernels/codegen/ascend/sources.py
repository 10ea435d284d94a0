"""The kernel sources as they stand in a CANN project: all in one folder, as its build copies files, not folders."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

__all__ = ["device_files", "entry_body", "flat", "reachable", "tiling_structs"]

_INCLUDE = re.compile(r'^#include "([^"]+)"\n', re.MULTILINE)
_TILING_STRUCT = re.compile(r"^struct \w+TilingData \{.*?^\};\n", re.MULTILINE | re.DOTALL)
_TILING_ALIAS = re.compile(r"^using \w+TilingData = \w+;\n", re.MULTILINE)
# Comes from the toolkit or the host layer.
_FROM_TOOLKIT = frozenset({"kernel_operator.h"})


def device_files(start: Path, folders: Sequence[Path]) -> dict[str, Path]:
    """As `reachable`, but of what a tiling header includes only other tiling headers: the kernel needs its structs."""
    return reachable(start, folders, only_tiling=True)


def reachable(start: Path, folders: Sequence[Path], *, only_tiling: bool = False) -> dict[str, Path]:
    """The files that `start` includes, and theirs, by name, `start` itself too.

    Raises:
        ValueError: two files of different folders have the same name.
    """
    found: dict[str, Path] = {}
    todo = [start.resolve()]
    while todo:
        path = todo.pop()
        if found.setdefault(path.name, path) != path:
            raise ValueError(f"{path} and {found[path.name]} must have different names: a CANN project has one folder")
        for name in _INCLUDE.findall(path.read_text(encoding="utf-8")):
            if only_tiling and path.name.endswith("_tiling.h") and not name.endswith("_tiling.h"):
                continue
            included = _locate(name, path.parent, folders)
            if included is not None and included not in found.values():
                todo.append(included)
    return found


def flat(path: Path, folders: Sequence[Path]) -> str:
    """The text of a file with its includes as they are when all files lie in one folder."""

    def replaced(match: re.Match[str]) -> str:
        included = _locate(match[1], path.parent, folders)
        return match[0] if included is None else f'#include "{included.name}"\n'

    return _INCLUDE.sub(replaced, path.read_text(encoding="utf-8"))


def tiling_structs(path: Path) -> str:
    """What a kernel needs of a tiling header: the structs. The functions are for the host."""
    text = path.read_text(encoding="utf-8")
    guard = f"MS_ASCEND_OPS_DEVICE_{path.stem.upper()}_H"
    includes = [f'#include "{Path(name).name}"\n' for name in _INCLUDE.findall(text) if name.endswith("_tiling.h")]
    structs = [match[0] for pattern in (_TILING_STRUCT, _TILING_ALIAS) for match in pattern.finditer(text)]
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


def entry_body(files: dict[str, Path], entry: str) -> str:
    """The text of the function `<entry>Kernel`, which a CANN entry calls.

    Raises:
        ValueError: there is none.
    """
    pattern = re.compile(rf"\b{entry}Kernel\([^;{{]*\)\s*\{{(.*?)^\}}", re.MULTILINE | re.DOTALL)
    for path in files.values():
        match = pattern.search(path.read_text(encoding="utf-8"))
        if match is not None:
            return match[1]
    raise ValueError(f"no function {entry}Kernel in {', '.join(sorted(files))}")


def _locate(name: str, own: Path, folders: Sequence[Path]) -> Path | None:
    if Path(name).name in _FROM_TOOLKIT:
        return None
    for candidate in (folder / name for folder in (own, *folders)):
        if candidate.is_file():
            return candidate.resolve()
    return None
