"""The operators as functions."""

from ms_ascend_ops.ops.add import add
from ms_ascend_ops.ops.add_layer_norm import add_layer_norm
from ms_ascend_ops.ops.add_rms_norm import add_rms_norm
from ms_ascend_ops.ops.block_sparse_matmul import block_sparse_matmul
from ms_ascend_ops.ops.conv2d import conv2d
from ms_ascend_ops.ops.conv2d_group_norm import conv2d_group_norm
from ms_ascend_ops.ops.cross_entropy import cross_entropy
from ms_ascend_ops.ops.dynamic_quant import dynamic_quant
from ms_ascend_ops.ops.flash_attention import flash_attention
from ms_ascend_ops.ops.flash_attention_varlen import flash_attention_varlen
from ms_ascend_ops.ops.geglu import geglu
from ms_ascend_ops.ops.gelu import gelu
from ms_ascend_ops.ops.gelu_mul import gelu_mul
from ms_ascend_ops.ops.group_norm import group_norm
from ms_ascend_ops.ops.grouped_matmul import grouped_matmul
from ms_ascend_ops.ops.grouped_quant_matmul import grouped_quant_matmul
from ms_ascend_ops.ops.kv_cache_update import kv_cache_append, kv_cache_update
from ms_ascend_ops.ops.layer_norm import layer_norm
from ms_ascend_ops.ops.linear_gelu_mul import linear_gelu_mul
from ms_ascend_ops.ops.linear_silu_mul import linear_silu_mul
from ms_ascend_ops.ops.matmul import matmul
from ms_ascend_ops.ops.moe_gating_top_k import moe_gating_top_k
from ms_ascend_ops.ops.moe_token_permute import moe_token_permute
from ms_ascend_ops.ops.moe_token_unpermute import moe_token_unpermute
from ms_ascend_ops.ops.paged_attention import paged_attention
from ms_ascend_ops.ops.qkv_rotary_embedding import qkv_rotary_embedding
from ms_ascend_ops.ops.quant_matmul import quant_matmul
from ms_ascend_ops.ops.rms_norm import rms_norm
from ms_ascend_ops.ops.rotary_embedding import apply_rotary_pos_emb, rotary_embedding
from ms_ascend_ops.ops.scaled_masked_softmax import scaled_masked_softmax
from ms_ascend_ops.ops.silu_mul import silu_mul
from ms_ascend_ops.ops.sliced_sparse_matmul import sliced_sparse_matmul
from ms_ascend_ops.ops.softmax import softmax
from ms_ascend_ops.ops.sparse_matmul import sparse_matmul
from ms_ascend_ops.ops.swiglu import swiglu
from ms_ascend_ops.ops.weight_quant_matmul import weight_quant_matmul
from ms_ascend_ops.ops.weight_quant_swiglu import weight_quant_swiglu

__all__ = [
    "add",
    "add_layer_norm",
    "add_rms_norm",
    "apply_rotary_pos_emb",
    "block_sparse_matmul",
    "conv2d",
    "conv2d_group_norm",
    "cross_entropy",
    "dynamic_quant",
    "flash_attention",
    "flash_attention_varlen",
    "geglu",
    "gelu",
    "gelu_mul",
    "group_norm",
    "grouped_matmul",
    "grouped_quant_matmul",
    "kv_cache_append",
    "kv_cache_update",
    "layer_norm",
    "linear_gelu_mul",
    "linear_silu_mul",
    "matmul",
    "moe_gating_top_k",
    "moe_token_permute",
    "moe_token_unpermute",
    "paged_attention",
    "qkv_rotary_embedding",
    "quant_matmul",
    "rms_norm",
    "rotary_embedding",
    "scaled_masked_softmax",
    "silu_mul",
    "sliced_sparse_matmul",
    "softmax",
    "sparse_matmul",
    "swiglu",
    "weight_quant_matmul",
    "weight_quant_swiglu",
]
