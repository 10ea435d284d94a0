"""The graph of one cell, from watching what its `construct` executes.

A detached copy of the cell runs as plain Python on given inputs, and every primitive that it executes becomes a node.
Sub-cells with matrices are not run: a call of one is a node of its own, and returns random numbers. Small sub-cells
(activations, norms) are looked into: the `origin` of a node is the call in which it was executed, and the values that
such a call returns remember it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, mint, nn
from ms_ascend_ops.cells.conv2d import is_convolution
from ms_ascend_ops.cells.conv2d import settings as convolution_settings
from ms_ascend_ops.export.graphs.bypass import bypassing, name_without
from ms_ascend_ops.export.graphs.graph import CALL, CONSTANT, INPUT, PARAMETER, Graph, Node, constant
from ms_ascend_ops.export.graphs.probe import detached, dtype_name, read, run, settle, sub_cells, tensor
from ms_ascend_ops.export.matching.patterns import repeats
from ms_ascend_ops.export.matching.turning import turning, turns_pairs
from ms_ascend_ops.export.stand_ins import BY_PRIMITIVE

from ms_ascend_ops.ops.conv2d import conv2d

__all__ = ["OWNER", "Spec", "Trace", "is_small", "matrix_of", "operator_of", "spec_of", "trace", "unobserved"]


@dataclass(frozen=True)
class Spec:
    """Shape and dtype of a tensor, in the place of the tensor."""

    shape: tuple[int, ...]
    dtype: str
    repeats: str = ""  # for a table of a rotary embedding: what `patterns.repeats` says of it
    turns: str = ""  # for a matrix: what `expressions.turns_pairs` says of it

    def draw(self, seed: int) -> Tensor:
        """A tensor of this kind with random values."""
        random = np.random.default_rng(seed)
        if self.turns:
            matrix = turning(self.turns, self.shape[-1])
            return tensor(np.broadcast_to(matrix, self.shape), self.dtype)
        if self.dtype in ("float32", "float16", "bfloat16"):
            values = random.standard_normal(self.shape)
            if self.repeats in ("half", "both"):
                values[..., self.shape[-1] // 2 :] = values[..., : self.shape[-1] // 2]
            if self.repeats in ("interleave", "both"):
                values[..., 1::2] = values[..., 0::2]
            return tensor(values, self.dtype)
        if self.dtype == "bool":
            return Tensor(random.random(self.shape) < 0.5)
        return Tensor(np.ones(self.shape, np.int64), getattr(ms, self.dtype))


class _Owner:
    def __repr__(self) -> str:
        return "the cell"


OWNER = _Owner()  # the cell itself, among the described inputs of a function


def spec_of(value: Any) -> Any:
    """A value with its tensors described instead of held."""
    if isinstance(value, Tensor):
        dtype, small = dtype_name(value.dtype), value.ndim > 1 and value.shape[-1] <= 512 and 0 < value.size <= 2**20
        if not small or "float" not in dtype:
            return Spec(tuple(value.shape), dtype)
        values = value.asnumpy() if dtype == "float32" else read(value)
        first = values.reshape(-1, *values.shape[-2:])[0]  # few tensors get beyond that
        return Spec(
            tuple(value.shape),
            dtype,
            repeats(first) and repeats(values),
            turns_pairs(first) and turns_pairs(values),
        )
    if isinstance(value, (tuple, list)):
        return tuple(spec_of(item) for item in value)
    return value


@dataclass
class Trace:
    """What a cell did with its inputs. `result` is what it returned, as nodes in the same tuples, and as values."""

    graph: Graph
    result: Any
    values: Any
    calls: dict[int, tuple[Node, int | None]] = field(repr=False)  # by id of a value's node: which call returned it
    passed: dict[tuple[str, int], Any] = field(repr=False)  # what sub-cells that were not run were called with
    places: dict[int, Any] = field(repr=False)  # by id of a node: what `locate` said when it was recorded


class _Recorder(ms.MsDispatchMode):  # type: ignore[misc]
    """Every primitive that runs within the context, as a node."""

    def __init__(self, locate: Callable[[_Recorder], Any] | None = None) -> None:
        super().__init__()
        self.locate = locate
        self.places: dict[int, Any] = {}
        self.nodes: list[Node] = []
        self.calls: dict[int, tuple[Node, int | None]] = {}
        # By content: MindSpore hands out a new Python object for a tensor each time, and data here are random numbers.
        self._by_content: dict[Any, Node] = {}
        self.passed: dict[tuple[str, int], Any] = {}
        self.layers: frozenset[str] = frozenset()  # operators whose layers show weight and bias where they are called
        self.dtype = ""  # of the parameters of layers, where it is another than their own
        self.split = False  # whether linear layers with an activation are two: one that is called without, and that
        self._paused = 0
        self._call: Node | None = None

    def __ms_dispatch__(self, func: Any, args: Any, kwargs: Any = None) -> Any:
        if self._paused:
            return func(*args)
        with self.paused():
            result = _execute(func, args)
            attributes, inputs = {}, args
            if args and isinstance(args[0], ms.ops.Primitive):  # an old primitive comes with its name and a tuple
                attributes, inputs = dict(args[0].attrs), args[2] if len(args) > 2 else ()
                inputs = inputs if isinstance(inputs, tuple) else (inputs,)
            self.record(Node(func.name, tuple(map(self.node, inputs)), attributes=attributes), result)
        return result

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Record nothing within the block."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    @contextmanager
    def within(self, call: Node) -> Iterator[None]:
        """What is recorded within the block belongs to this call, or to the one that it is a part of."""
        before, self._call = self._call, self._call or call
        try:
            yield
        finally:
            self._call = before

    def is_within(self) -> bool:
        return self._call is not None

    def returned(self, call: Node, result: Any) -> None:
        """Enter a call that was looked into, and that its results come from it."""
        self.nodes.append(call)
        items = result if isinstance(result, (tuple, list)) else (result,)
        for index, item in enumerate(items):
            with self.paused():
                made = self.node(item)
            if all(made is not i for i in call.inputs):  # what hands its input on, as dropout does in evaluation
                self.calls[id(made)] = (call, index if isinstance(result, (tuple, list)) else None)

    def is_paused(self) -> bool:
        return self._paused > 0

    def add(self, value: Any, node: Node) -> None:
        """From now on, `value` is this node."""
        self._by_content[_content(value)] = node

    def record(self, node: Node, result: Any) -> None:
        """Enter a node and what it returned: a tensor, or a tuple of which each item is a node too."""
        node.origin = self._call
        if self.locate is not None:
            self.places[id(node)] = self.locate(self)
        self.nodes.append(node)
        if isinstance(result, Tensor):
            node.shape, node.dtype = tuple(result.shape), dtype_name(result.dtype)
            self.add(result, node)
        elif isinstance(result, (tuple, list)):
            for index, item in enumerate(result):
                self.record(Node("TupleGetItem", (node, constant(index))), item)

    def node(self, value: Any) -> Node:
        """The node of a value; of one that no primitive made, a constant."""
        if isinstance(value, Tensor):
            if (known := self._by_content.get(_content(value))) is not None:
                return known
            number = read(value) if value.size == 1 and "float" in dtype_name(value.dtype) else None
            if value.size == 1 and number is None:
                number = value.asnumpy()
            described = spec_of(value)
            attributes = {"repeats": described.repeats, "turns": described.turns}
            return Node(CONSTANT, (), "", described.shape, described.dtype, attributes=attributes, value=number)
        if isinstance(value, (tuple, list)) and any(isinstance(item, Tensor) for item in value):
            made = Node("MakeTuple", tuple(map(self.node, value)), origin=self._call)
            self.nodes.append(made)
            return made
        return constant(tuple(value) if isinstance(value, list) else value)


def _execute(func: Any, args: Any) -> Any:
    """Run a primitive; one without a kernel here by our operator, or in float32 with results rounded to bfloat16."""
    try:
        result = func(*args)
        if not ms.get_context("pynative_synchronize"):
            _read(result)  # an operator that does not fit raises now, and not later
        return result
    except Exception:
        settle()
        if func.name in BY_PRIMITIVE:
            return BY_PRIMITIVE[func.name](*(args[2] if isinstance(args[0], ms.ops.Primitive) else args))
        if not any(isinstance(a, Tensor) and a.dtype == ms.bfloat16 for a in _flat(args)):
            raise
    return _mapped(func(*_mapped(args, ms.bfloat16, ms.float32)), ms.float32, ms.bfloat16)


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _flat(item)
    else:
        yield value


def _mapped(value: Any, old: Any, new: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(_mapped(item, old, new) for item in value)
    return Tensor(read(value).astype(np.float32), new) if isinstance(value, Tensor) and value.dtype == old else value


def _content(value: Tensor) -> Any:
    """What tells the values of a run apart: all of a small one; of a large one the sum of its bits, and a sample.

    The data are random numbers. To read a large one twice, to keep it and to hash it takes longer than what is watched.
    """
    values = np.ascontiguousarray(read(value) if value.dtype == ms.bfloat16 else value.asnumpy())
    kind = tuple(value.shape), dtype_name(value.dtype)
    if values.nbytes <= _SAMPLED:
        return kind, values.tobytes()
    words = values.reshape(-1).view(np.uint8)
    words = words[: words.size // 8 * 8].view(np.uint64)
    return kind, int(words.sum()), words[:: words.size // 1024].tobytes(), values.reshape(-1)[-8:].tobytes()


_SAMPLED = 2**15  # bytes


class _SubCell:
    """A sub-cell while its cell is watched: records the call, and looks into it or returns random numbers."""

    def __init__(self, cell: nn.Cell, path: str, recorder: _Recorder, returns: Mapping[int, Any], training: bool):
        self._cell, self._path, self._recorder, self._training = cell, path, recorder, training
        self._returns = returns.get(id(cell))
        self._times = 0
        self.copy = _with_random_vectors(cell, path, training) if is_small(cell) else cell
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
                result = self._stand_in(args, kwargs)
            recorder.record(call, result)
        return result

    def _linear(self, activation: str, *args: Any) -> Any:
        """What a linear layer gives without its activation."""
        recorder = self._recorder
        with recorder.paused():
            result = self._stand_in(args, {})
            attributes = {"keywords": (), "positional": len(args), "without": activation}
            recorder.record(Node(CALL, tuple(map(recorder.node, args)), self._path, attributes=attributes), result)
        return result

    def _layer(self, args: Sequence[Any], kwargs: Mapping[str, Any], call: Node) -> Any:
        """What a layer gives that an operator computes, and its parameters at the call; None if it is none such."""
        op = operator_of(self._cell)
        if op not in self._recorder.layers or kwargs or len(args) != 1:
            return None
        parameters = self._cell._params | _cast_parameters(self._cell, self._recorder.dtype)
        settings: dict[str, Any] = (convolution_settings(self._cell) or {}) if op == "conv2d" else {}
        try:
            if op == "conv2d":  # a convolution of MindSpore's may take seconds, on a CPU that its oneDNN does not know
                result = conv2d(args[0], parameters["weight"], parameters.get("bias"), **settings)
            else:
                result = run(detached(self._cell, parameters=parameters), *args)
            _read(result)
        except Exception:  # other dtypes than that of its weight, say
            settle()
            return None
        for name in ("weight", "bias"):
            parameter = parameters.get(name)
            if parameter is not None:
                shape, dtype = tuple(parameter.shape), dtype_name(parameter.dtype)
                call.inputs += (Node(PARAMETER, (), f"{self._path}.{name}", shape, dtype),)
        call.attributes |= {"layer": op, "settings": settings}
        return result

    def _stand_in(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        self._times += 1
        self._recorder.passed[self._path, self._times] = _read((*args, *kwargs.values()))
        seed = zlib.crc32(f"{self._path} {self._times}".encode())
        first = next((a for a in args if isinstance(a, Tensor)), None)
        weight = matrix_of(self._cell)
        if first is not None and weight is not None and (width := _width(self._cell, weight, first)):
            return Spec((*first.shape[:-1], width), dtype_name(first.dtype)).draw(seed)
        if self._returns is not None:
            return _drawn(self._returns, seed)
        return run(detached(self._cell, training=False), *args, **kwargs)


class _Method:
    """A method of a watched cell: looked into, and a call that can be written as it was."""

    def __init__(self, copy: nn.Cell, name: str, function: Any, recorder: _Recorder) -> None:
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


def _drawn(spec: Any, seed: int) -> Any:
    if isinstance(spec, Spec):
        return spec.draw(seed)
    return tuple(_drawn(item, seed + 1 + i) for i, item in enumerate(spec)) if isinstance(spec, tuple) else spec


def activation_of(cell: nn.Cell) -> str:
    """The sub-cell of a linear layer that is its activation, by name; none, if there is not exactly one."""
    matrices = [p for p in cell._params.values() if p is not None and p.ndim == 2]
    names = [name for name, child in sub_cells(cell).items() if is_small(child)]
    children = sub_cells(cell)
    if len(matrices) != 1 or len(names) != 1 or len(children) != 1 or list(children[names[0]].get_parameters()):
        return ""
    return names[0]


def without_activation(cell: nn.Cell, activation: str, args: Sequence[Any]) -> bool:
    """Whether a cell has a construct without its activation, and that behind it gives what the cell gives."""
    function = bypassing(cell, activation)
    if function is None:
        return False
    try:
        whole = run(detached(cell), *args)
        parts = run(detached(cell._cells[activation]), function(detached(cell), *args))
        return bool(np.array_equal(read(whole), read(parts)))
    except Exception:  # it takes other inputs
        settle()
        return False


def is_small(cell: nn.Cell) -> bool:
    """Whether a cell is looked into where it is part of another: it has vectors at most, and few sub-cells."""
    return all(p.ndim <= 1 for p in cell.get_parameters()) and len(list(cell.cells_and_names())) <= 4


def matrix_of(cell: nn.Cell) -> Any:
    """The weight of a linear layer: a cell without sub-cells that has one matrix, and perhaps vectors."""
    if sub_cells(cell):
        return None
    parameters = [p for p in cell._params.values() if p is not None]
    matrices = [p for p in parameters if p.ndim == 2]
    return matrices[0] if len(matrices) == 1 and all(p.ndim <= 2 for p in parameters) else None


def operator_of(cell: nn.Cell) -> str:
    """The operator that computes a plain layer of MindSpore's; none of another cell."""
    if not set(cell._params) <= {"weight", "bias"}:
        return ""
    if type(cell) in (nn.Dense, mint.nn.Linear):
        return "" if getattr(cell, "activation_flag", False) else "matmul"
    return "conv2d" if is_convolution(cell) and convolution_settings(cell) is not None else ""


