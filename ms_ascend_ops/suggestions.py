"""Guesses what a mistyped name was meant to be. Imports nothing of the package."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

__all__ = ["near_files", "suggestion"]


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean rms_norm?`, or nothing if no name is near."""
    plain = {one.lower().replace("_", "-"): one for one in known}
    found = [plain[one] for one in get_close_matches(name.lower().replace("_", "-"), list(plain), 3, 0.6)]
    return f"; did you mean {' or '.join(found)}?" if found else ""


def near_files(path: Path) -> str:
    """Suggest, for a path, what is called alike in its folder."""
    try:
        names = [one.name for one in path.absolute().parent.iterdir()]
    except OSError:
        return ""
    found = suggestion(path.name, names)
    folder = "" if str(path.parent) == "." else f" in {path.parent}"
    return found.replace("?", f"{folder}?") if found else ""
