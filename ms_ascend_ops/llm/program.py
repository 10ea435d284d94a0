"""Records a network as a list of kernel launches on fixed memory.

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
from ms_ascend_ops.definitions.inference import infer_shapes, infer_types
from ms_ascend_ops.library import native
from ms_ascend_ops.super_kernel import CAST, LAST_ROW, VIEW, Step, Value, as_text

__all__ = ["Eager", "Launch", "Program", "Recorder", "Symbol"]

Array = np.ndarray[Any, Any]
Result = tuple[tuple[int, ...], np.dtype[Any]]  # shape and dtype


class Symbol:
    """Names a result that a program will have: a value of its list, with shape and dtype."""

    def __init__(self, recorder: Recorder, value: Value, shape: tuple[int, ...], dtype: np.dtype[Any]):
        self.recorder = recorder
        self.value = value
        self.shape = shape
        self.dtype = dtype

    def reshape(self, *shape: int) -> Symbol:
        """Return the same elements in another shape; one size may be -1."""
        count = math.prod(self.shape)
        known = math.prod(size for size in shape if size != -1)
        sizes = tuple(count // known if size == -1 else size for size in shape)
        if math.prod(sizes) != count:
            raise ValueError(f"reshape: {self.shape} has {count} elements, {shape} has not")
        return self.recorder.view(VIEW, self, sizes)

    def astype(self, dtype: np.dtype[Any]) -> Symbol:
        """Return the same numbers in another type of floats."""
        return self.recorder.cast(self, dtype)

    def last_row(self) -> Symbol:
        """Return the last of the rows, as a matrix of one row."""
        return self.recorder.view(LAST_ROW, self, (1, self.shape[-1]))


@dataclass
class Launch:
    """Describes a kernel that is called. An input that is not given is None."""

    operator: str
    inputs: list[Symbol | Array | None]
    outputs: list[Symbol]
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class _Call:
    """Calls a function of Python that changes the content of a result."""

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
    """Stands for `ms_ascend_ops.ops` while a network is recorded: every operator as its definition has it.

    launches: the kernels that were called so far.
    """

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self._steps: list[Step | _Call] = []
        self._symbols: dict[Value, Symbol] = {}
        self._inputs: list[Array] = []
        self._numbers: dict[int, int] = {}  # of the inputs, by id

    def __getattr__(self, operator: str) -> Callable[..., Any]:
        if operator not in registry.names():
            raise AttributeError(f"there is no operator {operator}")
        return partial(self._operator, registry.signature(operator))

    def _operator(self, signature: registry.Signature, *given: Any, **named: Any) -> Any:
        """Call an operator, with its inputs and attributes in the order of the definition or by name."""
        names = [one.name for one in signature.inputs] + [one.name for one in signature.attributes]
        if len(given) > len(names) or named.keys() & set(names[: len(given)]) or named.keys() - set(names):
            raise TypeError(f"{signature.name} takes {', '.join(names)}, each once")
        values = dict(zip(names, given, strict=False)) | named
        inputs = {tensor.name: values.pop(tensor.name, None) for tensor in signature.inputs}
        attributes = signature.check_attributes(values)
        arrays = list(inputs.values())
        shapes = infer_shapes(signature, [None if one is None else one.shape for one in arrays], attributes)
        dtypes = infer_types(signature, [None if one is None else one.dtype.name for one in arrays])
        floats = {one.dtype.name: one.dtype for one in arrays if one is not None}  # bfloat16, which NumPy cannot name
        types = [floats.get(name) or np.dtype(name) for name in dtypes]
        outputs = self._call(signature.name, arrays, attributes, list(zip(map(tuple, shapes), types, strict=True)))
        if signature.writes:  # what the function of MindSpore returns
            return tuple(inputs[name] for name in signature.writes)
        return outputs[0] if len(outputs) == 1 else outputs

    def _call(
        self, operator: str, inputs: Sequence[Any], attributes: Mapping[str, Any], results: Sequence[Result]
    ) -> list[Any]:  # fmt: skip
        given = [None if one is None else self._value(one) for one in inputs]
        self._steps.append(Step(operator, given, attributes, outputs=len(results)))
        step = len(self._steps) - 1
        outputs = [self._symbol(Value(step, output), *result) for output, result in enumerate(results)]
        self.launches.append(Launch(operator, list(inputs), outputs, attributes))
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
        """Return what was recorded, with these results."""
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


class Eager(Recorder):
    """Calls the operators at once on arrays."""

    def _call(
        self, operator: str, inputs: Sequence[Any], attributes: Mapping[str, Any], results: Sequence[Result]
    ) -> list[Any]:  # fmt: skip
        outputs: list[Any] = [np.empty(*result) for result in results]
        arrays = [None if one is None else np.ascontiguousarray(one) for one in inputs]
        native().prepare(operator, arrays, outputs, dict(attributes))()
        return outputs


def _read(step: Step | _Call) -> list[Value]:
    """Return the values that a step needs."""
    dims = [dim[0] for dim in step.dims if not isinstance(dim, int)]
    return [value for value in step.inputs if value is not None] + dims
