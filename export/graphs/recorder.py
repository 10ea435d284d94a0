"""Records every primitive that runs within a block of Python as a node of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor
from ms_ascend_ops.export.builtins.shims import BY_PRIMITIVE
from ms_ascend_ops.export.graphs.dispatch_mode import DispatchMode
from ms_ascend_ops.export.graphs.graph import BATCH_NORMS, CONSTANT, INPUT, PARAMETER, Node, constant
from ms_ascend_ops.export.graphs.probe import dtype_name, read, synchronize
from ms_ascend_ops.export.graphs.specs import spec_of

from ms_ascend_ops.custom import FusedPrimitive
from ms_ascend_ops.mindspore_versions import device_target

__all__ = ["Recorder", "indexing_recorded", "operators_recorded", "values_of"]


class Recorder(DispatchMode):  # type: ignore[misc]
    """Records every primitive that runs within the context as a node."""

    def __init__(self, locate: Callable[[Recorder], Any] | None = None) -> None:
        super().__init__()
        self.locate = locate
        self.cell: Any = None  # the copy that is watched
        self.places: dict[int, Any] = {}
        self.nodes: list[Node] = []
        self.calls: dict[int, tuple[Node, int | None]] = {}
        # Compare by content: MindSpore returns a new Python object for a tensor each time, and data here are random
        # numbers.
        self._by_content: dict[Any, Node] = {}
        self.passed: dict[tuple[str, int], Any] = {}
        self.layers: frozenset[str] = frozenset()  # operators whose layers show weight and bias where they are called
        self.dtype = ""  # of the parameters of layers, where it is another than their own
        self.whole = False  # whether it is that of all other parameters, too
        self.split = False  # whether linear layers with an activation are two: one that is called without, and that
        self._paused = 0
        self._call: Node | None = None

    def __ms_dispatch__(self, func: Any, args: Any, kwargs: Any = None) -> Any:
        if self._paused:
            return func(*args)
        with self.paused():
            changed = tuple(map(self.node, args)) if func.name in _IN_PLACE else ()
            result = _execute(func, args)
            if changed:  # seen from outside where an input or a parameter changes: that is another operator
                of_the_cell = changed[0].kind in (INPUT, PARAMETER)
                self.record(Node(func.name if of_the_cell else _IN_PLACE[func.name], changed), result)
                return result
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
        """Count what is recorded within the block to this call, or to the one that it is a part of."""
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
        """Let `value` be this node from now on."""
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
            # A batch normalization with given statistics leaves its other outputs as memory was, which may hold a value
            # of another node.
            for index, item in enumerate(result[:1] if node.kind in BATCH_NORMS else result):
                self.record(Node("TupleGetItem", (node, constant(index))), item)

    def node(self, value: Any) -> Node:
        """Return the node of a value; of one that no primitive made, a constant."""
        if isinstance(value, Tensor):
            if (known := self._by_content.get(_content(value))) is not None:
                return known
            number = read(value) if value.size == 1 and "float" in dtype_name(value.dtype) else None
            if value.size == 1 and number is None:
                number = value.asnumpy()
            described = spec_of(value)
            attributes = {"repeats": described.repeats, "rotates": described.rotates, "filled": _filled(value)}
            return Node(CONSTANT, (), "", described.shape, described.dtype, attributes=attributes, value=number)
        if isinstance(value, (tuple, list)) and any(isinstance(item, Tensor) for item in value):
            made = Node("MakeTuple", tuple(map(self.node, value)), origin=self._call)
            self.nodes.append(made)
            return made
        return constant(tuple(value) if isinstance(value, list) else value)


def _filled(value: Tensor) -> float | None:
    """Return 0 or 1, where a vector of floats is that throughout: PyNative does not always show `ops.ones` and
    `ops.zeros`.
    """
    if value.ndim != 1 or value.size < 2 or "float" not in dtype_name(value.dtype):
        return None
    values = read(value)
    return float(values[0]) if values[0] in (0, 1) and (values == values[0]).all() else None


# `x += y` is the first on an NPU; the second computes the same, and is what MindSpore calls on a CPU.
_IN_PLACE = {
    "InplaceAddExt": "AddExt",
    "InplaceAddsExt": "AddScalar",
    "InplaceSubExt": "SubExt",
    "InplaceSubScalar": "SubScalar",
    "InplaceMul": "Mul",
    "InplaceMuls": "Muls",
    "InplaceDiv": "Div",
    "InplaceDivs": "Divs",
}


def _execute(func: Any, args: Any) -> Any:
    """Run a primitive; one without a kernel here by our operator, or in float32 with results rounded to bfloat16."""
    narrow = any(isinstance(a, Tensor) and a.dtype == ms.bfloat16 for a in _flat(args))
    if not (device_target() == "CPU" and (func.name in _UNREGISTERED or (narrow and func.name in _WITHOUT_BFLOAT16))):
        try:
            result = func(*args)
            if func.name in BY_PRIMITIVE or narrow or not ms.get_context("pynative_synchronize"):
                # Read the values: an operator that does not fit raises now, not later, as MindSpore 2.7 may have
                # threads all the same.
                values_of(result)
            return result
        except Exception:
            synchronize()
            if func.name not in BY_PRIMITIVE and not narrow:
                raise
    if func.name in BY_PRIMITIVE:
        return BY_PRIMITIVE[func.name](*(args[2] if isinstance(args[0], ms.ops.Primitive) else args))
    return _mapped(func(*_mapped(args, ms.bfloat16, ms.float32)), ms.float32, ms.bfloat16)


# Primitives that a CPU lacks, also for bfloat16. Calling one does not find out: MindSpore may report the error at a
# later call.
_UNREGISTERED = frozenset({"Conv2DExt", "Conv2DPadding"})
_WITHOUT_BFLOAT16 = frozenset(
    {
        *("BatchMatMul", "BiasAdd", "Conv2D", "Dense", "Erf", "GeLU", "GroupNorm", "LayerNorm", "MaskedFill", "MatMul"),
        *("MatMulExt", "Pow", "ReLU", "ReduceMean", "Rsqrt", "SiLU", "Sigmoid", "Softmax", "Sqrt", "Square", "SumExt"),
    }
)


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
    """Return what tells values of a run apart: all of a small one; of a large one the sum of its bits, and a sample.

    The data are random numbers. To read a large one twice, to keep it and to hash it takes longer than what is watched.
    """
    values = np.ascontiguousarray(value.asnumpy())
    kind = tuple(value.shape), dtype_name(value.dtype)
    if values.nbytes <= _SAMPLED:
        return kind, values.tobytes()
    words = values.reshape(-1).view(np.uint8)
    words = words[: words.size // 8 * 8].view(np.uint64)
    return kind, int(words.sum()), words[:: words.size // 1024].tobytes(), values.reshape(-1)[-8:].tobytes()


_SAMPLED = 2**15  # bytes


@contextmanager
def indexing_recorded(recorder: Recorder) -> Iterator[None]:
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


@contextmanager
def operators_recorded(recorder: Recorder) -> Iterator[None]:
    """Also record operators of this package, which MindSpore does not see: a network has them under `cpu_builtins`."""
    kind: Any = FusedPrimitive
    original = kind.__call__

    def call(self: FusedPrimitive, *arguments: Any) -> Any:
        if recorder.is_paused():
            return original(self, *arguments)
        with recorder.paused():
            inputs = tuple(recorder.node(a) for a in arguments if isinstance(a, Tensor))
            result = original(self, *arguments)
            recorder.record(Node("Custom", inputs, attributes=dict(self.attrs) | self.attributes), result)
        return result

    kind.__call__ = call
    try:
        yield
    finally:
        kind.__call__ = original


def values_of(value: Any) -> Any:
    """Return values as NumPy; reading also waits for late errors of the operators."""
    if isinstance(value, (tuple, list)):
        return tuple(map(values_of, value))
    return read(value) if isinstance(value, Tensor) else value
