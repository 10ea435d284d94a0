"""Gives MindSpore a folder for the files that it writes unasked."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["failed_graphs_apart"]

# MindSpore writes a graph that it cannot compile to rank_0/om/analyze_fail.ir below this folder, or the current one.
_FOLDER = "MS_OM_PATH"


@contextmanager
def failed_graphs_apart() -> Iterator[None]:
    """Leave no `rank_0/` behind within the block, unless the user wants it somewhere."""
    if _FOLDER in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="ms_ascend_ops-") as folder:
        os.environ[_FOLDER] = folder
        try:
            yield
        finally:
            os.environ.pop(_FOLDER, None)
