"""Provides the operators as functions of PyTorch's tensors, with the names and arguments of `ms_ascend_ops.ops`.

Those whose arguments are the inputs and attributes of the definition are made of it. A call takes one of two paths:
past PyTorch's dispatcher to the kernel, where nobody but the kernel has to see it; otherwise the operator in
`torch.ops.ms_ascend_ops`, which autograd, autocast, `torch.compile` and the like know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ms_ascend_ops import registry
from ms_ascend_ops.convolution import placement
from ms_ascend_ops.deprecation import warn_renamed
from ms_ascend_ops.torch.calls import direct_first
from ms_ascend_ops.torch.registration import NAMESPACE, operators

# Beside the operators, functions that are made of them.
__all__ = ["apply_rotary_pos_emb", "kv_cache_append", *registry.names()]  # noqa: PLE0604


def _function(name: str) -> Callable[..., Any]:
    """Return the function of an operator: its parameters are the inputs and attributes of the definition."""
    spec = registry.op_spec(name)
    overload = getattr(getattr(torch.ops, NAMESPACE), name).default
    # The compiler sees the operator.
    function = direct_first(spec.forward, operators()[name].direct, overload, torch.compiler.is_dynamo_compiling)
    function.__doc__ = f"{spec.summary}\n\nSee `ms_ascend_ops.ops.{name}`, which takes and returns the same.\n"
    return function


_add_layer_norm = _function("add_layer_norm")
_conv2d = _function("conv2d")
_conv2d_batch_norm = _function("conv2d_batch_norm")
_conv2d_group_norm = _function("conv2d_group_norm")
_cross_entropy = _function("cross_entropy")
_flash_attention = _function("flash_attention")
_flash_attention_varlen = _function("flash_attention_varlen")
_group_norm = _function("group_norm")
_layer_norm = _function("layer_norm")
_moe_token_permute = _function("moe_token_permute")
_paged_attention = _function("paged_attention")
_qkv_rotary_embedding = _function("qkv_rotary_embedding")
_rotary_embedding = _function("rotary_embedding")


def _scale_and_shift(x: Tensor, gamma: Tensor | None, beta: Tensor | None, axes: int = 1) -> tuple[Tensor, Tensor]:
    """Return gamma and beta, ones and zeros in place of None; without both, of the sizes of the last axes of x."""
    if gamma is None:
        is_number = isinstance(axes, int) and not isinstance(axes, bool)
        if beta is None and x.ndim > 0 and not (is_number and 0 < axes <= x.ndim):
            raise ValueError(f"axes must be a number of axes that x has, from 1 to {x.ndim}, not {axes}")
        gamma = x.new_ones(x.shape[-axes:]) if beta is None else torch.ones_like(beta)
    return gamma, torch.zeros_like(gamma) if beta is None else beta


def layer_norm(
    x: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: float = 1e-5,
    activation: str = "none",
    axes: int = 1,
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalize over trailing axes (layer normalization), with or without ReLU.

    See `ms_ascend_ops.ops.layer_norm`, which takes and returns the same.
    """
    return _layer_norm(x, *_scale_and_shift(x, gamma, beta, axes), epsilon, activation)  # type: ignore[no-any-return]


def add_layer_norm(
    x1: Tensor, x2: Tensor, gamma: Tensor | None = None, beta: Tensor | None = None, epsilon: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Add a residual and normalize the sum (layer normalization) in one pass.

    See `ms_ascend_ops.ops.add_layer_norm`, which takes and returns the same.
    """
    return _add_layer_norm(x1, x2, *_scale_and_shift(x1, gamma, beta), epsilon)  # type: ignore[no-any-return]


def group_norm(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    num_groups: int,
    epsilon: float = 1e-5,
    activation: str = "none",
    data_format: str = "NCHW",
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalize by groups (group normalization), with or without SiLU or ReLU, of channels first or last.

    See `ms_ascend_ops.ops.group_norm`, which takes and returns the same.
    """
    return _group_norm(x, gamma, beta, num_groups, epsilon, activation, data_format)  # type: ignore[no-any-return]


def moe_token_permute(tokens: Tensor, indices: Tensor, num_experts: int) -> tuple[Tensor, Tensor, Tensor]:
    """Bring tokens into the order of their experts: each once for every expert of its own.

    See `ms_ascend_ops.ops.moe_token_permute`, which takes and returns the same.
    """
    return _moe_token_permute(tokens, indices, num_experts)  # type: ignore[no-any-return]


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, ...] | str = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
    activation: str = "none",
    data_format: str = "NCHW",
) -> Tensor:
    """Convolve in two dims, with bias and activation, of channels first or last.

    See `ms_ascend_ops.ops.conv2d`, which takes and returns the same.
    """
    placed = _placement("conv2d", x, weight, stride, padding, dilation, data_format)
    return _conv2d(x, weight, bias, *placed, groups, activation, data_format, False, False, 0, 0)  # type: ignore[no-any-return]


