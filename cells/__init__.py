"""The operators as layers."""

from ms_ascend_ops.cells.add_rms_norm import AddRMSNorm
from ms_ascend_ops.cells.conv2d import Conv2d
from ms_ascend_ops.cells.conv2d_group_norm import Conv2dGroupNorm
from ms_ascend_ops.cells.dense import Dense
from ms_ascend_ops.cells.geglu import GEGLU
from ms_ascend_ops.cells.gelu import GELU
from ms_ascend_ops.cells.group_norm import GroupNorm
from ms_ascend_ops.cells.kv_cache import KVCache
from ms_ascend_ops.cells.layer_norm import LayerNorm
from ms_ascend_ops.cells.moe_feed_forward import MoEFeedForward
from ms_ascend_ops.cells.quant_dense import QuantDense
from ms_ascend_ops.cells.quant_moe_feed_forward import QuantMoEFeedForward
from ms_ascend_ops.cells.rms_norm import RMSNorm
from ms_ascend_ops.cells.rotary_embedding import RotaryEmbedding
from ms_ascend_ops.cells.sliced_dense import SlicedDense
from ms_ascend_ops.cells.sparse_dense import SparseDense
from ms_ascend_ops.cells.swiglu import SwiGLU
from ms_ascend_ops.cells.weight_quant_dense import WeightQuantDense
from ms_ascend_ops.cells.whole_cells import keep_whole

keep_whole()

__all__ = [
    "GEGLU",
    "GELU",
    "AddRMSNorm",
    "Conv2d",
    "Conv2dGroupNorm",
    "Dense",
    "GroupNorm",
    "KVCache",
    "LayerNorm",
    "MoEFeedForward",
    "QuantDense",
    "QuantMoEFeedForward",
    "RMSNorm",
    "RotaryEmbedding",
    "SlicedDense",
    "SparseDense",
    "SwiGLU",
    "WeightQuantDense",
]
