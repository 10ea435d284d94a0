"""Holds what the examples share: where the log goes, and how a report is shown."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ms_ascend_ops.export import Report
from rich.table import Table


@contextmanager
def errors_logged(path: Path) -> Iterator[None]:
    """Write what goes to stderr, from C++ too, into a file. If the block fails, the file is named."""
    stderr = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    except Exception:
        os.dup2(stderr, 2)
        print(f"{Path(sys.argv[0]).name} failed; what was logged until then is in {path}", file=sys.stderr)
        raise
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def places(title: str, report: Report) -> Table:
    """Returns what a report says, without the details that would need wide lines."""
    made = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in ("place", "replaced"):
        made.add_column(name, overflow="fold")
    for entry in report.grouped():
        made.add_row(entry.place, entry.pattern if entry.replaced else f"no: {entry.pattern}")
    if report.outputs:
        made.caption = f"largest difference of an output: {report.outputs}"
    return made