def _width(cell: nn.Cell, weight: Parameter, x: Tensor) -> int:
    """The features that a linear layer returns for `x`; 0 if this is no such layer."""
    if "mbedding" in type(cell).__name__ or "float" not in dtype_name(x.dtype) or not x.shape:
        return 0
    outputs, inputs = weight.shape
    return outputs if x.shape[-1] == inputs else inputs if x.shape[-1] == outputs else 0


@contextmanager
def _indexing_recorded(recorder: _Recorder) -> Iterator[None]:
    """Also record `x[...]`, which MindSpore does not send through its dispatch."""
    original = Tensor.__getitem__

    def getitem(self: Tensor, index: Any) -> Any:
        if recorder.is_paused():
            return original(self, index)
        with recorder.paused():
            source = recorder.node(self)
            result = original(self, index)
            if result is not self:
                recorder.record(Node("getitem", (source,), attributes={"index": index}), result)
        return result

    Tensor.__getitem__ = getitem
    try:
        yield
    finally:
        Tensor.__getitem__ = original


def trace(
    cell: nn.Cell,
    inputs: Mapping[str, Any],
    *,
    training: bool = False,
    returns: Mapping[int, Any] | None = None,
    construct: Callable[..., Any] | None = None,
    locate: Callable[[Any], Any] | None = None,
    layers: frozenset[str] = frozenset(),
    dtype: str = "",
    split: bool = False,
    methods: Mapping[str, Any] | None = None,
) -> Trace | str:
    """Watch `cell` on inputs given by name; a text says why it could not be.

    `returns` describes what sub-cells return, by their id. `construct` is what runs instead of the cell's own. `locate`
    is called with the recorder at every node. The layers of operators in `layers` are run, and show their parameters;
    `dtype` is what mixed precision would cast those to. With `split`, linear layers with an activation are called
    without it. `methods` are those of the cell whose calls are nodes.
    """
    recorder = _Recorder(locate)
    recorder.layers, recorder.dtype, recorder.split = layers, dtype, split
    copy = _watched(cell, recorder, returns or {}, training)
    for name, function in (methods or {}).items():
        copy.__dict__[name] = _Method(copy, name, function, recorder)
    for path, parameter in _small_parameters(copy):
        shape, dtype = tuple(parameter.shape), dtype_name(parameter.dtype)
        recorder.add(parameter, Node(PARAMETER, (), path, shape, dtype))
    for name, value in inputs.items():
        _enter(recorder, name, value)
    try:
        with _indexing_recorded(recorder), recorder:
            result = run(copy, **inputs) if construct is None else construct(copy, **inputs)
        values = _read(result)
    except Exception as error:  # a user's cell may raise anything for inputs that it was not made for
        settle()
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


