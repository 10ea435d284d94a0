"""Finding the places for fused operators in a network, putting them there, and taking the result to another process."""

from ms_ascend_ops.export.cpu_builtins import cpu_builtins
from ms_ascend_ops.export.engines.mindir_engine import optimize_mindir
from ms_ascend_ops.export.engines.substitute import optimize
from ms_ascend_ops.export.files.bundle import bundle
from ms_ascend_ops.export.files.load import InputSpec, MindIRNetwork, load
from ms_ascend_ops.export.files.mindir import export_mindir
from ms_ascend_ops.export.reports.page import write_page
from ms_ascend_ops.export.reports.report import Difference, Entry, Report

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
