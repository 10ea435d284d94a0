"""The operators as functions."""

from ms_ascend_ops.ops.add_rms_norm import add_rms_norm
from ms_ascend_ops.ops.rms_norm import rms_norm
from ms_ascend_ops.ops.scaled_masked_softmax import scaled_masked_softmax
from ms_ascend_ops.ops.silu_mul import silu_mul
from ms_ascend_ops.ops.softmax import softmax
from ms_ascend_ops.ops.swiglu import swiglu

__all__ = ["add_rms_norm", "rms_norm", "scaled_masked_softmax", "silu_mul", "softmax", "swiglu"]
