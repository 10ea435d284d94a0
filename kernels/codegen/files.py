"""Generated files."""

from pathlib import Path


def write_if_changed(path: Path, text: str) -> None:
    """Leave a file that is up to date alone, so that what includes it is not compiled again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
