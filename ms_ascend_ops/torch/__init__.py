"""The operators of this package for PyTorch, on a CPU: the same kernels, on PyTorch's memory.

    from ms_ascend_ops.torch import RMSNorm, rms_norm, optimize

Needs the extra `[torch]`, and no MindSpore at run time. Importing it registers every operator as
`torch.ops.ms_ascend_ops.<name>`.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("ms_ascend_ops.torch: PyTorch is missing; pip install 'ms_ascend_ops[torch]'") from error

from ms_ascend_ops.library import load_products
from ms_ascend_ops.torch.registration import register

load_products()
register()

from ms_ascend_ops.torch.functions import (  # noqa: E402  (which take the registered operators)
    add,
    add_layer_norm,
    add_rms_norm,
    apply_rotary_pos_emb,
    block_sparse_matmul,
    conv2d,
    conv2d_group_norm,
    cross_entropy,
    dynamic_quant,
    flash_attention,
    flash_attention_varlen,
    geglu,
    gelu,
    gelu_mul,
    group_norm,
    grouped_matmul,
    grouped_quant_matmul,
    kv_cache_append,
    kv_cache_update,
    layer_norm,
    linear_gelu_mul,
    linear_silu_mul,
    matmul,
    moe_gating_top_k,
    moe_token_permute,
    moe_token_unpermute,
    paged_attention,
    qkv_rotary_embedding,
    quant_matmul,
    rms_norm,
    rotary_embedding,
    scaled_masked_softmax,
    silu_mul,
    sliced_sparse_matmul,
    softmax,
    sparse_matmul,
    swiglu,
    weight_quant_matmul,
    weight_quant_swiglu,
)
from ms_ascend_ops.torch.modules import (  # noqa: E402
    GEGLU,
    GELU,
    AddRMSNorm,
    GroupNorm,
    LayerNorm,
    RMSNorm,
    SwiGLU,
)
from ms_ascend_ops.torch.substitution import optimize  # noqa: E402

__all__ = [
    "GEGLU",
    "GELU",
    "AddRMSNorm",
    "GroupNorm",
    "LayerNorm",
    "RMSNorm",
    "SwiGLU",
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
    "optimize",
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
