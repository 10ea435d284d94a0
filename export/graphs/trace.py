"""Builds the graph of one cell by watching what its `construct` executes.

A detached copy of the cell runs as plain Python on given inputs, and every primitive that it executes becomes a node.
Sub-cells with matrices are not run: a call of one is a node of its own, and returns random numbers. Small sub-cells
(activations, norms) are looked into: the `origin` of a node is the call in which it was executed, and the values that
such a call returns remember it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from mindspore import Parameter, Tensor, nn
from ms_ascend_ops.cells.conv2d import settings as convolution_settings
from ms_ascend_ops.export.graphs.bypass import name_without
from ms_ascend_ops.export.graphs.graph import CALL, CONSTANT, INPUT, PARAMETER, Graph, Node
from ms_ascend_ops.export.graphs.layers import (
    activation_of,
    is_small,
    matrix_of,
    operator_of,
    width_of,
    without_activation,
)
from ms_ascend_ops.export.graphs.probe import Training, detached, dtype_name, read, run, sub_cells, synchronize, tensor
from ms_ascend_ops.export.graphs.recorder import Recorder, indexing_recorded, operators_recorded, values_of
from ms_ascend_ops.export.graphs.specs import Spec, drawn, spec_of

from ms_ascend_ops.ops.conv2d import conv2d

__all__ = ["Trace", "trace", "unobserved"]


@dataclass
class Trace:
    """Hold what a cell did. `result` is what it returned, as nodes in the same tuples, and as values."""

    graph: Graph
    result: Any
    values: Any
    calls: dict[int, tuple[Node, int | None]] = field(repr=False)  # by id of a value's node: which call returned it
    passed: dict[tuple[str, int], Any] = field(repr=False)  # what sub-cells that were not run were called with
    places: dict[int, Any] = field(repr=False)  # by id of a node: what `locate` said when it was recorded


class _SubCell:
    """Records the calls of a sub-cell while its cell is watched, and looks into it or returns random numbers."""

    def __init__(self, cell: nn.Cell, path: str, recorder: Recorder, returns: Mapping[int, Any], training: Training):
        self._cell, self._path, self._recorder, self._training = cell, path, recorder, training
        self._returns = returns.get(id(cell))
        self._times = 0
        self.copy = _with_random_vectors(cell, path, training, recorder) if is_small(cell) else cell
        if activation := activation_of(cell):
            self.__dict__[name_without(activation)] = partial(self._linear, activation)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.copy, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recorder = self._recorder
        if recorder.is_paused():
            return run(self._cell, *args, **kwargs)
        with recorder.paused():
            inputs = tuple(map(recorder.node, [*args, *kwargs.values()]))
        call = Node(CALL, inputs, self._path, attributes={"keywords": tuple(kwargs), "positional": len(args)})
        if is_small(self._cell):
            with recorder.within(call):
                result = run(self.copy, *args, **kwargs)
            recorder.returned(call, result)
            return result
        activation = activation_of(self._cell) if recorder.split and not kwargs else ""
        with recorder.paused():
            parts = bool(activation) and without_activation(self._cell, activation, args)
        if parts:
            return run(detached(self._cell._cells[activation]), self._linear(activation, *args))
        with recorder.paused():
            result = self._layer(args, kwargs, call)
            if result is None:
                result = self._placeholder(args, kwargs)
            recorder.record(call, result)
        return result

    def _linear(self, activation: str, *args: Any) -> Any:
        """Return what a linear layer gives without its activation."""
        recorder = self._recorder
        with recorder.paused():
            result = self._placeholder(args, {})
            attributes = {"keywords": (), "positional": len(args), "without": activation}
            recorder.record(Node(CALL, tuple(map(recorder.node, args)), self._path, attributes=attributes), result)
        return result

    def _layer(self, args: Sequence[Any], kwargs: Mapping[str, Any], call: Node) -> Any:
        """Return the result of a layer that an operator computes, and its parameters then; None for other layers."""
        op = operator_of(self._cell)
        if op not in self._recorder.layers or kwargs or len(args) != 1:
            return None
        parameters = self._cell._params | _cast_parameters(self._cell, self._recorder)
        settings: dict[str, Any] = (convolution_settings(self._cell) or {}) if op == "conv2d" else {}
        try:
            if op == "conv2d":  # a convolution of MindSpore's may take seconds, on a CPU that its oneDNN does not know
                result = conv2d(args[0], parameters["weight"], parameters.get("bias"), **settings)
            else:
                result = run(detached(self._cell, parameters=parameters), *args)
            values_of(result)
        except Exception:  # other dtypes than that of its weight, say
            synchronize()
            return None
        for name in ("weight", "bias"):
            parameter = parameters.get(name)
            if parameter is not None:
                shape, dtype = tuple(parameter.shape), dtype_name(parameter.dtype)
                call.inputs += (Node(PARAMETER, (), f"{self._path}.{name}", shape, dtype),)
        call.attributes |= {"layer": op, "settings": settings}
        return result

    def _placeholder(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        self._times += 1
        self._recorder.passed[self._path, self._times] = values_of((*args, *kwargs.values()))
        seed = zlib.crc32(f"{self._path} {self._times}".encode())
        first = next((a for a in args if isinstance(a, Tensor)), None)
        weight = matrix_of(self._cell)
        if first is not None and weight is not None and (width := width_of(self._cell, weight, first)):
            return Spec((*first.shape[:-1], width), dtype_name(first.dtype)).draw(seed)
        if self._returns is not None:
            return drawn(self._returns, seed)
        return run(detached(self._cell, training=False), *args, **kwargs)


class _Method:
    """Records the calls of a method of a watched cell: looked into, and written as it was."""

    def __init__(self, copy: nn.Cell, name: str, function: Any, recorder: Recorder) -> None:
        self._copy, self._name, self._function, self._recorder = copy, name, function, recorder

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recorder = self._recorder
        if recorder.is_paused() or recorder.is_within():
            return self._function(self._copy, *args, **kwargs)
        with recorder.paused():
            inputs = tuple(map(recorder.node, [*args, *kwargs.values()]))
        call = Node(CALL, inputs, self._name, attributes={"keywords": tuple(kwargs), "positional": len(args)})
        with recorder.within(call):
            result = self._function(self._copy, *args, **kwargs)
        recorder.returned(call, result)
        return result


def trace(
    cell: nn.Cell,
    inputs: Mapping[str, Any],
    *,
    training: Training = False,
    returns: Mapping[int, Any] | None = None,
    construct: Callable[..., Any] | None = None,
    locate: Callable[[Any], Any] | None = None,
    layers: frozenset[str] = frozenset(),
    dtype: str = "",
    whole: bool = False,
    split: bool = False,
    methods: Mapping[str, Any] | None = None,
) -> Trace | str:
    """Watch `cell` on inputs given by name; a text says why it could not be.

    `returns` describes what sub-cells return, by their id. `construct` is what runs instead of the cell's own. `locate`
    is called with the recorder at every node. The layers of operators in `layers` are run, and show their parameters;
    `dtype` is what mixed precision would cast those to; with `whole`, those of all cells. With `split`, linear layers
    with an activation are called without it. `methods` are those of the cell whose calls are nodes.
    """
    recorder = Recorder(locate)
    recorder.layers, recorder.dtype, recorder.whole, recorder.split = layers, dtype, whole, split
    copy = recorder.cell = _watched(cell, recorder, returns or {}, training)
    for name, function in (methods or {}).items():
        copy.__dict__[name] = _Method(copy, name, function, recorder)
    for path, parameter in _small_parameters(copy):
        shape, dtype = tuple(parameter.shape), dtype_name(parameter.dtype)
        recorder.add(parameter, Node(PARAMETER, (), path, shape, dtype))
    for name, value in vars(cell).items():  # a mask, say; the parameters are elsewhere
        if isinstance(value, Tensor) and not isinstance(value, Parameter) and value.size:
            node = recorder.node(value)
            if node.kind == CONSTANT:
                node.name = name
                recorder.add(value, node)
    for name, value in inputs.items():
        _enter(recorder, name, value)
    try:
        with indexing_recorded(recorder), operators_recorded(recorder), recorder:
            result = run(copy, **inputs) if construct is None else construct(copy, **inputs)
        values = values_of(result)
    except Exception as error:  # a user's cell may raise anything for inputs that it was not made for
        synchronize()
        lines = str(error).strip().splitlines()
        return f"{type(error).__name__}: {lines[0] if lines else ''}"
    nodes: list[Node] = []

    def noded(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return tuple(map(noded, value))
        nodes.append(recorder.node(value))
        return nodes[-1]

    structure = noded(result)
    return Trace(Graph(recorder.nodes, nodes), structure, values, recorder.calls, recorder.passed, recorder.places)


def _enter(recorder: Recorder, name: str, value: Any) -> None:
    """Let the recorder know the tensors of an input, which may be a tuple of some."""
    if isinstance(value, Tensor):
        described = spec_of(value)
        attributes = {"repeats": described.repeats, "rotates": described.rotates}
        recorder.add(value, Node(INPUT, (), name, described.shape, described.dtype, attributes=attributes))
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            _enter(recorder, f"{name}[{index}]", item)


def unobserved(node: Node) -> bool:
    """Tell whether a value came from somewhere that was not watched: it may have been computed from the inputs."""
    return node.kind == CONSTANT and node.shape is not None and node.value is None


def _watched(cell: nn.Cell, recorder: Recorder, returns: Mapping[int, Any], training: Training) -> nn.Cell:
    """Return a detached copy whose sub-cells tell the recorder what they are called with."""

    def wrapped(owner: nn.Cell, prefix: str) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, child in sub_cells(owner).items():
            path = f"{prefix}{name}"
            if isinstance(child, nn.CellList):
                made[name] = detached(child, cells=wrapped(child, f"{path}."))
            else:
                made[name] = _SubCell(child, path, recorder, returns, training)
        return made

    cells = wrapped(cell, "")
    parameters = _random_vectors(cell, "", recorder) | _cast_parameters(cell, recorder)
    copy = detached(cell, cells=cells, training=training, parameters=parameters)
    if isinstance(cell, nn.SequentialCell):
        copy.__dict__["cell_list"] = tuple(cells.values())
    return copy


def _random_vectors(cell: nn.Cell, path: str, recorder: Recorder) -> dict[str, Tensor]:
    """Draw values for the vectors among a cell's own parameters, such that no two are equal."""
    cast = recorder.dtype if recorder.whole else ""
    return {
        name: tensor(
            np.random.default_rng(zlib.crc32(f"{path}.{name}".encode())).uniform(0.5, 1.5, p.shape),
            cast or dtype_name(p.dtype),
        )
        for name, p in cell._params.items()
        if p is not None and p.ndim <= 1 and dtype_name(p.dtype) in ("float32", "float16", "bfloat16")
    }


