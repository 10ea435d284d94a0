"""Describes one case of an operator: its attributes, a shape and a dtype; and its data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from ms_ascend_ops.samples.operators import DTYPES, Call, Draw, Operator, operator
from numpy.typing import NDArray

from ms_ascend_ops import registry
from ms_ascend_ops.definitions.inference import infer_shapes, infer_types
from ms_ascend_ops.library import check_built

__all__ = ["Case", "Launch", "all_cases"]


@dataclass(frozen=True)
class Launch:
    """Launches a kernel on memory that stays the same from call to call."""

    kernel: str
    inputs: list[NDArray[Any] | None]  # None: an optional one that is absent
    outputs: list[NDArray[Any]]
    attributes: dict[str, Any]


@dataclass(frozen=True)
class Case:
    """Describes one row of the benchmark. With `gradient` it is what a training step does: forward, then gradient."""

    operator_name: str
    gradient: bool
    shape: tuple[int, ...]
    dtype: str
    variant: str = ""

    @property
    def panel(self) -> str:
        """Return what the table of this case is called."""
        variant = f"[{self.variant}]" if self.variant else ""
        return f"{self.operator_name}{'_grad' if self.gradient else ''}{variant} {self.dtype}"

    @property
    def size(self) -> str:
        """Return the shape, as it is written: 128x4096."""
        return "x".join(map(str, self.shape))

    @property
    def name(self) -> str:
        return f"{self.panel} {self.size}"

    @property
    def operator(self) -> Operator:
        return operator(self.operator_name)

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Return the attributes by name; the functions of the operator and its kernels get them."""
        return {**self.operator.attributes(*self.shape), **self.operator.variants[self.variant]}

    @cached_property
    def inputs(self) -> list[NDArray[Any]]:
        """Return the inputs as they were drawn, those that are written in place, too: providers take `own_inputs`."""
        return self.operator.inputs(Draw(self.dtype), *self.shape)

    def own_inputs(self) -> list[NDArray[Any]]:
        """Return the inputs, for one provider: copies of those that it writes."""
        return [array.copy() if i in self.written else array for i, array in enumerate(self.inputs)]

    @property
    def written(self) -> list[int]:
        """Return the positions of the inputs that are changed in place."""
        return [self.input_names.index(name) for name in registry.signature(self.operator_name).writes]

    @property
    def input_names(self) -> list[str]:
        """Return the names. Optional inputs are the last ones, and may be absent."""
        names = [tensor.name for tensor in registry.op_spec(self.operator_name).forward.inputs]
        return names[: len(self.inputs)]

    @property
    def output_names(self) -> list[str]:
        """Return the names of what the functions return: the inputs that are changed in place, or else outputs."""
        signature = registry.signature(self.operator_name)
        return list(signature.writes) or [tensor.name for tensor in signature.outputs][: self.operator.outputs]

    @property
    def differentiable(self) -> list[int]:
        """Return the positions of the inputs that have a gradient."""
        return [i for i, name in enumerate(self.input_names) if self.gradient and f"d{name}" in self.arrays]

    @property
    def dys(self) -> list[NDArray[Any]]:
        """Return gradients of the outputs that the functions return."""
        return [self.arrays[f"d{name}"] for name in self.output_names]

    @property
    def results(self) -> list[NDArray[Any]]:
        """Return what our kernels computed: what the functions return, then the gradients."""
        gradients = [self.arrays[f"d{self.input_names[i]}"] for i in self.differentiable]
        return [self.arrays[name] for name in self.output_names] + gradients

    @cached_property
    def _prepared(self) -> tuple[list[Launch], dict[str, NDArray[Any]]]:
        arrays = dict(zip(self.input_names, self.own_inputs(), strict=True))
        launches = [self._launch(call, arrays) for call in self.operator.forward]
        if self.gradient:
            returned, draw = self.output_names, Draw(self.dtype, 1)
            outputs = [tensor.name for tensor in registry.op_spec(self.operator_name).forward.outputs]
            for name in outputs:  # an output that the functions do not return has a gradient of 0
                like = arrays[name]
                gradient = draw.normal(*like.shape, dtype=like.dtype.name) if name in returned else np.zeros_like(like)
                arrays[f"d{name}"] = gradient
            given = self.operator.gradient
            calls = given(arrays, self.attributes) if callable(given) else given
            launches += [self._launch(call, arrays) for call in calls]
        return launches, arrays

    def _launch(self, call: Call, arrays: dict[str, NDArray[Any]]) -> Launch:
        signature = registry.signature(call.kernel)
        check_built(signature)
        attributes = signature.check_attributes({**self.attributes, **call.attributes})
        inputs = [arrays.get(call.inputs.get(tensor.name, tensor.name)) for tensor in signature.inputs]
        shapes = infer_shapes(signature, [None if array is None else array.shape for array in inputs], attributes)
        dtypes = infer_types(signature, [None if array is None else array.dtype.name for array in inputs])
        outputs = [_poisoned(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
        for tensor, array in zip(signature.outputs, outputs, strict=True):
            arrays[call.outputs.get(tensor.name, tensor.name)] = array
        return Launch(call.kernel, inputs, outputs, attributes)

    @property
    def launches(self) -> list[Launch]:
        """Return every kernel, in order."""
        return self._prepared[0]

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return every array of the launches by its name."""
        return self._prepared[1]

    @property
    def bytes(self) -> int:
        """Return the least that has to move: every input of every kernel once, every output once."""
        if self.operator.bytes_moved is not None:
            return self.operator.bytes_moved(self.arrays, self.gradient)
        arrays = (array for launch in self.launches for array in (*launch.inputs, *launch.outputs))
        return sum(array.nbytes for array in arrays if array is not None)

    @property
    def flops(self) -> float | None:
        """Return the floating-point operations, if the operator says how many an element takes."""
        if self.operator.operations is not None:
            return self.operator.operations(self.arrays)
        if self.operator.flops is None:
            return None
        per_element = self.operator.flops[0] + (self.operator.flops[1] if self.gradient else 0)
        return per_element * math.prod(self.arrays[self.output_names[0]].shape)


def _poisoned(shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    """Return an output full of NaN; integers have none."""
    return np.full(shape, -1 if dtype.startswith("int") else np.nan, DTYPES[dtype])


def all_cases(
    chosen: Iterable[str], dtypes: Iterable[str], shapes: Iterable[tuple[int, ...]] = ()
) -> tuple[list[Case], list[str]]:
    """Return the cases of the chosen operators (`rms_norm`, `rms_norm_grad`), and those of them that have none.

    Of `shapes`, an operator is measured on those that have as many sizes as its own.
    """
    cases, without = [], []
    dtypes, shapes = list(dtypes), list(shapes)
    for name in chosen:
        op = operator(name.removesuffix("_grad"))
        ranks = {len(shape) for shape in op.shapes}
        fitting = [shape for shape in shapes if len(shape) in ranks] if shapes else op.shapes
        if not fitting:
            without.append(name)
        cases += [
            Case(op.name, name.endswith("_grad"), tuple(shape), dtype, variant)
            for variant in op.variants_of(name.endswith("_grad"))
            for dtype in dtypes
            for shape in fitting
        ]
    return cases, without