def conv2d_batch_norm(
    x: Tensor,
    weight: Tensor,
    gamma: Tensor,
    beta: Tensor,
    mean: Tensor,
    variance: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, ...] | str = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
    epsilon: float = 1e-5,
    activation: str = "none",
    data_format: str = "NCHW",
) -> Tensor:
    """Convolve in two dims, with the batch normalization of inference and an activation.

    See `ms_ascend_ops.ops.conv2d_batch_norm`, which takes and returns the same.
    """
    placed = _placement("conv2d_batch_norm", x, weight, stride, padding, dilation, data_format)
    tensors = x, weight, gamma, beta, mean, variance, bias
    return _conv2d_batch_norm(*tensors, *placed, groups, epsilon, activation, data_format)  # type: ignore[no-any-return]


def conv2d_group_norm(
    x: Tensor,
    weight: Tensor,
    gamma: Tensor,
    beta: Tensor,
    bias: Tensor | None = None,
    shift: Tensor | None = None,
    residual: Tensor | None = None,
    num_groups: int = 1,
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, ...] | str = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
    epsilon: float = 1e-5,
    activation: str = "none",
    data_format: str = "NCHW",
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Convolve in two dims and normalize the result by groups, whose statistics are taken of each tile.

    See `ms_ascend_ops.ops.conv2d_group_norm`, which takes and returns the same.
    """
    placed = _placement("conv2d_group_norm", x, weight, stride, padding, dilation, data_format)
    tensors = x, weight, gamma, beta, bias, shift, residual
    attributes = groups, num_groups, epsilon, activation, data_format
    return _conv2d_group_norm(*tensors, *placed, *attributes)  # type: ignore[no-any-return]


def _placement(op: str, x: Tensor, weight: Tensor, *arguments: Any) -> tuple[int, ...]:
    """Return the first attributes of convolutions: strides, padding on each side, dilations."""
    sizes, kernel = (tensor.shape if isinstance(tensor, Tensor) else () for tensor in (x, weight))
    return placement(sizes, kernel, op, *arguments)


def cross_entropy(logits: Tensor, labels: Tensor, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
    """Compute the cross entropy of logits and class indices, without the softmax in memory.

    See `ms_ascend_ops.ops.cross_entropy`, which takes and returns the same.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"cross_entropy: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    if labels.dtype == torch.int64:
        labels = labels.to(torch.int32)
    loss: Tensor = _cross_entropy(logits, labels, ignore_index)[0]
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    return loss.sum() / (labels != ignore_index).float().sum()


def _additive(mask: Tensor) -> Tensor:
    """Return a mask as the kernel takes it: of four dims, and numbers in the place of bools."""
    if mask.dtype == torch.bool:
        mask = torch.where(mask, 0.0, float("-inf"))
    return mask.reshape((1,) * (4 - mask.dim()) + mask.shape)


def flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    scale: float | None = None,
    causal: bool = False,
    window: int = 0,
    layout: str = "BNSD",
) -> tuple[Tensor, Tensor]:
    """Compute attention without the matrix of scores in memory, causal or not, with shared key and value heads.

    See `ms_ascend_ops.ops.flash_attention`, which takes and returns the same. The gradient of a mask, if it is needed,
    takes all scores in memory.
    """
    if scale is None:
        scale = float(query.shape[-1]) ** -0.5
    if isinstance(mask, Tensor):
        mask = _additive(mask)
    return _flash_attention(query, key, value, mask, scale, causal, window, layout)  # type: ignore[no-any-return]


def flash_attention_varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_lengths: Tensor,
    key_lengths: Tensor,
    scale: float | None = None,
    causal: bool = False,
    window: int = 0,
) -> tuple[Tensor, Tensor]:
    """Compute attention within each of several sequences that lie one after the other, without padding.

    See `ms_ascend_ops.ops.flash_attention_varlen`, which takes and returns the same.
    """
    if scale is None:
        scale = float(query.shape[-1]) ** -0.5
    tensors = query, key, value, query_lengths, key_lengths
    return _flash_attention_varlen(*tensors, scale, causal, window)  # type: ignore[no-any-return]


def paged_attention(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    context_lengths: Tensor,
    scale: float | None = None,
    window: int = 0,
    softcap: float = 0.0,
) -> Tensor:
    """Compute attention over a paged cache of keys and values, one or several query tokens a sequence.

    See `ms_ascend_ops.ops.paged_attention`, which takes and returns the same.
    """
    if scale is None:
        scale = float(query.shape[-1]) ** -0.5
    tensors = query, key_cache, value_cache, block_tables, context_lengths
    return _paged_attention(*tensors, scale, window, softcap)  # type: ignore[no-any-return]


