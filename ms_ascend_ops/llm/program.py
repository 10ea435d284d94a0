"""A network as a list of kernel launches on fixed memory.

A network is Python that calls operators. Here it is called once for each shape, with a `Recorder` in the place of
`ms_ascend_ops.ops`: what it calls is noted down, as a list that the kernel library launches by one call (a super
kernel, ms_ascend_ops/super_kernel.py). The library gives intermediate results places in an arena by their lifetimes.
Where a function of Python stands between kernels, as a sum over processes, the list ends, and another one goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from ms_ascend_ops import registry
from ms_ascend_ops.inference import infer_shapes, infer_types
from ms_ascend_ops.library import native
from ms_ascend_ops.super_kernel import CAST, LAST_ROW, VIEW, Step, Value, as_text

__all__ = ["Launch", "Program", "Recorder", "Symbol"]

Array = np.ndarray[Any, Any]


class Symbol:
    """A result that a program will have: a value of its list, with shape and dtype."""

    def __init__(self, recorder: Recorder, value: Value, shape: tuple[int, ...], dtype: np.dtype[Any]):
        self.recorder = recorder
        self.value = value
        self.shape = shape
        self.dtype = dtype

    def reshape(self, *shape: int) -> Symbol:
        """The same elements in another shape; one size may be -1."""
        count = math.prod(self.shape)
        known = math.prod(size for size in shape if size != -1)
        sizes = tuple(count // known if size == -1 else size for size in shape)
        if math.prod(sizes) != count:
            raise ValueError(f"reshape: {self.shape} has {count} elements, {shape} has not")
        return self.recorder.view(VIEW, self, sizes)

    def astype(self, dtype: np.dtype[Any]) -> Symbol:
        """The same numbers in another type of floats."""
        return self.recorder.cast(self, dtype)

    def last_row(self) -> Symbol:
        """The last of the rows, as a matrix of one row."""
        return self.recorder.view(LAST_ROW, self, (1, self.shape[-1]))


@dataclass
class Launch:
    """A kernel that is called. An input that is not given is None."""

    operator: str
    inputs: list[Symbol | Array | None]
    outputs: list[Symbol]
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class _Call:
    """A function of Python that changes the content of a result."""

    function: Callable[[Array], None]
    inputs: Sequence[Value]
    dims: Sequence[int | tuple[Value, int]] = ()


class Program:
    """Lists of kernels on their arrays. Inputs may change before each run; `outputs` are read after it."""

    def __init__(self, runs: Sequence[Callable[[], object]], outputs: list[Array]):
        self._runs = runs
        self.outputs = outputs

    def run(self) -> None:
        """Launch them."""
        for run in self._runs:
            run()


class Recorder:
    """Stands for `ms_ascend_ops.ops` while a network is recorded: the functions that networks here call.

    launches: the kernels that were called so far.
    """

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self._steps: list[Step | _Call] = []
        self._symbols: dict[Value, Symbol] = {}
        self._inputs: list[Array] = []
        self._numbers: dict[int, int] = {}  # of the inputs, by id

    def matmul(
        self, x: Any, weight: Any, bias: Any = None, transpose_x: bool = False, transpose_weight: bool = False,
        activation: str = "none",
    ) -> Symbol:  # fmt: skip
        """`ops.matmul`."""
        attributes = {"transpose_x": transpose_x, "transpose_weight": transpose_weight, "activation": activation}
        return self._call("matmul", (x, weight, bias), **attributes)[0]

    def weight_quant_matmul(
        self, x: Any, weight: Any, scale: Any, offset: Any = None, bias: Any = None, quantize_x: str = "none"
    ) -> Symbol:
        """`ops.weight_quant_matmul`."""
        return self._call("weight_quant_matmul", (x, weight, scale, offset, bias), quantize_x=quantize_x)[0]

    def weight_quant_swiglu(
        self, x: Any, weight: Any, scale: Any, offset: Any = None, bias: Any = None, quantize_x: str = "none"
    ) -> Symbol:
        """`ops.weight_quant_swiglu`."""
        return self._call("weight_quant_swiglu", (x, weight, scale, offset, bias), quantize_x=quantize_x)[0]

    def rms_norm(self, x: Any, gamma: Any, epsilon: float = 1e-6) -> list[Symbol]:
        """`ops.rms_norm`."""
        return self._call("rms_norm", (x, gamma), epsilon=epsilon)

    def add_rms_norm(self, x1: Any, x2: Any, gamma: Any, epsilon: float = 1e-6) -> list[Symbol]:
        """`ops.add_rms_norm`."""
        return self._call("add_rms_norm", (x1, x2, gamma), epsilon=epsilon)

    def qkv_rotary_embedding(
        self, qkv: Any, cos: Any, sin: Any, q_heads: int, k_heads: int, v_heads: int, layout: str
    ) -> list[Symbol]:
        """`ops.qkv_rotary_embedding`."""
        heads = {"q_heads": q_heads, "k_heads": k_heads, "v_heads": v_heads}
        return self._call("qkv_rotary_embedding", (qkv, cos, sin), **heads, layout=layout)

    def rotary_embedding(self, x: Any, cos: Any, sin: Any) -> Symbol:
        """`ops.rotary_embedding` of layout BSND."""
        return self._call("rotary_embedding", (x, cos, sin))[0]

    def kv_cache_update(self, key: Any, value: Any, key_cache: Any, value_cache: Any, slots: Any) -> tuple[Any, Any]:
        """`ops.kv_cache_update`."""
        self._call("kv_cache_update", (key, value, key_cache, value_cache, slots))
        return key_cache, value_cache

    def paged_attention(self, query: Any, key_cache: Any, value_cache: Any, tables: Any, lengths: Any) -> Symbol:
        """`ops.paged_attention` with the usual scale."""
        scale = float(query.shape[-1]) ** -0.5
        return self._call("paged_attention", (query, key_cache, value_cache, tables, lengths), scale=scale)[0]

    def swiglu(self, x: Any) -> Symbol:
        """`ops.swiglu` over the last axis."""
        return self._call("swiglu", (x,))[0]

    def _call(self, operator: str, inputs: Sequence[Any], **attributes: Any) -> list[Symbol]:
        signature = registry.signature(operator)
        values = signature.check_attributes(attributes)
        shapes = infer_shapes(signature, [None if one is None else one.shape for one in inputs], values)
        dtypes = infer_types(signature, [None if one is None else one.dtype.name for one in inputs])
        floats = {one.dtype.name: one.dtype for one in inputs if one is not None}  # bfloat16, which NumPy cannot name
        given = [None if one is None else self._value(one) for one in inputs]
        self._steps.append(Step(operator, given, values, outputs=len(shapes)))
        step = len(self._steps) - 1
        outputs = [
            self._symbol(Value(step, output), tuple(shape), floats.get(name) or np.dtype(name))
            for output, (shape, name) in enumerate(zip(shapes, dtypes, strict=True))
        ]
        self.launches.append(Launch(operator, list(inputs), outputs, values))
        return outputs

    def view(self, kind: str, source: Symbol, shape: tuple[int, ...]) -> Symbol:
        """Note down another view of a result."""
        self._steps.append(Step(kind, [source.value], dims=shape if kind == VIEW else ()))
        return self._symbol(Value(len(self._steps) - 1), shape, source.dtype)

    def cast(self, source: Symbol, dtype: np.dtype[Any]) -> Symbol:
        """Note down a conversion."""
        self._steps.append(Step(CAST, [source.value], dtype=dtype.name))
        return self._symbol(Value(len(self._steps) - 1), source.shape, dtype)

    def in_place(self, function: Callable[[Array], None], x: Symbol) -> Symbol:
        """Call a function of Python that changes what it gets. The symbol is of the changed values; `x` is gone."""
        self._steps.append(_Call(function, [x.value]))
        return self._symbol(Value(len(self._steps) - 1), x.shape, x.dtype)

    def _symbol(self, value: Value, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Symbol:
        self._symbols[value] = Symbol(self, value, shape, dtype)
        return self._symbols[value]

    def _value(self, source: Symbol | Array) -> Value:
        if isinstance(source, Symbol):
            return source.value
        number = self._numbers.setdefault(id(source), len(self._inputs))
        if number == len(self._inputs):
            self._inputs.append(source)
        return Value(-1, number)

    def program(self, results: Sequence[Symbol]) -> Program:
        """What was recorded, with these results."""
        wanted = [symbol.value for symbol in results]
        arrays = {Value(-1, number): array for number, array in enumerate(self._inputs)}
        runs: list[Callable[[], object]] = []
        first = 0
        for last in [i for i, step in enumerate(self._steps) if isinstance(step, _Call)] + [len(self._steps)]:
            later = {*wanted, *chain.from_iterable(map(_read, self._steps[last:]))}
            runs += self._list(first, last, sorted(value for value in later if first <= value.step < last), arrays)
            if last < len(self._steps):
                call = self._steps[last]
                assert isinstance(call, _Call)
                array = arrays.pop(call.inputs[0])  # so that a later use of it is an error
                runs.append(partial(call.function, array))
                arrays[Value(last)] = array
            first = last + 1
        return Program(runs, [arrays[value] for value in wanted])

    def _list(
        self, first: int, last: int, outputs: Sequence[Value], arrays: dict[Value, Array]
    ) -> list[Callable[[], object]]:  # fmt: skip
        """Prepare the launch of steps between two functions. `arrays` gets those of the outputs."""
        if first == last:
            return []
        steps = [step for step in self._steps[first:last] if isinstance(step, Step)]
        given = list(dict.fromkeys(value for step in steps for value in _read(step) if value.step < first))
        place = {value: Value(-1, number) for number, value in enumerate(given)}

        def own(value: Value) -> Value:
            return place.get(value) or Value(value.step - first, value.output)

        moved = [
            replace(
                step,
                inputs=[None if value is None else own(value) for value in step.inputs],
                dims=[dim if isinstance(dim, int) else (own(dim[0]), dim[1]) for dim in step.dims],
            )
            for step in steps
        ]
        symbols = [self._symbols[value] for value in outputs]
        arrays |= {value: np.empty(one.shape, one.dtype) for value, one in zip(outputs, symbols, strict=True)}
        text = as_text(len(given), moved, map(own, outputs))
        return [
            native().prepare(
                "super_kernel", [arrays[value] for value in given], [arrays[value] for value in outputs],
                {"kernels": text},
            )
        ]  # fmt: skip


def _read(step: Step | _Call) -> list[Value]:
    """The values that a step needs."""
    dims = [dim[0] for dim in step.dims if not isinstance(dim, int)]
    return [value for value in step.inputs if value is not None] + dims
