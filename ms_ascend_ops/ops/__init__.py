"""The operators as functions: what is imported here is public."""

from ms_ascend_ops.ops.add import add as add
from ms_ascend_ops.ops.add_layer_norm import add_layer_norm as add_layer_norm
from ms_ascend_ops.ops.add_rms_norm import add_rms_norm as add_rms_norm
from ms_ascend_ops.ops.block_sparse_matmul import block_sparse_matmul as block_sparse_matmul
from ms_ascend_ops.ops.conv2d import conv2d as conv2d
from ms_ascend_ops.ops.conv2d_batch_norm import conv2d_batch_norm as conv2d_batch_norm
from ms_ascend_ops.ops.conv2d_group_norm import conv2d_group_norm as conv2d_group_norm
from ms_ascend_ops.ops.cross_entropy import cross_entropy as cross_entropy
from ms_ascend_ops.ops.dynamic_quant import dynamic_quant as dynamic_quant
from ms_ascend_ops.ops.flash_attention import flash_attention as flash_attention
from ms_ascend_ops.ops.flash_attention_varlen import flash_attention_varlen as flash_attention_varlen
from ms_ascend_ops.ops.geglu import geglu as geglu
from ms_ascend_ops.ops.gelu import gelu as gelu
from ms_ascend_ops.ops.gelu_mul import gelu_mul as gelu_mul
from ms_ascend_ops.ops.group_norm import group_norm as group_norm
from ms_ascend_ops.ops.grouped_matmul import grouped_matmul as grouped_matmul
from ms_ascend_ops.ops.grouped_quant_matmul import grouped_quant_matmul as grouped_quant_matmul
from ms_ascend_ops.ops.kv_cache_update import kv_cache_append as kv_cache_append
from ms_ascend_ops.ops.kv_cache_update import kv_cache_update as kv_cache_update
from ms_ascend_ops.ops.layer_norm import layer_norm as layer_norm
from ms_ascend_ops.ops.linear_gelu_mul import linear_gelu_mul as linear_gelu_mul
from ms_ascend_ops.ops.linear_silu_mul import linear_silu_mul as linear_silu_mul
from ms_ascend_ops.ops.matmul import matmul as matmul
from ms_ascend_ops.ops.moe_gating_top_k import moe_gating_top_k as moe_gating_top_k
from ms_ascend_ops.ops.moe_token_permute import moe_token_permute as moe_token_permute
from ms_ascend_ops.ops.moe_token_unpermute import moe_token_unpermute as moe_token_unpermute
from ms_ascend_ops.ops.paged_attention import paged_attention as paged_attention
from ms_ascend_ops.ops.qkv_rotary_embedding import qkv_rotary_embedding as qkv_rotary_embedding
from ms_ascend_ops.ops.quant_matmul import quant_matmul as quant_matmul
from ms_ascend_ops.ops.rms_norm import rms_norm as rms_norm
from ms_ascend_ops.ops.rotary_embedding import apply_rotary_pos_emb as apply_rotary_pos_emb
from ms_ascend_ops.ops.rotary_embedding import rotary_embedding as rotary_embedding
from ms_ascend_ops.ops.scaled_masked_softmax import scaled_masked_softmax as scaled_masked_softmax
from ms_ascend_ops.ops.silu_mul import silu_mul as silu_mul
from ms_ascend_ops.ops.sliced_sparse_matmul import sliced_sparse_matmul as sliced_sparse_matmul
from ms_ascend_ops.ops.softmax import softmax as softmax
from ms_ascend_ops.ops.sparse_matmul import sparse_matmul as sparse_matmul
from ms_ascend_ops.ops.swiglu import swiglu as swiglu
from ms_ascend_ops.ops.weight_quant_matmul import weight_quant_matmul as weight_quant_matmul
from ms_ascend_ops.ops.weight_quant_swiglu import weight_quant_swiglu as weight_quant_swiglu

__all__ = [name for name, value in globals().items() if callable(value)]
