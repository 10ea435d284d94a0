"""Keeps what an interrupted training has learned, in a file beside its output."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Kept"]

Array = np.ndarray[Any, Any]


class Kept:
    """Keeps a file, and whether the user wants the run to end.

    Args:
        path: of the file. Nothing is there until a run is interrupted.
        about: all that decides what is learned. Another run does not go on from the file.
    """

    def __init__(self, path: Path, about: Sequence[Any]) -> None:
        self.path = path
        self.interrupted = False
        self._about = hashlib.sha256(json.dumps(about, default=str).encode()).hexdigest()

    def read(self) -> dict[str, Array] | None:
        """Return what is kept; None: nothing is.

        Raises:
            ValueError: it is of another run, or damaged.
        """
        if not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as file:
                found = {name: file[name] for name in file.files}
            about = str(found.pop("about"))
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{self.path}: it is damaged, delete it ({error})") from error
        if about != self._about:
            raise ValueError(
                f"{self.path}: an interrupted run with other data or options has left it; repeat those, or delete it"
            )
        return found

    def write(self, found: Mapping[str, Array]) -> None:
        """Write the file wholly, or not at all."""
        partial = self.path.with_name(f".{self.path.name}.partial")
        try:
            with partial.open("wb") as file:
                np.savez(file, about=np.array(self._about), **found)
            os.replace(partial, self.path)
        finally:
            partial.unlink(missing_ok=True)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """End the run within the block behind the present step at the first Ctrl-C; at once at the second one."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(*_: Any) -> None:
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupted = True

        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
