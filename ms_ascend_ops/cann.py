"""Finds the parts of CANN on this machine: the toolkit and the driver. Reads files only."""

from __future__ import annotations

import os
import re
from pathlib import Path

__all__ = ["cann_home", "cann_version", "chip_name", "driver_version"]

_DRIVER = Path("/usr/local/Ascend/driver")
_VERSION = re.compile(r"^Version\s*=\s*\[?([\w.]+)", re.MULTILINE | re.IGNORECASE)


def cann_home() -> Path | None:
    """Return the folder of the toolkit that the environment names (its `set_env.sh` does)."""
    for variable in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"):
        if os.environ.get(variable):
            return Path(os.environ[variable])
    if os.environ.get("ASCEND_OPP_PATH"):
        return Path(os.environ["ASCEND_OPP_PATH"]).parent
    return None


def cann_version() -> str | None:
    """Return the version of the toolkit, e.g. "8.5.0"; None if there is none."""
    home = cann_home()
    # Install locations of 8.x and 9.x.
    return None if home is None else _version_of(home / "compiler" / "version.info", home / "version.info")


def driver_version() -> str | None:
    """Return the version of the NPU driver; None if there is none."""
    return _version_of(_DRIVER / "version.info")


def chip_name() -> str:
    """Tell what operators run on with this `device_target`: "cpu", or the name of the chip, e.g. "ascend910b"."""

    import mindspore as ms  # noqa: PLC0415 - the rest works without

    if ms.get_context("device_target") != "Ascend":
        return str(ms.get_context("device_target")).lower()
    from ms_ascend_ops.mindspore_versions import soc_version  # noqa: PLC0415 - imports MindSpore

    return soc_version().lower()


def _version_of(*files: Path) -> str | None:
    for file in files:
        try:
            if match := _VERSION.search(file.read_text(encoding="utf-8", errors="replace")):
                return match[1]
        except OSError:
            continue
    return None