def _enter(recorder: _Recorder, name: str, value: Any) -> None:
    """Let the recorder know the tensors of an input, which may be a tuple of some."""
    if isinstance(value, Tensor):
        described = spec_of(value)
        attributes = {"repeats": described.repeats, "turns": described.turns}
        recorder.add(value, Node(INPUT, (), name, described.shape, described.dtype, attributes=attributes))
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            _enter(recorder, f"{name}[{index}]", item)


def unobserved(node: Node) -> bool:
    """Whether a value came from somewhere that was not watched: it may have been computed from the inputs."""
    return node.kind == CONSTANT and node.shape is not None and node.value is None


def _read(value: Any) -> Any:
    """Values as NumPy; reading also waits for late errors of the operators."""
    if isinstance(value, (tuple, list)):
        return tuple(map(_read, value))
    return read(value) if isinstance(value, Tensor) else value


def _watched(cell: nn.Cell, recorder: _Recorder, returns: Mapping[int, Any], training: bool) -> nn.Cell:
    """A detached copy whose sub-cells tell the recorder what they are called with."""

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
    parameters = _random_vectors(cell, "") | _cast_parameters(cell, recorder.dtype)
    copy = detached(cell, cells=cells, training=training, parameters=parameters)
    if isinstance(cell, nn.SequentialCell):
        copy.__dict__["cell_list"] = tuple(cells.values())
    return copy


