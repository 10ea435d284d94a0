"""Manages the folder with the models of a server. Nothing outside of it is ever read on behalf of a request.

models/
  classifier/             a model; its name is that of the folder
    config.yaml           options (settings.ModelOptions), if it needs any
    1/classifier.msbundle a version: one bundle, MindIR, GGUF file or directory of Hugging Face's
    2/classifier.mindir
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ms_ascend_ops.serving.errors import BadRequest, NotFound

__all__ = ["Repository", "Source", "checked_name", "source_in"]

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_SUFFIXES = {".msbundle": "graph", ".mindir": "graph", ".gguf": "language"}


@dataclass(frozen=True)
class Source:
    """Says what a version of a model is loaded from."""

    path: Path
    kind: str  # "graph" or "language"


class Repository:
    """Reads a model repository.

    Raises:
        ValueError: there is no such folder.
    """

    def __init__(self, root: str | Path):
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise ValueError(f"repository: there is no folder {root}")

    def names(self) -> list[str]:
        """Return all models, also those whose versions cannot be read."""
        return sorted(entry.name for entry in self.root.iterdir() if _NAME.fullmatch(entry.name) and entry.is_dir())

    def config(self, name: str) -> Path:
        """Return where a model has its options, if it has any."""
        return self._inside(self._folder(name) / "config.yaml", name)

    def versions(self, name: str) -> dict[int, Path]:
        """Return the folders of the versions of a model, by their numbers.

        Raises:
            NotFound: there is no such model.
        """
        found = {}
        for entry in self._folder(name).iterdir():
            if entry.name.isascii() and entry.name.isdecimal() and len(entry.name) < 10 and entry.is_dir():
                found[int(entry.name)] = self._inside(entry, name)
        return dict(sorted(found.items()))

    def source(self, name: str, version: int) -> Source:
        """Return what a version is loaded from.

        Raises:
            NotFound: there is no such version.
            BadRequest: its folder does not hold one model, or one outside of the repository.
        """
        folder = self.versions(name).get(version)
        if folder is None:
            raise NotFound(f"the model {name} has no version {version}")
        for file in folder.rglob("*"):
            self._inside(file, name)
        try:
            return source_in(folder)
        except ValueError as error:
            raise BadRequest(f"version {version} of {name}: {error}") from error

    def _folder(self, name: str) -> Path:
        folder = self.root / checked_name(name)
        if not folder.is_dir():
            raise NotFound(f"there is no model {name}")
        return self._inside(folder, name)

    def _inside(self, path: Path, name: str) -> Path:
        """Return the path, if it does not lead out of the repository by a link."""
        if not path.resolve().is_relative_to(self.root):
            raise BadRequest(f"the model {name} is refused: {path.name} leads out of the repository")
        return path


def checked_name(name: str) -> str:
    """Check that a name is no path, and return it.

    Raises:
        NotFound: it has characters that no name of a model has.
    """
    if not _NAME.fullmatch(name):
        raise NotFound(f"there is no model {name[:128]!r}: names have letters, digits, '_', '-' and '.'")
    return name


def source_in(path: Path) -> Source:
    """Return what there is to load at a path: a file, a directory of Hugging Face's, or a directory with one file.

    Raises:
        ValueError: nothing, or more than one.
    """
    if path.is_dir():
        if (path / "config.json").is_file():
            return Source(path, "language")
        files = [entry for entry in sorted(path.iterdir()) if entry.suffix in _SUFFIXES and entry.is_file()]
        if len(files) == 1:
            return Source(files[0], _SUFFIXES[files[0].suffix])
        found = ", ".join(file.name for file in files) or "none of them"
        raise ValueError(
            f"{path.name} must hold one .msbundle, .mindir or .gguf, or a config.json with its safetensors, got {found}"
        )
    if path.suffix not in _SUFFIXES or not path.is_file():
        raise ValueError(f"{path}: a model is a .msbundle, .mindir or .gguf file, or a directory of one")
    return Source(path, _SUFFIXES[path.suffix])
