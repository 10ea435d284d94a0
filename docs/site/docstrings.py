"""Docstrings in the form of this project as reStructuredText."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SECTION = re.compile(r"(Args|Inputs|Attributes|Returns|Outputs|Yields|Raises):")
_ENTRY = re.compile(r"(`?\*{0,2}[\w.]+`?(?:, `?\*{0,2}[\w.]+`?)*)(?: \([^)]*\))?: +(.*)")
_FIELDS = {"Args": "param", "Attributes": "param", "Raises": "raises"}
_CODE = re.compile(r"(?<=[.:\w]\n\n)((?: {4}(?!\.\.)\S.*\n?|\n(?= {4}))+(?: {4}.*\n?|\n(?= {4}))*)")


def restructured(docstring: str) -> str:
    """The text with fields for arguments and errors, lists for inputs and results, and blocks of code."""
    parts: list[str] = []
    section, lines = "", []
    for line in [*docstring.splitlines(), ""]:
        if (match := _SECTION.fullmatch(line)) and not section:
            section, lines = match[1], []
        elif section and (line.startswith("    ") or not line):
            lines.append(line[4:])
        elif section:
            parts += _section(section, lines)
            section, lines = (match[1], []) if (match := _SECTION.fullmatch(line)) else ("", [])
            parts += [] if match else [line]
        else:
            parts.append(line)
    if section:
        parts += _section(section, lines)
    return _plain(code_blocks("\n".join(parts)))


def code_blocks(text: str) -> str:
    """Indented lines behind a paragraph are code."""
    return _CODE.sub(lambda match: f".. code-block:: python\n\n{match[1]}\n", text)


def _section(name: str, lines: list[str]) -> Iterator[str]:
    """The lines of a section: a field for each entry, or one field with a list."""
    results = name in ("Returns", "Outputs", "Yields")
    entries = list(_entries(lines, named=not results or _are_named(lines)))
    yield ""
    if name in _FIELDS and all(key for key, _ in entries):
        for key, text in entries:
            for one in key.split(", "):
                yield f":{_FIELDS[name]} {one.strip('`').replace('*', chr(92) + '*')}: {text}"
    else:
        yield f":{'Returns' if results else name}:"
        for key, text in entries:
            yield f"   - **{key.strip('`')}**: {text}" if key else f"   {text}"
    yield ""


def _are_named(lines: list[str]) -> bool:
    """Says whether every entry of a section of results has a name, as `rstd: Tensor[float32]` has."""
    return all(_ENTRY.match(line) for line in lines if line.strip() and not line.startswith(" "))


def _entries(lines: list[str], named: bool) -> Iterator[tuple[str, str]]:
    """Name and text of each entry, on one line; what has no name is one text."""
    key, words = "", []
    for line in lines:
        match = _ENTRY.match(line) if named else None
        if match:
            if words:
                yield key, " ".join(words)
            key, words = match[1], [match[2].strip()]
        elif line.strip():
            words.append(line.strip())
    if words:
        yield key, " ".join(words)


def _plain(text: str) -> str:
    """Stars that are products and no emphasis; what is within backticks, an equation or code stays."""
    blocks = re.split(r"((?:^\.\. (?:math|code-block)::.*\n(?:(?: +.*)?\n)*)|`[^`\n]+`)", text, flags=re.MULTILINE)
    return "".join(
        block if place % 2 else re.sub(r"(?<![\\*])\*(?=\w)", r"\\*", block) for place, block in enumerate(blocks)
    )