def _random_vectors(cell: nn.Cell, path: str) -> dict[str, Tensor]:
    """Values for the vectors among a cell's own parameters, such that no two are equal."""
    return {
        name: tensor(
            np.random.default_rng(zlib.crc32(f"{path}.{name}".encode())).uniform(0.5, 1.5, p.shape), dtype_name(p.dtype)
        )
        for name, p in cell._params.items()
        if p is not None and p.ndim <= 1 and dtype_name(p.dtype) in ("float32", "float16", "bfloat16")
    }


def _cast_parameters(cell: nn.Cell, dtype: str) -> dict[str, Tensor]:
    """The parameters of a layer in a dtype, as mixed precision casts them where they are used."""
    if not dtype or not operator_of(cell):
        return {}
    return {name: tensor(read(p), dtype) for name, p in cell._params.items() if p is not None}


def _with_random_vectors(cell: nn.Cell, path: str, training: bool) -> nn.Cell:
    cells = {name: _with_random_vectors(c, f"{path}.{name}", training) for name, c in sub_cells(cell).items()}
    copy = detached(cell, parameters=_random_vectors(cell, path), cells=cells, training=training)
    if isinstance(cell, nn.SequentialCell):
        copy.__dict__["cell_list"] = tuple(cells.values())
    return copy


def _small_parameters(copy: nn.Cell, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
    """Parameters of a watched cell and of the sub-cells that are looked into, with their paths."""
    for name, parameter in copy._params.items():
        if parameter is not None:
            yield f"{prefix}{name}", parameter
    for name, child in copy._cells.items():
        inner = child.copy if isinstance(child, _SubCell) else child
        if inner is not None and is_small(inner):
            yield from _small_parameters(inner, f"{prefix}{name}.")
