"""Infers which of the sizes that a file leaves open are the same, whatever they will be.

In a graph for any sizes a dim is -1, and what it is when the graph runs goes through the graph as a number: MindSpore
asks a tensor for its shape, takes numbers out of that, calculates with them, and makes targets of reshapes of them.
Each of these is a launch. Here an open size is an `Unknown` of the input or the node where it first appears; from there
it is followed through nodes that keep it. A graph stops where Concat, Stack or a product of matrices gets sizes that do
not fit each other, so these are taken as the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from ms_ascend_ops.export.graphs.graph import CONSTANT, Graph, Node
from ms_ascend_ops.export.graphs.slices import index_of, is_whole

__all__ = ["PRODUCTS", "Size", "Sizes", "Unknown", "permutation", "repeats_heads", "swaps_last", "transposed"]


class Unknown:
    """Stands for a size that is unknown until the graph runs."""

    def __init__(self, *, signed: bool = False) -> None:
        self.same: Size | None = None  # the size that it was found to equal
        self.signed = signed  # a number that may turn out to be negative, and so no dim
        self.factors: tuple[Size, ...] = ()  # their product is this size


Size = int | Unknown
_Shape = tuple[Size, ...] | None  # None: not even the number of axes is known
_Guess = Sequence[Size | None] | None  # None: nothing is known of that axis

_MOST_PASSES = 8  # over a graph; networks take two

# Products of matrices; the first two have arguments that say which operand is transposed.
PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulExt", "MatMulExt")

_SAME_SHAPE = frozenset(
    ("Load", "Depend", "Cast", "Identity", "Neg", "Abs", "Exp", "Log", "Sqrt", "Rsqrt", "Square", "Reciprocal", "Tanh",
     "Erf", "Sin", "Cos", "Sigmoid", "ReLU", "SiLU", "GeLU", "GeluExt", "Softmax", "LogSoftmax", "Muls", "Adds",
     "Subs", "Divs", "AddScalar", "SubScalar", "LogicalNot", "StopGradient", "ZerosLike", "OnesLike")
)  # fmt: skip
_BROADCAST = frozenset(
    ("Add", "AddExt", "Sub", "SubExt", "Mul", "Div", "RealDiv", "Pow", "PowTensorScalar", "Maximum", "Minimum", "Less",
     "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual", "LogicalAnd", "LogicalOr")
)  # fmt: skip
_REDUCTIONS = frozenset(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "MeanExt", "SumExt"))
_ARITHMETIC: dict[str, Callable[[int, int], int | None]] = {
    "ScalarAdd": lambda a, b: a + b,
    "ScalarSub": lambda a, b: a - b,
    "ScalarMul": lambda a, b: a * b,
    "ScalarFloorDiv": lambda a, b: a // b if b else None,
}
_LARGEST = 2**63 - 1  # of the numbers that a graph calculates with


class Sizes:
    """Infers the sizes of a graph's values."""

    def __init__(self, graph: Graph) -> None:
        self._unknowns: dict[Hashable, Unknown] = {}
        self._shapes: dict[int, _Shape] = {}
        self._numbers: dict[int, Any] = {}
        for _ in range(_MOST_PASSES):  # that two are the same may be found behind a node where it matters
            self._news = False
            for node in graph.nodes:
                self._numbers[id(node)] = self._number_of(node)
                self._shapes[id(node)] = self._shape_of(node)
            if not self._news:
                break

    def shape(self, node: Node) -> _Shape:
        """Return the dims of a tensor; None: not even their number is known."""
        if id(node) not in self._shapes:
            self._shapes[id(node)] = self._with_file(node, None)
        shape = self._shapes[id(node)]
        return None if shape is None else tuple(_found(size) for size in shape)

    def numbers(self, node: Node) -> Size | tuple[Any, ...] | None:
        """Return what a number, or a tuple of numbers, of the graph is; None, also within a tuple: no size."""
        raw = self._raw(node)
        return tuple(_plain(part) for part in raw) if isinstance(raw, tuple) else _plain(raw)

    def _raw(self, node: Node) -> Any:
        return node.value if node.kind == CONSTANT else self._numbers.get(id(node))

    def same(self, one: Sequence[Size], other: Sequence[Size]) -> bool:
        """Tell whether these sizes are equal, whatever they will be."""
        return len(one) == len(other) and all(_found(a) == _found(b) for a, b in zip(one, other, strict=True))

    def _unknown(self, *key: Hashable, signed: bool = False) -> Unknown:
        if key not in self._unknowns:
            self._unknowns[key] = Unknown(signed=signed)
        return self._unknowns[key]

    def _join(self, one: Size, other: Size) -> None:
        one, other = _found(one), _found(other)
        if one == other or (isinstance(one, int) and isinstance(other, int)):
            return
        if isinstance(one, Unknown):
            one.same = other
        elif isinstance(other, Unknown):
            other.same = one
        self._news = True

    # ---- numbers

    def _number_of(self, node: Node) -> Any:
        if node.kind == "Shape" and node.inputs:
            return self.shape(node.inputs[0])
        if node.kind in ("MakeTuple", "make_tuple"):
            parts = [self._raw(i) for i in node.inputs]
            return tuple(part if isinstance(part, Size) else None for part in parts)  # a tuple in a tuple is no shape
        if len(node.inputs) != 2:
            return None
        one, other = (self._raw(i) for i in node.inputs)
        if node.kind == "TupleGetItem" and isinstance(one, tuple) and isinstance(other, int):
            return _plain(one[other]) if -len(one) <= other < len(one) else None
        return self._calculated(node.kind, _plain(one), _plain(other)) if node.kind in _ARITHMETIC else None

    def _calculated(self, kind: str, one: Any, other: Any) -> Size | None:
        if not isinstance(one, Size) or not isinstance(other, Size):
            return None
        if isinstance(one, int) and isinstance(other, int):
            number = _ARITHMETIC[kind](one, other)
            return None if number is None or abs(number) > _LARGEST else number
        signed = kind == "ScalarSub" or not (_is_dim(one) and _is_dim(other))
        product = self._unknown(kind, one, other, signed=signed)
        if kind == "ScalarMul" and not signed:
            product.factors = (one, other)
        return product

    # ---- shapes

    def _shape_of(self, node: Node) -> _Shape:
        kind = node.kind.removesuffix("View")
        if kind in PRODUCTS:
            return self._with_file(node, self._of_product(node))
        rule = _RULES.get(kind)
        inputs = [self.shape(i) for i in node.inputs]
        return self._with_file(node, rule(self, node, inputs) if rule and inputs else None)

    def _with_file(self, node: Node, known: _Guess) -> _Shape:
        """Return what the file says of a tensor; where that is open, what is known, or else an unknown of its own."""
        if node.shape is None:
            return None
        fits = known is not None and len(known) == len(node.shape)
        shape: list[Size] = []
        for axis, dim in enumerate(node.shape):
            own = known[axis] if fits and known is not None else None
            if dim < 0 and axis < len(node.symbols) and node.symbols[axis]:
                own = self._unknown("symbol", node.symbols[axis])
            shape.append(dim if dim >= 0 else own if own is not None else self._unknown(id(node), axis))
        return tuple(shape)

    def _of_product(self, node: Node) -> _Guess:
        flags = transposed(node)
        shapes = [self.shape(i) for i in node.inputs[:2]]
        if flags is None or any(shape is None or len(shape) < 2 for shape in shapes):
            return None
        one, other = (
            (*s[:-2], s[-1], s[-2]) if swapped else s for s, swapped in zip(shapes, flags, strict=True) if s is not None
        )
        self._join(one[-1], other[-2])
        batch = one[:-2] if self.same(one[:-2], other[:-2]) else (None,) * (len(node.shape or ()) - 2)
        return (*batch, one[-2], other[-1])

    def _same_shape(self, _: Node, inputs: Sequence[_Shape]) -> _Guess:
        return inputs[0]

    def _broadcast(self, node: Node, inputs: Sequence[_Shape]) -> _Guess:
        shapes = [
            () if i.kind == CONSTANT and shape is None else shape
            for i, shape in zip(node.inputs[:2], inputs[:2], strict=True)
        ]
        rank = len(node.shape or ())
        if any(shape is None or len(shape) > rank for shape in shapes):
            return None
        aligned = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes if shape is not None]
        return tuple(self._of_both(*pair) for pair in zip(*aligned, strict=True)) if len(aligned) == 2 else None

    def _of_both(self, one: Size | None, other: Size | None) -> Size | None:
        """Return a size that is one of the two; None: unknown which, as either may be 1."""
        if other in (one, 1):
            return one
        return other if one == 1 else None

    def _reduced(self, node: Node, inputs: Sequence[_Shape]) -> _Guess:
        """Keep an axis for each that is summed up, which is 1 then; the others are as they were."""
        return inputs[0] if len(node.inputs) > 1 and node.inputs[1].kind == CONSTANT else None

    def _dense(self, _: Node, inputs: Sequence[_Shape]) -> _Guess:
        return None if inputs[0] is None else (*inputs[0][:-1], None)

    def _transpose(self, node: Node, inputs: Sequence[_Shape]) -> _Guess:
        order, shape = permutation(node), inputs[0]
        return None if order is None or shape is None or len(shape) != len(order) else [shape[axis] for axis in order]

    def _reshape(self, node: Node, inputs: Sequence[_Shape]) -> _Guess:
        target = self.numbers(node.inputs[1]) if len(node.inputs) > 1 else None
        if not isinstance(target, tuple):
            return None
        inferred = self._inferred(inputs[0], target)
        return tuple(inferred if part == -1 else part if _is_dim(part) else None for part in target)

    def _inferred(self, shape: _Shape, target: Sequence[Size | None]) -> Size | None:
        """Return the size that -1 stands for, where the numbers of elements tell it.

        Without a -1 they may tell that two open sizes are the same.
        """
        others = [part for part in target if part is not None and _is_dim(part)]
        calculated = len(target) - len(others)
        if shape is None or calculated > 1 or (calculated and -1 not in target):
            return None
        (elements, sizes), (divisor, divisors) = _factored(shape), _factored(others)
        more, fewer = list((sizes - divisors).elements()), list((divisors - sizes).elements())
        if min(elements, divisor) < 1 or elements % divisor:
            return None
        if not calculated:
            if elements == divisor and len(more) == len(fewer) == 1:
                self._join(more[0], fewer[0])
            return None
        if fewer or len(more) > 1 or (more and elements != divisor):
            return None
        return more[0] if more else elements // divisor

    def _parts(self, node: Node) -> list[tuple[Size, ...]]:
        """Return the shapes of the tensors of a tuple; none, if one is not known, or if their ranks differ."""
        whole = node.inputs[0]
        shapes = [self.shape(i) for i in whole.inputs] if whole.kind in ("MakeTuple", "make_tuple") else []
        known = [shape for shape in shapes if shape is not None]
        return known if len(known) == len(shapes) and len({len(shape) for shape in known}) == 1 else []

    def _concat(self, node: Node, _: Sequence[_Shape]) -> _Guess:
        parts, axis = self._parts(node), _axis(node)
        if not parts or axis is None or not -len(parts[0]) <= axis < len(parts[0]):
            return None
        axis %= len(parts[0])
        for part in parts[1:]:
            for k, (one, other) in enumerate(zip(parts[0], part, strict=True)):
                if k != axis:
                    self._join(one, other)
        return (*parts[0][:axis], None, *parts[0][axis + 1 :])

    def _stack(self, node: Node, _: Sequence[_Shape]) -> _Guess:
        parts, axis = self._parts(node), _axis(node)
        if not parts or axis is None or not -len(parts[0]) <= axis <= len(parts[0]):
            return None
        for part in parts[1:]:
            for one, other in zip(parts[0], part, strict=True):
                self._join(one, other)
        axis %= len(parts[0]) + 1
        return (*parts[0][:axis], len(parts), *parts[0][axis:])

    def _gather(self, node: Node, inputs: Sequence[_Shape]) -> _Guess:
        if len(node.inputs) < 3:
            return None
        table, indices = inputs[:2]
        axis, batched = node.inputs[2].value, node.inputs[3].value if len(node.inputs) > 3 else 0
        if table is None or indices is None or not isinstance(axis, int) or not -len(table) <= axis < len(table):
            return None
        if not isinstance(batched, int) or batched != 0:
            return None
        axis %= len(table)
        return (*table[:axis], *indices, *table[axis + 1 :])

    def _expanded(self, node: Node, inputs: Sequence[_Shape]) -> _Guess:
        axis, shape = node.inputs[-1].value, inputs[0]
        if shape is None or not isinstance(axis, int) or not -len(shape) - 1 <= axis <= len(shape):
            return None
        axis %= len(shape) + 1
        return (*shape[:axis], 1, *shape[axis:])

    def _spread(self, node: Node, inputs: Sequence[_Shape]) -> _Guess:
        target, shape = self.numbers(node.inputs[-1]), inputs[0]
        if not isinstance(target, tuple) or shape is None or len(shape) > len(target):
            return None
        aligned = (None,) * (len(target) - len(shape)) + shape
        pairs = zip(aligned, target, strict=True)
        return [size if part == -1 else part if _is_dim(part) else None for size, part in pairs]

    def _tiled(self, node: Node, inputs: Sequence[_Shape]) -> _Guess:
        times, shape = self.numbers(node.inputs[-1]), inputs[0]
        if not isinstance(times, tuple) or shape is None or len(times) != len(shape):
            return None
        return [size if n == 1 else None for size, n in zip(shape, times, strict=True)]

    def _sliced(self, node: Node, inputs: Sequence[_Shape]) -> _Guess:
        index, shape = index_of(node), inputs[0]
        if index is None or shape is None or len(index) > len(shape):
            return None
        kept: list[Size | None] = []
        for part, size in zip(index, shape, strict=False):
            if isinstance(part, slice):
                whole = is_whole(part, size if isinstance(size, int) else -1)
                kept.append(size if whole else None)
        return (*kept, *shape[len(index) :])


