"""Tell what kind of layer a cell is, for whoever watches the cell around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from mindspore import Parameter, Tensor, mint, nn
from ms_ascend_ops.cells.conv2d import is_convolution
from ms_ascend_ops.cells.conv2d import settings as convolution_settings
from ms_ascend_ops.export.graphs.bypass import bypassing
from ms_ascend_ops.export.graphs.probe import detached, dtype_name, read, run, sub_cells, synchronize

__all__ = ["activation_of", "is_small", "matrix_of", "operator_of", "width_of", "without_activation"]


def activation_of(cell: nn.Cell) -> str:
    """Return the sub-cell of a linear layer that is its activation, by name; none, if there is not exactly one."""
    matrices = [p for p in cell._params.values() if p is not None and p.ndim == 2]
    names = [name for name, child in sub_cells(cell).items() if is_small(child)]
    children = sub_cells(cell)
    if len(matrices) != 1 or len(names) != 1 or len(children) != 1 or list(children[names[0]].get_parameters()):
        return ""
    return names[0]


def without_activation(cell: nn.Cell, activation: str, args: Sequence[Any]) -> bool:
    """Tell whether a cell has a construct without its activation, and that behind it gives what the cell gives."""
    function = bypassing(cell, activation)
    if function is None:
        return False
    try:
        whole = run(detached(cell), *args)
        parts = run(detached(cell._cells[activation]), function(detached(cell), *args))
        return bool(np.array_equal(read(whole), read(parts)))
    except Exception:  # it takes other inputs
        synchronize()
        return False


def is_small(cell: nn.Cell) -> bool:
    """Tell whether a cell is looked into where it is part of another: it has vectors at most, and few sub-cells."""
    return all(p.ndim <= 1 for p in cell.get_parameters()) and len(list(cell.cells_and_names())) <= 4


def matrix_of(cell: nn.Cell) -> Any:
    """Return the weight of a linear layer: a cell without sub-cells that has one matrix, and perhaps vectors."""
    if sub_cells(cell):
        return None
    parameters = [p for p in cell._params.values() if p is not None]
    matrices = [p for p in parameters if p.ndim == 2]
    return matrices[0] if len(matrices) == 1 and all(p.ndim <= 2 for p in parameters) else None


def operator_of(cell: nn.Cell) -> str:
    """Return the operator that computes a plain layer of MindSpore's; none of another cell."""
    if not set(cell._params) <= {"weight", "bias"}:
        return ""
    if type(cell) in (nn.Dense, mint.nn.Linear):
        return "" if getattr(cell, "activation_flag", False) else "matmul"
    return "conv2d" if is_convolution(cell) and convolution_settings(cell) is not None else ""


def width_of(cell: nn.Cell, weight: Parameter, x: Tensor) -> int:
    """Return the number of features that a linear layer returns for `x`; 0 if this is no such layer."""
    if "mbedding" in type(cell).__name__ or "float" not in dtype_name(x.dtype) or not x.shape:
        return 0
    outputs, inputs = weight.shape
    return outputs if x.shape[-1] == inputs else inputs if x.shape[-1] == outputs else 0
