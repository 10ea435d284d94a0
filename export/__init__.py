"""Finding the places for fused operators in a network, putting them there, and taking the result to another process."""

from ms_ascend_ops.export.mindir import InputSpec, MindIRNetwork, export_mindir, load
from ms_ascend_ops.export.report import Difference, Entry, Report
from ms_ascend_ops.export.substitute import optimize

__all__ = ["Difference", "Entry", "InputSpec", "MindIRNetwork", "Report", "export_mindir", "load", "optimize"]