_RULES: dict[str, Callable[[Sizes, Node, Sequence[_Shape]], _Guess]] = {
    **dict.fromkeys(_SAME_SHAPE, Sizes._same_shape),
    **dict.fromkeys(_BROADCAST, Sizes._broadcast),
    **dict.fromkeys(_REDUCTIONS, Sizes._reduced),
    "Dense": Sizes._dense,
    "Transpose": Sizes._transpose,
    "Reshape": Sizes._reshape,
    "Concat": Sizes._concat,
    "Stack": Sizes._stack,
    "Gather": Sizes._gather,
    "ExpandDims": Sizes._expanded,
    "BroadcastTo": Sizes._spread,
    "Tile": Sizes._tiled,
    "StridedSlice": Sizes._sliced,
}


def transposed(node: Node) -> tuple[bool, bool] | None:
    """Tell whether a product of matrices takes its operands transposed; None: it is none, or unknown."""
    if node.kind not in PRODUCTS or len(node.inputs) < 2:
        return None
    if node.kind.endswith("Ext"):
        return (False, False)
    first, second = (
        node.inputs[2 + k].value if len(node.inputs) > 2 + k else node.attributes.get(name)
        for k, name in enumerate(("transpose_a", "transpose_b"))
    )
    return (first, second) if isinstance(first, bool) and isinstance(second, bool) else None


