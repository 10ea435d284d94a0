"""Reads blocks of experts in networks of others: their weights and settings, in the form of `MoEFeedForward`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn
from mindspore import ops as stock

__all__ = ["given_back", "is_block", "read_block"]

# Names that networks give the three products of an expert: gate, up, down.
_NAMES = (("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2"))
_PARTS = ("gate_weight", "up_weight", "down_weight")
# How they call what `ops.moe_gating_top_k` has, in the block or in its router.
_GATING = {
    "k": ("top_k", "num_experts_per_tok"),
    "renormalize": ("norm_topk_prob",),
    "group_count": ("n_group",),
    "k_group": ("topk_group",),
    "scale": ("routed_scaling_factor",),
    "scoring": ("scoring_func",),
}


def is_block(cell: nn.Cell) -> bool:
    """Tell whether a cell looks like a block of experts: whether it can be read shows later."""
    return hasattr(cell, "experts")


def read_block(block: nn.Cell, title: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Copies of the weights of a block, by the names of the layer's parameters, and the layer's arguments.

    Raises:
        ValueError: the block has another form; the message begins with the title.
    """
    name, router = type(block).__name__, _router(block)
    weight = getattr(router, "weight", None)
    stacked = _stacked(block)
    if weight is None or stacked is None:
        raise ValueError(f"{title}: the block must have `gate` and `experts` of three products each, got {name}")
    if any(hasattr(block, key) for key in ("shared_expert", "shared_expert_gate")):
        raise ValueError(f"{title}: the block must have no shared_expert behind a gate, got {name}")
    if any(_has_bias(dense) for dense in [router, *_products(block)]):
        raise ValueError(f"{title}: products must have no bias, got {name} with one")
    parts = dict(zip(_PARTS, stacked, strict=True))
    (experts, inner, hidden), down = parts["gate_weight"].shape, parts["down_weight"].shape
    if weight.shape != (experts, hidden) or down != (experts, hidden, inner):
        raise ValueError(
            f"{title}: weights must be of shape (e, h), (e, i, h), (e, h, i),"
            f" got {weight.shape}, {parts['gate_weight'].shape}, {down}"
        )
    parts["router_weight"] = Tensor(weight)
    found: dict[str, Any] = {"dtype": parts["down_weight"].dtype, "router_dtype": weight.dtype}
    for key, names in _GATING.items():
        told = [getattr(owner, n) for owner in (block, router) for n in names if getattr(owner, n, None) is not None]
        if told:
            found[key] = told[0]
    bias = getattr(router, "e_score_correction_bias", None)
    if bias is not None:
        parts["router_bias"] = Tensor(bias.asnumpy().astype(np.float32))
        found |= {"scoring": "sigmoid", "group_score": "top2", "has_bias": True, "router_dtype": ms.float32}
        found["return_logits"] = False
    found["shared_experts"] = getattr(block, "shared_experts", None)
    return parts, found


def given_back(block: nn.Cell, values: Mapping[str, Any]) -> Iterator[tuple[Parameter, Any]]:
    """Yield the parameters of a block that was read, each with its part of arrays that are like the layer's parameters.

    Args:
        block: the block.
        values: NumPy arrays by the names of the layer's parameters, as weights or their gradients; some may be missing.
    """
    router, products = _router(block), _products(block)
    for key, owner, name in (
        ("router_weight", router, "weight"),
        ("router_bias", router, "e_score_correction_bias"),
        ("down_weight", block.experts, "down_proj"),
    ):
        if key in values and isinstance(getattr(owner, name, None), Parameter):
            yield getattr(owner, name), values[key]
    for number, dense in enumerate(products):
        if _PARTS[number % 3] in values:
            yield dense.weight, values[_PARTS[number % 3]][number // 3]
    if not products and "gate_weight" in values and "up_weight" in values:
        yield block.experts.gate_up_proj, np.concatenate((values["gate_weight"], values["up_weight"]), 1)


def _router(block: nn.Cell) -> Any:
    return next((getattr(block, key) for key in ("gate", "router") if hasattr(block, key)), None)


def _products(block: nn.Cell) -> list[Any]:
    """Return the products of experts that are cells: gate, up and down of each."""
    experts = getattr(block, "experts", None)
    experts = list(experts) if isinstance(experts, (nn.CellList, nn.SequentialCell, list, tuple)) else []
    named = [n for n in _NAMES if experts and all(hasattr(e, part) for e in experts for part in n)]
    return [getattr(expert, part) for expert in experts for part in named[0]] if named else []


def _stacked(block: nn.Cell) -> list[Tensor] | None:
    """Return gate, up and down of all experts."""
    products = _products(block)
    if products:
        parts = [products[part::3] for part in range(3)]
        return [_stack([Tensor(dense.weight) for dense in part]) for part in parts]
    experts = getattr(block, "experts", None)
    both, down = (getattr(experts, name, None) for name in ("gate_up_proj", "down_proj"))
    if not isinstance(both, Parameter) or not isinstance(down, Parameter) or both.ndim != 3 or both.shape[1] % 2:
        return None
    half = both.shape[1] // 2
    wide = Tensor(both).astype(ms.float32)  # MindSpore slices no bfloat16 on a CPU
    return [wide[:, :half].astype(both.dtype), wide[:, half:].astype(both.dtype), Tensor(down)]


def _has_bias(dense: Any) -> bool:
    return getattr(dense, "bias", None) is not None and bool(getattr(dense, "has_bias", True))


def _stack(tensors: list[Tensor]) -> Tensor:
    """Stack in float32, as MindSpore stacks no bfloat16 on a CPU."""
    return stock.stack([tensor.astype(ms.float32) for tensor in tensors]).astype(tensors[0].dtype)
