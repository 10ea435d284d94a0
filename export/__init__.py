"""Finding the places for fused operators in a network, putting them there, and taking the result to another process."""

from ms_ascend_ops.export.bundle import bundle
from ms_ascend_ops.export.cpu_builtins import cpu_builtins
from ms_ascend_ops.export.load import InputSpec, MindIRNetwork, load
from ms_ascend_ops.export.mindir import export_mindir
from ms_ascend_ops.export.mindir_engine import optimize_mindir
from ms_ascend_ops.export.page import write_page
from ms_ascend_ops.export.report import Difference, Entry, Report
from ms_ascend_ops.export.substitute import optimize

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
