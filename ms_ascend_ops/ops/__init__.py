"""The operators as functions."""

from ms_ascend_ops.ops.add import add
from ms_ascend_ops.ops.add_rms_norm import add_rms_norm
from ms_ascend_ops.ops.geglu import geglu
from ms_ascend_ops.ops.gelu import gelu
from ms_ascend_ops.ops.gelu_mul import gelu_mul
from ms_ascend_ops.ops.rms_norm import rms_norm
from ms_ascend_ops.ops.rotary_embedding import apply_rotary_pos_emb, rotary_embedding
from ms_ascend_ops.ops.scaled_masked_softmax import scaled_masked_softmax
from ms_ascend_ops.ops.silu_mul import silu_mul
from ms_ascend_ops.ops.softmax import softmax
from ms_ascend_ops.ops.swiglu import swiglu

__all__ = [
    "add",
    "add_rms_norm",
    "apply_rotary_pos_emb",
    "geglu",
    "gelu",
    "gelu_mul",
    "rms_norm",
    "rotary_embedding",
    "scaled_masked_softmax",
    "silu_mul",
    "softmax",
    "swiglu",
]
