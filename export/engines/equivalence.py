"""Find cells that are alike, so that one is judged for all, and those that must stay as they are."""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection
from types import MethodType
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn
from mindspore.common.initializer import Initializer
from ms_ascend_ops.export.graphs.probe import dtype_name, read, sub_cells

__all__ = ["equivalence_key", "form_of", "unsupported_reason"]

_INTERNAL = frozenset(nn.Cell().__dict__)
_COMPARED = 2**20  # elements of a tensor that is compared by its values
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_SEED = re.compile(r"\bSeed[01]=-?\d+")  # of dropout: each has its own


def equivalence_key(cell: nn.Cell) -> Any:
    """Return a key that is equal for cells that compute the same with their own parameters: class, attributes,
    shapes, sub-cells.
    """
    own: list[Any] = []
    for name, value in cell.__dict__.items():
        if name in _INTERNAL:
            continue
        if name == "_cell_init_args":  # a text, in which initializers have their addresses
            value = _ADDRESS.sub("", str(value))  # noqa: PLW2901
        if isinstance(value, (int, float, str, bool, type(None))):
            own.append((name, type(value).__name__, value))
        elif isinstance(value, dict) and all(isinstance(v, (int, float, str, bool)) for v in value.values()):
            own.append((name, "dict", tuple(sorted(value.items()))))
        elif isinstance(value, ms.ops.Primitive):
            own.append((name, type(value).__name__, _SEED.sub("", str(value))))
        elif isinstance(value, (nn.Cell, Parameter, Initializer)):  # the last made the parameters, and is done
            continue
        elif isinstance(value, MethodType) and value.__self__ is cell:
            own.append((name, "method", value.__func__.__qualname__))
        elif isinstance(value, Tensor) and value.size <= _COMPARED:  # a table, as of relative positions
            content = zlib.crc32(np.ascontiguousarray(read(value)).tobytes())
            own.append((name, "tensor", value.shape, dtype_name(value.dtype), content))
        elif isinstance(value, (tuple, list)) and all(isinstance(v, (int, float, str, bool)) for v in value):
            own.append((name, "sequence", tuple(value)))
        elif isinstance(value, (tuple, list)) and all(isinstance(v, nn.Cell) for v in value):
            own.append((name, "cells", len(value)))
        else:
            own.append((name, "object", id(value)))
    parameters = [(n, p.shape, dtype_name(p.dtype)) for n, p in cell._params.items() if p is not None]
    children = [(n, equivalence_key(c)) for n, c in sub_cells(cell).items()]
    return type(cell), tuple(own), tuple(parameters), tuple(children)


def form_of(cell: nn.Cell) -> Any:
    """Return a key that is equal for cells with the same flat source: their numbers and tensors stay attributes
    there.
    """
    own: list[Any] = []
    for name, value in cell.__dict__.items():
        if name in _INTERNAL or name == "_cell_init_args" or isinstance(value, (nn.Cell, Parameter, Initializer)):
            continue
        if isinstance(value, (str, bool, type(None))):
            own.append((name, value))
        elif isinstance(value, MethodType) and value.__self__ is cell:
            own.append((name, value.__func__.__qualname__))
        elif isinstance(value, (int, float, Tensor, ms.ops.Primitive)):
            own.append((name, type(value)))
        elif isinstance(value, (tuple, list)) and all(isinstance(v, (int, float)) for v in value):
            own.append((name, type(value), len(value)))
        elif isinstance(value, dict) and all(isinstance(v, (int, float, str)) for v in value.values()):
            own.append((name, tuple(sorted(value))))
        else:
            own.append((name, id(value)))
    children = [(n, type(c), len(c) if isinstance(c, nn.CellList) else 0) for n, c in sub_cells(cell).items()]
    return type(cell), tuple(own), tuple(n for n, p in cell._params.items() if p is not None), tuple(children)


def _is_float32(cell: nn.Cell) -> bool:
    """Tell whether a cell computes in float32 by itself: a cast to that does nothing."""
    return all(p.dtype == ms.float32 for p in cell.get_parameters())


def unsupported_reason(cell: nn.Cell, layers: Collection[str] = ()) -> str:
    """Say why a cell that computes a pattern must stay. `layers`: sub-cells that are not called any more."""
    hooks = ("_forward_pre_hook", "_forward_hook", "_backward_pre_hook", "_backward_hook")
    for name, child in cell.cells_and_names():
        if name in layers and (reason := unsupported_reason(child)):
            return f"{name}: {reason}"
    inside = [c for c in sub_cells(cell).values() if not list(c.get_parameters())]
    if any(getattr(c, name) for c in (cell, *inside) for name in hooks):
        return "a hook is registered on it"
    if cell._shard_fn or cell._in_strategy or cell._out_strategy:
        return "it has a parallel strategy"
    flags = getattr(cell, "_func_graph_flags", None) or {}
    # On a cell around it, it does no harm. MindSpore 2.8 and earlier say it the other way round.
    if "output_recompute" in flags or "output_no_recompute" in flags:
        return "recompute is set on it"
    if any(flags.get(name) for name in ("fp16", "bf16")) or (flags.get("fp32") and not _is_float32(cell)):
        return "it casts its inputs (to_float or automatic mixed precision)"
    return ""