def _renamed_halves(op: str, own_angles: bool | None, separate_halves: bool) -> bool:
    """Return the value of `separate_halves`, which may come by its old name, `own_angles`."""
    if own_angles is None:
        return separate_halves
    warn_renamed(f"{op}: own_angles", "separate_halves", stacklevel=4)
    return own_angles


def rotary_embedding(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    mode: str = "half",
    layout: str = "BSND",
    rotary_dim: int = 0,
    separate_halves: bool = False,
    own_angles: bool | None = None,
) -> Tensor:
    """Apply rotary position embedding to queries or keys.

    See `ms_ascend_ops.ops.rotary_embedding`, which takes and returns the same.
    """
    separate_halves = _renamed_halves("rotary_embedding", own_angles, separate_halves)
    if layout not in ("BSND", "BNSD", "SND"):
        raise ValueError(f"rotary_embedding: layout must be 'BSND', 'BNSD' or 'SND', got {layout!r}")
    if layout == "BNSD" and cos.dim() == 3 and sin.dim() == 3:
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    attributes = layout.index("S"), mode, rotary_dim, separate_halves
    return _rotary_embedding(x, cos, sin, *attributes)  # type: ignore[no-any-return]


def apply_rotary_pos_emb(
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    layout: str = "BSND",
    mode: str = "half",
    rotary_dim: int = 0,
    separate_halves: bool = False,
    own_angles: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Apply rotary position embedding to queries and keys, whose numbers of heads may differ.

    See `ms_ascend_ops.ops.apply_rotary_pos_emb`, which takes and returns the same.
    """
    separate_halves = _renamed_halves("apply_rotary_pos_emb", own_angles, separate_halves)
    return (
        rotary_embedding(q, cos, sin, mode, layout, rotary_dim, separate_halves),
        rotary_embedding(k, cos, sin, mode, layout, rotary_dim, separate_halves),
    )


def qkv_rotary_embedding(
    qkv: Tensor,
    cos: Tensor,
    sin: Tensor,
    q_heads: int,
    k_heads: int | None = None,
    v_heads: int | None = None,
    mode: str = "half",
    layout: str = "BNSD",
    rotary_dim: int = 0,
    separate_halves: bool = False,
    own_angles: bool | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Split one product into queries, keys and values, with rotary position embedding.

    See `ms_ascend_ops.ops.qkv_rotary_embedding`, which takes and returns the same.
    """
    separate_halves = _renamed_halves("qkv_rotary_embedding", own_angles, separate_halves)
    k_heads = q_heads if k_heads is None else k_heads
    v_heads = k_heads if v_heads is None else v_heads
    attributes = q_heads, k_heads, v_heads, mode, layout, rotary_dim, separate_halves
    return _qkv_rotary_embedding(qkv, cos, sin, *attributes)  # type: ignore[no-any-return]


def kv_cache_update(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor
) -> tuple[Tensor, Tensor]:
    """Write new keys and values into a paged cache, in place. The caches must be contiguous.

    See `ms_ascend_ops.ops.kv_cache_update`, which takes and returns the same. A slot beyond the cache is reported at
    once. It has no gradient: tensors that need one are refused, outside of `torch.no_grad()`.
    """
    # By the dispatcher, which also counts the changes of the caches.
    torch.ops.ms_ascend_ops.kv_cache_update(key, value, key_cache, value_cache, slot_mapping)
    return key_cache, value_cache


def kv_cache_append(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, position: Tensor
) -> tuple[Tensor, Tensor]:
    """Write the keys and values of new tokens into a contiguous cache from a position on, in place.

    See `ms_ascend_ops.ops.kv_cache_append`, which takes and returns the same.
    """
    if key_cache.shape[0] != key.shape[0]:
        raise ValueError(
            f"kv_cache_append: key_cache.shape[0] must equal key.shape[0] ({key.shape[0]}), got "
            f"{tuple(key_cache.shape)}"
        )
    rows, length = key_cache.shape[:2]
    options: Any = {"dtype": torch.int32, "device": key.device}
    positions = position.reshape(-1, 1) + torch.arange(key.shape[1], **options)  # (1 or batch, seq)
    slots = positions + (torch.arange(rows, **options) * length).reshape(-1, 1)
    # The kernel refuses all if one lies beyond the cache.
    outside = torch.full_like(slots, rows * length)
    slots = torch.where((positions >= 0) & (positions < length), slots, outside)
    return kv_cache_update(key, value, key_cache, value_cache, slots.to(torch.int32))


if TYPE_CHECKING:

    def __getattr__(name: str) -> Callable[..., Any]: ...


# The functions of all other operators only forward their arguments.
globals().update({name: _function(name) for name in registry.names() if name not in globals()})