def permutation(node: Node) -> tuple[int, ...] | None:
    """Return the order in which a transpose takes the axes; None: it is none, or unknown."""
    axes = node.inputs[1].value if node.kind == "Transpose" and len(node.inputs) == 2 else None
    rank = len(node.shape or ())
    if not isinstance(axes, tuple) or not all(isinstance(v, int) and -rank <= v < rank for v in axes):
        return None
    order = [v % rank for v in axes]
    return tuple(order) if sorted(order) == list(range(rank)) else None


def swaps_last(node: Node) -> bool:
    """Tell whether a node is a transpose of the last two axes."""
    order = permutation(node) or ()
    return len(order) > 1 and order == (*range(len(order) - 2), len(order) - 1, len(order) - 2)


def repeats_heads(sizes: Sizes, heads: _Shape, one: _Shape, wide: _Shape, flat: _Shape) -> bool:
    """Tell whether heads (batch, heads, length, features) get an axis, are repeated along it, and joined with it.

    So each stands several times, one behind the other.
    """
    if [len(shape or ()) for shape in (heads, one, wide, flat)] != [4, 5, 5, 4]:
        return False
    assert heads is not None
    assert wide is not None
    batch, count, *rest = heads
    times = wide[2]
    if not isinstance(count, int) or not isinstance(times, int):
        return False
    return (
        sizes.same(one or (), (batch, count, 1, *rest))
        and sizes.same(wide, (batch, count, times, *rest))
        and sizes.same(flat or (), (batch, count * times, *rest))
    )


