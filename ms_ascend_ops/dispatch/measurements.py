"""Keeps what the policy `Fastest` measured in a file that names machine and versions. Needs no MindSpore."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import tempfile
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ms_ascend_ops.library import get_num_threads
from ms_ascend_ops.version import __version__

__all__ = ["VARIABLE", "Measurements", "conditions", "default_path", "processor"]

VARIABLE = "MS_ASCEND_OPS_CACHE"  # a folder

_log = logging.getLogger("ms_ascend_ops.dispatch")


@cache
def processor() -> str:
    """The CPU's name."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def conditions() -> dict[str, Any]:
    """Machine and versions: under others times are others."""
    versions = {"ms_ascend_ops": __version__}
    for package in ("mindspore", "numpy", "llvmlite"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = ""
    machine = {"processor": processor(), "cpus": len(os.sched_getaffinity(0)), "threads": get_num_threads()}
    return {"machine": machine, "versions": versions}


def default_path() -> Path:
    """`dispatch-<hash of machine and versions>.json` in $MS_ASCEND_OPS_CACHE, or in the user's folder of caches."""
    digest = hashlib.sha256(json.dumps(conditions(), sort_keys=True).encode()).hexdigest()[:12]
    if VARIABLE in os.environ:
        folder = Path(os.environ[VARIABLE])
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ms_ascend_ops"
    return folder / f"dispatch-{digest}.json"


class Measurements:
    """Times by key (operator, attributes, device and shape bucket), each those of all that was measured.

    A file of another machine, of other versions, or that cannot be read, is not used, which is logged.
    """

    def __init__(self, path: Path | None = None):
        self.path = path or default_path()
        self._times: dict[str, dict[str, float]] = self._read()

    def times(self, key: str) -> dict[str, float] | None:
        """Microseconds by the identity of the implementation; None: it was not measured."""
        return self._times.get(key)

    def keep(self, key: str, times: dict[str, float]) -> None:
        """Add one, also to the file; what other processes added to that in the meantime stays."""
        self._times[key] = times
        self._times = self._read() | self._times
        text = json.dumps({**conditions(), "times_us": self._times}, indent=1, sort_keys=True)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=self.path.name)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text + "\n")
            os.replace(name, self.path)
        except OSError as error:
            _log.warning("dispatch: what was measured could not be kept: %s", error)

    def _read(self) -> dict[str, dict[str, float]]:
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            given = {key: content[key] for key in ("machine", "versions")}
            times = {
                str(key): {str(name): float(us) for name, us in of_key.items()}
                for key, of_key in content["times_us"].items()
            }
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            _log.warning("dispatch: %s cannot be read, and is measured again: %s", self.path, error)
            return {}
        if given != conditions():
            _log.warning("dispatch: %s is of another machine or of other versions, and is measured again", self.path)
            return {}
        return times
