"""Registers attention of networks of MindNLP where transformers has a place for one."""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from typing import Any

from ms_ascend_ops.export.reports.report import Entry, Report

from ms_ascend_ops import ops

__all__ = ["NAME", "use_attention"]

NAME = "ms_ascend_ops"


def attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    scaling: float | None = None,
    dropout: float = 0.0,
    **others: Any,
) -> tuple[Any, Any]:
    """Attend as transformers asks: queries, keys and values are of shape (batch, heads, sequence, width)."""
    unknown = any(others.get(name) is not None for name in ("softcap", "head_mask", "s_aux", "position_bias"))
    if unknown or (dropout and module.training) or query.shape[-1] > 256:
        stock = sys.modules[type(module).__module__].eager_attention_forward
        return stock(module, query, key, value, attention_mask, scaling=scaling, dropout=dropout, **others)  # type: ignore[no-any-return]
    mask = attention_mask
    if mask is not None and mask.ndim == 4:
        mask = mask[:, :, :, : key.shape[-2]]
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    result = ops.flash_attention(query, key, value, mask, scale=scale)
    result = result[0] if isinstance(result, tuple) else result
    result._device = query._device
    return result.transpose(1, 2), None


def use_attention(network: Any, report: Report) -> None:
    """Have a network call `attention`, if it asks transformers for one."""
    configs = {id(c): c for m in network.modules() if (c := getattr(m, "config", None)) is not None}
    stock = {key: c._attn_implementation for key, c in configs.items() if hasattr(c, "_attn_implementation")}
    places = [path for path, module in network.named_modules() if _asks(module)]
    if not places:
        return
    import_module("transformers.modeling_utils").AttentionInterface.register(NAME, attention)
    for library in ("transformers", "mindnlp.transformers"):  # MindNLP has the masks of decoders once more
        masks = import_module(f"{library}.masking_utils")
        table = masks.ALL_MASK_ATTENTION_FUNCTIONS
        enter: Any = table.__setitem__ if isinstance(table, dict) else table.register
        enter(NAME, masks.eager_mask)
    for key in stock:
        configs[key]._attn_implementation_internal = NAME
    report.entries.extend(Entry(place, "attention", "transformers", True, "registered") for place in places)

    def undo() -> None:
        for key, name in stock.items():
            configs[key]._attn_implementation_internal = name

    report.undo.append(undo)


def _asks(module: Any) -> bool:
    """Tell whether the forward of a module asks transformers for a function of attention."""
    return "ALL_ATTENTION_FUNCTIONS" in inspect.unwrap(type(module).forward).__code__.co_names