def _axis(node: Node) -> int | None:
    """Return the axis: of Concat an input, of Stack an attribute."""
    axis = node.inputs[1].value if len(node.inputs) > 1 else node.attributes.get("axis")
    return axis if isinstance(axis, int) and not isinstance(axis, bool) else None


def _found(size: Size) -> Size:
    passed = []
    while isinstance(size, Unknown) and size.same is not None:
        passed.append(size)
        size = size.same
    for one in passed:
        one.same = size
    return size


def _factored(sizes: Iterable[Size]) -> tuple[int, Counter[Unknown]]:
    """Factor the product of sizes into a number, and how often which unknown is a factor of it."""
    number, unknowns, stack = 1, Counter[Unknown](), list(sizes)
    while stack:
        size = _found(stack.pop())
        if isinstance(size, int):
            number *= size
        elif size.factors:
            stack.extend(size.factors)
        else:
            unknowns[size] += 1
    return number, unknowns


def _is_dim(part: Any) -> bool:
    """Tell whether a number is a dim, whatever it will be."""
    return not part.signed if isinstance(part, Unknown) else isinstance(part, int) and part >= 0


def _plain(part: Any) -> Size | None:
    """Return the size that this was found to equal; None for what is no size."""
    return _found(part) if isinstance(part, Size) and not isinstance(part, bool) else None
