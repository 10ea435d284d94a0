"""Finds the places for fused operators in a network, puts them there, and takes the result to another process.

The names are imported when they are used: the patterns and the graphs that they are looked for in need no MindSpore.
"""

from typing import TYPE_CHECKING

from ms_ascend_ops.lazy import lazy_attributes

if TYPE_CHECKING:
    from ms_ascend_ops.export.builtins.shims import cpu_builtins
    from ms_ascend_ops.export.engines.mindir_engine import optimize_mindir
    from ms_ascend_ops.export.engines.substitute import optimize
    from ms_ascend_ops.export.files.bundle import bundle
    from ms_ascend_ops.export.files.load import InputSpec, MindIRNetwork, load
    from ms_ascend_ops.export.files.mindir import export_mindir
    from ms_ascend_ops.export.reports.page import write_page
    from ms_ascend_ops.export.reports.report import Difference, Entry, Report

_ORIGINS = {
    "Difference": "reports.report",
    "Entry": "reports.report",
    "InputSpec": "files.load",
    "MindIRNetwork": "files.load",
    "Report": "reports.report",
    "bundle": "files.bundle",
    "cpu_builtins": "builtins.shims",
    "export_mindir": "files.mindir",
    "load": "files.load",
    "optimize": "engines.substitute",
    "optimize_mindir": "engines.mindir_engine",
    "write_page": "reports.page",
}

__all__ = [
    "Difference",
    "Entry",
    "InputSpec",
    "MindIRNetwork",
    "Report",
    "bundle",
    "cpu_builtins",
    "export_mindir",
    "load",
    "optimize",
    "optimize_mindir",
    "write_page",
]


__getattr__ = lazy_attributes(__name__, {name: f"{__name__}.{module}" for name, module in _ORIGINS.items()})


def __dir__() -> list[str]:
    return sorted(__all__)
