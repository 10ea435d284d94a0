"""Runs one cell of a user's network on chosen inputs, without touching that network.

`detached` makes a copy of a cell whose parameters and sub-cells can be replaced: the copy runs the user's `construct`,
the user's cell keeps its state. `observe` runs such a copy and reads the result as NumPy.
"""

from __future__ import annotations

import inspect
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MethodType
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

__all__ = [
    "Array",
    "Observation",
    "Training",
    "detached",
    "dtype_name",
    "observe",
    "read",
    "rebound",
    "run",
    "sub_cells",
    "synchronize",
    "tensor",
]

Array = np.ndarray[Any, Any]
Training = bool | Callable[[nn.Cell], bool]  # of all cells, or of each

_DTYPES = {"float16": ms.float16, "bfloat16": ms.bfloat16, "float32": ms.float32}


def dtype_name(dtype: Any) -> str:
    """Return the name of a MindSpore dtype, as the definitions write it."""
    return str(dtype).lower().rsplit(".", 1)[-1]


def tensor(values: Array, dtype: str) -> Tensor:
    """Make a tensor of the given values by no operator: MindSpore's dispatch does not see what results of some do."""
    return Tensor(np.asarray(values, np.float32), _DTYPES[dtype])


def sub_cells(cell: nn.Cell) -> dict[str, nn.Cell]:
    """Return the cells directly inside. What `cell.recompute()` adds to them holds the cell itself, and is none."""
    return {name: child for name, child in cell._cells.items() if child is not None and name != "_recompute_cell"}


def detached(
    cell: nn.Cell,
    *,
    parameters: Mapping[str, Tensor] | None = None,
    cells: Mapping[str, Callable[..., Any]] | None = None,
    training: Training = False,
) -> nn.Cell:
    """Return a copy of `cell` with some of its parameters and sub-cells replaced, for a call of its `construct`
    from Python.

    The copy shares nothing that `construct` could write to but attributes that are themselves objects. MindSpore's C++
    part of a Cell is left out on purpose: a copy is never compiled.
    """
    kind: Any = type(cell)
    copy: nn.Cell = kind.__new__(kind)
    state = dict(cell.__dict__)
    state["_compile_cache"] = None  # on its end, a cell releases the graphs that are listed here
    state["training"] = training(cell) if callable(training) else training
    state["requires_grad"] = False
    state["_params"] = OrderedDict(state["_params"])
    for name, value in (parameters or {}).items():
        state["_params"][name] = Parameter(value, name=name, requires_grad=False)
    state["_cells"] = OrderedDict(
        (name, detached(child, training=training))
        for name, child in sub_cells(cell).items()
        if not cells or name not in cells
    )
    state["_cells"].update(cells or {})
    copy.__dict__.update(rebound(state, cell, copy))
    return copy


def rebound(state: Mapping[str, Any], old: nn.Cell, new: nn.Cell) -> dict[str, Any]:
    """Rebind attributes of a cell that hold its methods to those of a copy: `self.norm = self._norm` in `__init__`."""
    return {
        name: MethodType(value.__func__, new) if isinstance(value, MethodType) and value.__self__ is old else value
        for name, value in state.items()
    }


def run(cell: nn.Cell, *inputs: Any, **named: Any) -> Any:
    """Call the `construct` of a detached cell as plain Python, also where it is decorated with `ms.jit`."""
    construct = inspect.unwrap(cell.construct)
    return construct(*inputs, **named) if inspect.ismethod(construct) else construct(cell, *inputs, **named)


@dataclass(frozen=True)
class Observation:
    """Hold what a cell returned: its values in float64 and its dtype, or the first line of what went wrong."""

    values: Array | None = None
    dtype: str = ""
    error: str = ""


def observe(cell: nn.Cell, *inputs: Tensor) -> Observation:
    """Run a detached cell.

    A user's cell may raise anything when it is given an input that it was not made for; that is an answer too.
    """
    try:
        result = run(cell, *inputs)
        if not isinstance(result, Tensor):
            return Observation(error=f"it returns {type(result).__name__}")
        return Observation(read(result), dtype_name(result.dtype))  # reading also waits for errors of its operators
    except Exception as error:
        synchronize()
        lines = str(error).strip().splitlines()
        return Observation(error=f"{type(error).__name__}: {lines[0] if lines else ''}")


def synchronize() -> None:
    """Wait for the operators in flight after an error: each may raise its own, in whatever is called next.

    They are checked on another thread, so one call that succeeds does not show that all have raised. Where each
    operator runs to its end before the next, none is in flight.
    """
    if ms.get_context("pynative_synchronize"):
        return
    quiet = 0
    for _ in range(20):
        time.sleep(0.02)
        try:
            Parameter(ops.add(Tensor([0.0]), 1.0), name="synchronize").asnumpy()
            quiet += 1
        except Exception:
            quiet = 0
        if quiet == 2:
            return


def read(value: Tensor) -> Array:
    """Return the values of a tensor in float64. NumPy converts bfloat16, too: MindSpore's Cast takes a millisecond."""
    return np.asarray(value.asnumpy().astype(np.float64))
