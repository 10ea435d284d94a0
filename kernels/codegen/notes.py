"""kernels.json: what the sources say of themselves in comments, for `python -m ms_ascend_ops explain`."""

from __future__ import annotations

import re
from pathlib import Path

from codegen.tiling_header import header_of, resolve_alias
from ms_ascend_ops.registry import OpSpec

__all__ = ["notes"]

_OPENING = re.compile(r"\A\s*/\*!(.*?)\*/", re.DOTALL)
_SHARED = re.compile(r"primitives/\w+\.h")
_STRUCT = r"struct\s+{name}\s*\{{(.*?)\n\}};"
_PART = re.compile(r"\b(\w+TilingData)\s+(\w+);")
_FIELD = re.compile(r"\b(\w+)\s*(?:=[^;]*|\{[^}]*\})?;[ \t]*//[ \t]*([^\n]*(?:\n[ \t]*//[^\n]*)*)")


def notes(spec: OpSpec, folder: Path) -> dict[str, dict[str, object]]:
    """Return, for each signature, its kernel's file, the plans of kernel and tiling, and the meaning of the fields."""
    own_tiling = folder / f"{spec.name}_tiling.h"
    found: dict[str, dict[str, object]] = {}
    for signature in spec.signatures:
        kernel = folder / f"{signature.name}_kernel.h"
        kernel = kernel if kernel.is_file() else folder / f"{spec.name}_kernel.h"
        tiling, struct = resolve_alias(own_tiling, f"{signature.entry}TilingData")
        plan = _opening_comment(kernel)
        for shared in _SHARED.findall(plan):  # where a thin kernel sends its reader
            plan += f"\n{_opening_comment(folder.parent / shared)}"
        found[signature.name] = {
            "kernel": kernel.relative_to(folder.parent).as_posix(),
            "plan": plan,
            "tiling": tiling.relative_to(folder.parent).as_posix(),
            "tiling_plan": _opening_comment(tiling),
            "fields": _field_comments(tiling, struct),
        }
    return found


def _opening_comment(path: Path) -> str:
    """One line for each paragraph; formulas, which are indented, keep their own."""
    match = _OPENING.match(path.read_text(encoding="utf-8"))
    lines: list[str] = []
    joins = False
    for line in match[1].strip().splitlines() if match else ():
        content = line.strip().removeprefix("*").removeprefix(" ")
        is_formula = content.startswith(" ")
        if joins and content and not is_formula:
            lines[-1] += f" {content}"
        elif content:
            lines.append(content.strip())
        joins = bool(content) and not is_formula
    return "\n".join(lines)


def _field_comments(header: Path, struct: str) -> dict[str, str]:
    match = re.search(_STRUCT.format(name=struct), header.read_text(encoding="utf-8"), re.DOTALL)
    found = _FIELD.findall(match[1]) if match else []
    comments = {name: re.sub(r"\s*\n\s*//\s*", " ", text).strip() for name, text in found}
    for kind, part in _PART.findall(match[1]) if match else []:
        comments |= {f"{part}.{name}": text for name, text in _field_comments(header_of(header, kind), kind).items()}
    return comments
