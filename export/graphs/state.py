"""Put back what a network keeps between its calls: parameters, tensors, plain values of its cells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from mindspore import Parameter, Tensor, nn

__all__ = ["State"]

_INTERNAL = frozenset(nn.Cell().__dict__)


class State:
    """Keeps the state that a network had when this was made.

    It is a copy of all that the network holds, until `forget_unchanged` leaves what has had to be put back.
    """

    def __init__(self, net: nn.Cell) -> None:
        cells = [cell for _, cell in net.cells_and_names()]
        self._tensors = {id(t): (t, np.array(_bits(t))) for t in _tensors(net, cells)}
        self._attributes = {id(cell): (cell, {n: _copy(v) for n, v in _own(cell).items()}) for cell in cells}
        self._changed: set[int] = set()

    def forget_unchanged(self) -> None:
        """Forget what was never written: later runs of the network write the same."""
        self._tensors = {key: pair for key, pair in self._tensors.items() if key in self._changed}
        self._attributes = {key: pair for key, pair in self._attributes.items() if key in self._changed}

    def restore(self) -> None:
        """Put everything back."""
        for key, (tensor, old) in self._tensors.items():
            if not _same(tensor, old):
                self._changed.add(key)
                _write(tensor, old)
        for key, (cell, values) in self._attributes.items():
            if _differs(cell, values):
                self._changed.add(key)
                for name in [name for name in _own(cell) if name not in values]:
                    del cell.__dict__[name]
                cell.__dict__.update({name: _copy(value) for name, value in values.items()})


def _own(cell: nn.Cell) -> dict[str, Any]:
    """Return the attributes that a user has given to a cell, but parameters and cells, which it keeps apart."""
    return {n: v for n, v in cell.__dict__.items() if n not in _INTERNAL and not isinstance(v, (nn.Cell, Parameter))}


def _tensors(net: nn.Cell, cells: list[nn.Cell]) -> Iterator[Tensor]:
    yield from (p for p in net.get_parameters() if not p.has_init)
    for cell in cells:
        yield from (value for value in _own(cell).values() if isinstance(value, Tensor))


def _copy(value: Any) -> Any:
    return type(value)(value) if type(value) in (list, dict, set) else value


def _equal(now: Any, before: Any) -> bool:
    """Tell whether an attribute is still what it was: the same object, or a list of the same objects."""
    if type(now) is not type(before):
        return False
    if isinstance(now, (list, tuple)):
        return len(now) == len(before) and all(_equal(a, b) for a, b in zip(now, before, strict=True))
    if isinstance(now, dict):
        return now.keys() == before.keys() and all(_equal(now[key], before[key]) for key in now)
    if isinstance(now, (bool, int, float, str, set)):
        return bool(now == before)
    return now is before


def _differs(cell: nn.Cell, values: dict[str, Any]) -> bool:
    own = _own(cell)
    return own.keys() != values.keys() or not all(_equal(own[name], value) for name, value in values.items())


def _bits(tensor: Tensor) -> np.ndarray[Any, Any]:
    return np.asarray(tensor.asnumpy(), order="C")  # unlike ascontiguousarray it leaves a scalar one


def _same(tensor: Tensor, old: np.ndarray[Any, Any]) -> bool:
    """Tell whether a tensor has the same bits as before; NaN is as good as any."""
    new = _bits(tensor)
    if (new.shape, new.dtype) != (old.shape, old.dtype):
        return False
    return bool(np.array_equal(new.reshape(-1).view(np.uint8), old.reshape(-1).view(np.uint8)))


def _write(tensor: Tensor, old: np.ndarray[Any, Any]) -> None:
    before = Tensor(old, tensor.dtype)
    if isinstance(tensor, Parameter):
        tensor.set_data(before)
    else:
        tensor.assign_value(before)
