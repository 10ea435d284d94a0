"""Provides the operators as layers: what is imported here is public, in `ms_ascend_ops`, too."""

from ms_ascend_ops.cells import whole_cells
from ms_ascend_ops.cells.add_rms_norm import AddRMSNorm as AddRMSNorm
from ms_ascend_ops.cells.conv2d import Conv2d as Conv2d
from ms_ascend_ops.cells.conv2d_group_norm import Conv2dGroupNorm as Conv2dGroupNorm
from ms_ascend_ops.cells.dense import Dense as Dense
from ms_ascend_ops.cells.geglu import GEGLU as GEGLU
from ms_ascend_ops.cells.gelu import GELU as GELU
from ms_ascend_ops.cells.group_norm import GroupNorm as GroupNorm
from ms_ascend_ops.cells.kv_cache import KVCache as KVCache
from ms_ascend_ops.cells.layer_norm import LayerNorm as LayerNorm
from ms_ascend_ops.cells.moe_feed_forward import MoEFeedForward as MoEFeedForward
from ms_ascend_ops.cells.quant_dense import QuantDense as QuantDense
from ms_ascend_ops.cells.quant_moe_feed_forward import QuantMoEFeedForward as QuantMoEFeedForward
from ms_ascend_ops.cells.rms_norm import RMSNorm as RMSNorm
from ms_ascend_ops.cells.rotary_embedding import RotaryEmbedding as RotaryEmbedding
from ms_ascend_ops.cells.sliced_dense import SlicedDense as SlicedDense
from ms_ascend_ops.cells.sparse_dense import SparseDense as SparseDense
from ms_ascend_ops.cells.swiglu import SwiGLU as SwiGLU
from ms_ascend_ops.cells.weight_quant_dense import WeightQuantDense as WeightQuantDense

whole_cells.keep_whole()

__all__ = [name for name, value in globals().items() if isinstance(value, type)]
