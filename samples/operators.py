"""Reads `ops/<op>.py`, whose contract stands in `ops/__init__.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
from ms_ascend_ops.samples import ops
from numpy.typing import NDArray

from ms_ascend_ops import registry

__all__ = ["DTYPES", "SHAPES", "SMALL_SHAPES", "Call", "Draw", "Node", "Operator", "names", "operator", "unmeasured"]

DTYPES = {
    "float32": np.dtype(np.float32),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float16": np.dtype(np.float16),
    "int32": np.dtype(np.int32),
    "int64": np.dtype(np.int64),
    "int8": np.dtype(np.int8),
}

SHAPES = (
    (1, 4096),  # one token: the cost of a call
    (128, 4096),  # in cache
    (2048, 4096),  # in memory
    (333, 4097),  # tails everywhere
)

SMALL_SHAPES = ((3, 33), (2, 40))  # different sizes everywhere; even ones, for those who halve them

# What a file in ops/ may hold besides inputs, ours, stock and pytorch.
_OPTIONAL: dict[str, Any] = {
    "VARIANTS": {"": {}},
    "SHAPES": SHAPES,
    "SMALL_SHAPES": SMALL_SHAPES,
    "OUTPUTS": 1,
    "FORWARD": None,
    "GRADIENT": None,
    "GRADIENT_VARIANTS": None,
    "TOLERANCES": {},
    "FLOPS": None,
    "attributes": lambda *shape: {},
    "operations": None,
    "bytes_moved": None,
    "onnx": None,
    "scipy": None,
    "CANN": {},
    "CANN_SHAPE": None,
}


class Draw:
    """Makes the inputs of a case. Floats have the dtype of the case unless they are given one."""

    def __init__(self, dtype: str, seed: int = 0):
        self.dtype = dtype
        self.random = np.random.default_rng(seed)

    def normal(self, *shape: int, dtype: str = "") -> NDArray[Any]:
        return self.random.standard_normal(shape, np.float32).astype(DTYPES[dtype or self.dtype])

    def integers(self, low: int, high: int, *shape: int, dtype: str = "int32") -> NDArray[Any]:
        """Draw integers of [low, high)."""
        return self.random.integers(low, high, shape).astype(DTYPES[dtype])


@dataclass(frozen=True)
class Call:
    """Describes one call of a kernel. Tensors that have another name in the case than in the definition are listed.

    In a case the gradient of `x` is `dx`; so `Call("rope", {"x": "dy"}, {"y": "dx"})` is the kernel rope on dy.
    """

    kernel: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Node:
    """Describes one node of a graph of ONNX."""

    op: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    domain: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Operator:
    """Holds what `ops/<name>.py` says, with the defaults of what it does not."""

    name: str
    inputs: Callable[..., list[NDArray[Any]]]
    ours: Callable[..., Any]
    stock: Callable[..., Any]
    pytorch: Callable[..., Any]
    onnx: Callable[..., list[Node]] | None
    scipy: Callable[..., Any] | None
    variants: Mapping[str, Mapping[str, Any]]
    shapes: Sequence[tuple[int, ...]]
    small_shapes: Sequence[tuple[int, ...]]
    outputs: int
    forward: tuple[Call, ...]
    gradient: tuple[Call, ...] | Callable[..., tuple[Call, ...]]
    gradient_variants: Sequence[str] | None
    tolerances: Mapping[str, float]
    flops: tuple[float, float] | None
    attributes: Callable[..., Mapping[str, Any]]
    operations: Callable[[Mapping[str, NDArray[Any]]], float] | None
    bytes_moved: Callable[..., int] | None
    cann: Mapping[str, Callable[..., Any]]
    cann_shape: tuple[int, ...] | None

    def variants_of(self, gradient: bool) -> list[str]:
        """Return the labels of the variants that are measured in a pass."""
        chosen = self.gradient_variants if gradient else None
        return [label for label in self.variants if chosen is None or label in chosen]

    @property
    def passes(self) -> tuple[bool, ...]:
        """Tell whether the gradient is measured, for each pass."""
        return (False, True) if self.gradient else (False,)


@cache
def names() -> tuple[str, ...]:
    """Return the names of the operators that are measured."""
    return tuple(sorted(module.name for module in iter_modules(ops.__path__)))


def unmeasured() -> list[str]:
    """Return the names of the operators that have no file in ops/."""
    return [name for name in registry.names() if name not in names()]


@cache
def operator(name: str) -> Operator:
    """Return one of them.

    Raises:
        ValueError: its file lacks something.
    """
    module = import_module(f"{ops.__name__}.{name}")
    if missing := [key for key in ("inputs", "ours", "stock", "pytorch") if not callable(getattr(module, key, None))]:
        raise ValueError(f"{module.__file__}: {', '.join(missing)} must be defined; see {ops.__file__}")
    optional = {key.lower(): _optional(module, key) for key in _OPTIONAL}
    if optional["forward"] is None:
        optional["forward"] = (Call(name),)
    if optional["gradient"] is None:
        optional["gradient"] = (Call(f"{name}_grad"),) if registry.op_spec(name).gradient else ()
    return Operator(name, module.inputs, module.ours, module.stock, module.pytorch, **optional)


def _optional(module: ModuleType, key: str) -> Any:
    return getattr(module, key, _OPTIONAL[key])