def _cast_parameters(cell: nn.Cell, recorder: Recorder) -> dict[str, Tensor]:
    """Return the parameters of a layer in a dtype, as mixed precision casts them where they are used."""
    if not recorder.dtype or not operator_of(cell):
        return {}
    return {name: tensor(read(p), recorder.dtype) for name, p in cell._params.items() if p is not None}


def _with_random_vectors(cell: nn.Cell, path: str, training: Training, recorder: Recorder) -> nn.Cell:
    cells = {name: _with_random_vectors(c, f"{path}.{name}", training, recorder) for name, c in sub_cells(cell).items()}
    copy = detached(cell, parameters=_random_vectors(cell, path, recorder), cells=cells, training=training)
    if isinstance(cell, nn.SequentialCell):
        copy.__dict__["cell_list"] = tuple(cells.values())
    return copy


def _small_parameters(copy: nn.Cell, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
    """Yield parameters of a watched cell and of the sub-cells that are looked into, with their paths."""
    for name, parameter in copy._params.items():
        if parameter is not None:
            yield f"{prefix}{name}", parameter
    for name, child in copy._cells.items():
        inner = child.copy if isinstance(child, _SubCell) else child
        if inner is not None and is_small(inner):
            yield from _small_parameters(inner, f"{prefix}{name}.")
