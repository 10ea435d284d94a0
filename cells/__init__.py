"""The operators as layers."""

from ms_ascend_ops.cells.add_rms_norm import AddRMSNorm
from ms_ascend_ops.cells.geglu import GEGLU
from ms_ascend_ops.cells.gelu import GELU
from ms_ascend_ops.cells.rms_norm import RMSNorm
from ms_ascend_ops.cells.swiglu import SwiGLU

__all__ = [
    "GEGLU",
    "GELU",
    "AddRMSNorm",
    "RMSNorm",
    "SwiGLU",
]
