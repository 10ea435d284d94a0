"""The operators as functions."""

from ms_ascend_ops.ops.add_layer_norm import add_layer_norm
from ms_ascend_ops.ops.add_rms_norm import add_rms_norm
from ms_ascend_ops.ops.group_norm import group_norm
from ms_ascend_ops.ops.layer_norm import layer_norm
from ms_ascend_ops.ops.rms_norm import rms_norm
from ms_ascend_ops.ops.silu_mul import silu_mul
from ms_ascend_ops.ops.swiglu import swiglu

__all__ = ["add_layer_norm", "add_rms_norm", "group_norm", "layer_norm", "rms_norm", "silu_mul", "swiglu"]
