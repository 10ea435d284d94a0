"""MindSpore's primitives in a common spelling: what a pattern sees of a graph.

`x.pow(2)`, `x * x` and `Square(x)` are one expression, so are `a / sqrt(v)`, `a * rsqrt(v)` and
`a * (1 / sqrt(v))`, and the halves of a tensor however they were taken. An activation commutes with a reshape and a
transpose: it is always behind them here, applied to a value that the graph does not have (`Expr.via`).

A row of `_PRIMITIVES` says what a primitive computes; a name that has no row stays an expression that no pattern knows.
Spellings are put together here, in arithmetic.py and in turning.py, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ms_ascend_ops.export.graphs.graph import CALL, CONSTANT, Node
from ms_ascend_ops.export.graphs.sizes import permutation, transposed
from ms_ascend_ops.export.matching.arithmetic import simplified
from ms_ascend_ops.export.matching.convolution import of_mint, of_primitive
from ms_ascend_ops.export.matching.expr import Expr, known_number, number
from ms_ascend_ops.export.matching.turning import turned_by

__all__ = ["Expressions"]


_Build = Callable[["Expressions", Node, "list[Expr]"], "Expr | None"]


class Expressions:
    """The expressions of a graph's nodes, each made once: the same node is the same expression."""

    def __init__(self) -> None:
        self._known: dict[int, Expr] = {}
        self._moved: dict[tuple[int, int], Expr] = {}

    def __call__(self, node: Node) -> Expr:
        stack = [node]
        while stack:  # no recursion: a chain of nodes may be long
            top = stack[-1]
            missing = [i for i in top.inputs if id(i) not in self._known]
            if missing and id(top) not in self._known:
                stack.extend(missing)
                continue
            stack.pop()
            if id(top) not in self._known:
                self._known[id(top)] = self._make(top)
        return self._known[id(node)]

    def behind(self, op: str, expr: Expr, attributes: dict[str, Any], node: Node) -> Expr:
        """A reshape or transpose of an expression: of an activation, the activation of what it is applied to."""
        if expr.op in _ACTIVATIONS and len(expr.inputs) == 1:
            return Expr(expr.op, (self._through(op, expr.inputs[0], attributes, node),), expr.attributes, node)
        if expr.op == "mul" and (x := _gate_of_silu(expr)) is not None:
            return _replaced(expr, x, self._through(op, x, attributes, node), node)
        return Expr(op, (expr,), attributes, node)

    def _through(self, op: str, x: Expr, attributes: dict[str, Any], node: Node) -> Expr:
        key = id(x), id(node)
        if key not in self._moved:
            self._moved[key] = Expr(op, (x,), attributes, via=node)
        return self._moved[key]

    def _make(self, node: Node) -> Expr:
        if node.kind == CONSTANT:
            return Expr("constant", attributes={"value": node.value}, node=node)
        inputs = [self._known[id(i)] for i in node.inputs]
        build = _PRIMITIVES.get(node.kind) or _PRIMITIVES.get(node.kind.removesuffix("View"))
        try:
            made = build(self, node, inputs) if build else None
        except (IndexError, TypeError, ValueError):  # a file is input from outside: too few inputs, texts for numbers
            made = None
        if made is None:
            return Expr(node.kind if not node.inputs else f"other:{node.kind}", tuple(inputs), node=node)
        return made


_ACTIVATIONS = frozenset({"silu", "gelu", "relu", "sigmoid"})


def _gate_of_silu(expr: Expr) -> Expr | None:
    """x of `x * sigmoid(x)`; None of anything else, and where x is not in the graph."""
    for x, other in (expr.inputs, expr.inputs[::-1]):
        if other.op == "sigmoid" and other.inputs[0] is x and x.node is not None:
            return x
    return None


def _replaced(expr: Expr, old: Expr, new: Expr, node: Node | None = None) -> Expr:
    """An expression of `new` in the place of `old`."""
    if expr is old:
        return new
    if expr.op == "constant":
        return expr
    inputs = tuple(_replaced(i, old, new) for i in expr.inputs)
    return Expr(expr.op, inputs, expr.attributes, node)


def _value(node: Node, inputs: list[Expr], position: int, name: str, default: Any = None) -> Any:
    """An argument that is no tensor: among the inputs, or an attribute of the primitive."""
    if position < len(inputs):
        value = inputs[position].attributes.get("value", default) if inputs[position].op == "constant" else default
        return default if value is None else value
    return node.attributes.get(name, default)


def _rank(expr: Expr) -> int | None:
    return None if expr.shape is None else len(expr.shape)


def _from_end(axis: Any, rank: int | None) -> int | None:
    """One axis, counted from the end: -1 is the last. None where that is not known."""
    if isinstance(axis, (tuple, list)) and len(axis) == 1:
        axis = axis[0]
    if not isinstance(axis, int) or isinstance(axis, bool):
        return None
    if axis < 0:
        return axis
    return None if rank is None else axis - rank


def _elementwise(op: str) -> _Build:
    return lambda _, node, inputs: Expr(op, tuple(inputs[:1]), node=node)


def _binary(op: str) -> _Build:
    def build(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
        if len(inputs) > 2 and number(inputs[2]) != 1:  # AddExt, SubExt: a + alpha * b
            return None
        return simplified(op, (inputs[0], inputs[1]), node)

    return build


def _pow(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    power = number(inputs[1])
    ops = {2.0: "square", 0.5: "sqrt", -0.5: "rsqrt", 3.0: "cube", -1.0: "reciprocal"}
    return Expr(ops[power], (inputs[0],), node=node) if power in ops else None


def _reciprocal(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    return simplified("div", (known_number(1.0), inputs[0]), node)


def _sqrt(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    value = number(inputs[0])
    if value is not None and value >= 0:
        return Expr("constant", attributes={"value": value**0.5}, node=node)
    return Expr("sqrt", (inputs[0],), node=node)


def _reduction(op: str) -> _Build:
    def build(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
        axes = _value(node, inputs, 1, "axis")
        rank = _rank(inputs[0])
        axis = axes if isinstance(axes, (tuple, list)) and len(axes) > 1 else _from_end(axes, rank)
        keep = bool(_value(node, inputs, 2, "keep_dims", False))
        return Expr(op, (inputs[0],), {"axis": axis, "keep_dims": keep}, node)

    return build


def _variance(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    """Var(x, axis, correction, keepdim): correction 0 divides by n."""
    return Expr(
        "variance",
        (inputs[0],),
        {
            "axis": _from_end(_value(node, inputs, 1, "axis"), _rank(inputs[0])),
            "correction": _value(node, inputs, 2, "correction", 1),
            "keep_dims": bool(_value(node, inputs, 3, "keep_dims", False)),
        },
        node,
    )


def _cast(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    if node.dtype and node.dtype == inputs[0].dtype:
        return inputs[0]
    return Expr("cast", (inputs[0],), node=node)


def _gelu(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    approximate = "tanh"  # GeLU, and FastGeLU is another primitive
    if node.kind == "GeluExt":
        approximate = {0: "none", 1: "tanh"}.get(choice := _value(node, inputs, 1, "approximate", 0), choice)
    return Expr("gelu", (inputs[0],), {"approximate": approximate}, node)


def _softmax(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    return Expr(
        "softmax", (inputs[0],), {"axis": _from_end(_value(node, inputs, 1, "axis", -1), _rank(inputs[0]))}, node
    )


def _layer_norm(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    rank = _rank(inputs[0])
    if node.kind == "LayerNormExt":  # x, normalized_shape, gamma, beta, epsilon
        axes = len(shape) if isinstance(shape := _value(node, inputs, 1, "shape"), (tuple, list)) else None
        x, gamma, beta, epsilon = inputs[0], inputs[2], inputs[3], _value(node, inputs, 4, "epsilon", 1e-5)
    else:  # x, gamma, beta, begin_norm_axis, begin_params_axis, epsilon
        x, gamma, beta = inputs[:3]
        begin = [_value(node, inputs, 3 + i, name) for i, name in enumerate(("begin_norm_axis", "begin_params_axis"))]
        ends = {_from_end(axis, rank) for axis in begin}
        axes = -end if len(ends) == 1 and (end := ends.pop()) is not None else None
        epsilon = _value(node, inputs, 5, "epsilon", 1e-7)
    if axes is None:
        return None
    return Expr("tuple:layer_norm", (x, gamma, beta), {"axes": axes, "epsilon": float(epsilon)}, node)


def _group_norm(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    groups, epsilon = _value(node, inputs, 1, "num_groups"), _value(node, inputs, 4, "eps", 1e-5)
    if not isinstance(groups, int) or len(inputs) < 4:
        return None
    return Expr(
        "tuple:group_norm", (inputs[0], inputs[2], inputs[3]), {"groups": groups, "epsilon": float(epsilon)}, node
    )


def _rms_norm(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    epsilon = float(_value(node, inputs, 2, "epsilon", 1e-6))
    return Expr("tuple:rms_norm", tuple(inputs[:2]), {"epsilon": epsilon, "scheme": "llama"}, node)


def _add_rms_norm(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    epsilon = float(_value(node, inputs, 3, "epsilon", 1e-6))
    return Expr("add_rms_norm", tuple(inputs[:3]), {"epsilon": epsilon, "scheme": "llama"}, node)


def _swiglu(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    return Expr("swiglu", (inputs[0],), {"axis": _value(node, inputs, 1, "dim", -1)}, node)


def _rotary(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    mode = {0: "half", 1: "interleave"}.get(_value(node, inputs, 3, "mode", 0), "")
    return Expr("rotary_embedding", tuple(inputs[:3]), {"mode": mode}, node)


def _custom(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    """An operator of this package that is in the graph already."""
    from ms_ascend_ops import registry  # noqa: PLC0415  (read only where there is one)

    entries = {registry.signature(name).entry: name for name in registry.names()}
    name = entries.get(str(node.attributes.get("reg_op_name")))
    if name is None:
        return None
    spec = registry.signature(name)
    known = {a.name: node.attributes[a.name] for a in (*spec.attributes, *spec.presence) if a.name in node.attributes}
    several = "tuple:" if len(spec.outputs) > 1 else ""
    # On an NPU the attributes are inputs, too.
    return Expr(f"{several}fused:{name}", tuple(inputs[: len(spec.inputs)]), known, node)


def _split(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    """Into equal parts: Split(x, axis, n), Chunk(x, n, axis), SplitTensor or SplitWithSize(x, sizes, axis)."""
    kind, x = node.kind.removesuffix("View"), inputs[0]
    if kind == "Split":
        axis, count = _value(node, inputs, 1, "axis", 0), _value(node, inputs, 2, "output_num", 1)
        axis = _from_end(axis, _rank(x))
    else:
        axis = _from_end(_value(node, inputs, 2, "axis", 0), _rank(x))
        count = _value(node, inputs, 1, "chunks" if kind == "Chunk" else "split_size")
        if kind != "Chunk":
            size = x.shape[axis] if x.shape and axis is not None else -1
            sizes = [count] * -(-size // count) if isinstance(count, int) and count > 0 and size > 0 else count
            if not isinstance(sizes, (tuple, list)) or len(set(sizes)) != 1 or sum(sizes) != size:
                return None
            count = len(sizes)
        elif count == 2 and x.shape and axis is not None and x.shape[axis] % 2 and x.shape[axis] > 0:
            return None
    if axis is None or not isinstance(count, int):
        return None
    return Expr("split", (x,), {"axis": axis, "count": count}, node)


def _item(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    """One of several values. The first output of a norm is the norm itself: the others are no part of a pattern."""
    index = _value(node, inputs, 1, "index")
    source = inputs[0]
    if source.op == "split" and source.attributes["count"] == 2 and index in (0, 1):
        return _half(source.inputs[0], source.attributes["axis"], ("first", "second")[index], node)
    if source.op == "unstack" and index in (0, 1) and source.attributes["count"] == 2:
        return _pick(source.inputs[0], source.attributes["axis"], index, node)
    if source.op.startswith("tuple:") and index == 0:
        return Expr(source.op.removeprefix("tuple:"), source.inputs, source.attributes, node)
    if source.op == "add_rms_norm" and index in (0, 2):
        return Expr("rms_norm_of_sum" if index == 0 else "sum", source.inputs, source.attributes, node)
    if source.op == "tuple" and isinstance(index, int) and index < len(source.inputs):
        return source.inputs[index]
    return None


def _strided_slice(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    """StridedSlice(x, begin, end, strides, masks...) that cuts one axis: a half of it, or every other element."""
    x = inputs[0]
    begin, end, strides = (_value(node, inputs, i, name) for i, name in ((1, "begin"), (2, "end"), (3, "strides")))
    masks = [
        int(_value(node, inputs, 4 + i, name, 0))
        for i, name in enumerate(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"))
    ]
    if x.shape is None or not all(isinstance(v, (tuple, list)) for v in (begin, end, strides)) or any(masks[2:4]):
        return None
    cuts: list[tuple[int, Any, Any, Any]] = []
    shrunk = masks[4]
    if shrunk and shrunk & (shrunk - 1):
        return None
    for axis, (start, stop, step) in enumerate(zip(begin, end, strides, strict=True)):
        size = x.shape[axis]
        if shrunk >> axis & 1:
            cuts.append((axis - len(x.shape), start, None, 1))
            continue
        first = 0 if masks[0] >> axis & 1 else start
        last = size if masks[1] >> axis & 1 else stop
        if (first, step) == (0, 1) and (last == size or (size < 0 and masks[1] >> axis & 1)):
            continue
        cuts.append((axis - len(x.shape), first, last, step))
    if len(cuts) != 1:
        return None
    return _chosen(x, *cuts[0][:2], node) if shrunk else cut(x, *cuts[0], node)


def _chosen(x: Expr, axis: int, index: Any, node: Node) -> Expr | None:
    """`x[..., 0]` of an axis of two."""
    if x.shape is None or x.shape[axis] != 2 or not isinstance(index, int) or isinstance(index, bool):
        return None
    return _pick(x, axis, index % 2, node) if -2 <= index <= 1 else None


def cut(x: Expr, axis: int, start: Any, stop: Any, step: Any, node: Node) -> Expr | None:
    """A slice of one axis, in the common spelling if it is a half or every other element."""
    size = x.shape[axis] if x.shape else -1
    if size <= 0 or not all(isinstance(v, int) for v in (start, stop, step)):
        return None
    start, stop, step = slice(start, stop, step).indices(size)
    which = {
        (0, size // 2, 1): "first",
        (size // 2, size, 1): "second",
        (0, size, 2): "even",
        (0, size - 1, 2): "even",
        (1, size, 2): "odd",
    }.get((start, stop, step))
    if which is None or size % 2:
        return Expr("slice", (x,), {"axis": axis, "start": start, "stop": stop, "step": step}, node)
    return _half(x, axis, which, node)


def _pick(x: Expr, axis: int, index: int, node: Node) -> Expr:
    """One of two along an axis. Of a last axis that was parted into two of them: a half of it, or every other one."""
    wide = x.inputs[0] if x.op == "reshape" else x
    if wide is not x and x.shape and wide.shape and axis in (-1, -2):
        parted = (*x.shape[:-2], x.shape[-2] * x.shape[-1])
        if wide.shape == parted and -1 not in parted[-1:]:
            return _half(wide, -1, (("even", "odd") if axis == -1 else ("first", "second"))[index], node)
    return Expr("pick", (x,), {"axis": axis, "index": index}, node)


def _half(x: Expr, axis: int, which: str, node: Node) -> Expr:
    """Half of a tensor; of two that were put together before, one of them."""
    if x.op == "concat" and x.attributes["axis"] == axis and which in ("first", "second") and len(x.inputs) == 2:
        first, second = x.inputs
        if first.shape and second.shape and first.shape[axis] == second.shape[axis] > 0:
            return first if which == "first" else second
    return Expr("half", (x,), {"axis": axis, "which": which}, node)


def _new_axis(x: Expr, index: tuple[Any, ...], node: Node) -> Expr | None:
    """`x[:, :, None]`: an axis of one element, and all of the others."""
    if sum(i is None for i in index) != 1 or any(i is not None and i != slice(None) for i in index):
        return None
    return Expr("expand_dims", (x,), {"to": index.index(None)}, node)


def _getitem(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    """`x[index]` in Python, as the watched run of a cell sees it."""
    x, index = inputs[0], node.attributes["index"]
    index = index if isinstance(index, tuple) else (index,)
    if index == (Ellipsis, None):
        return _kept(x, Expr("expand_dims", (x,), {"to": -1}, node))
    if all(i is None or isinstance(i, slice) for i in index) and None in index:
        count = index.count(None)
        in_front = count > 1 and set(index[:count]) == {None} and all(i == slice(None) for i in index[count:])
        return Expr("reshape", (x,), {"to": node.shape}, node) if in_front else _new_axis(x, index, node)
    if x.shape is None or any(not isinstance(i, (slice, int)) and i is not Ellipsis for i in index):
        return None
    if Ellipsis in index:
        at = index.index(Ellipsis)
        index = (*index[:at], *[slice(None)] * (len(x.shape) - len(index) + 1), *index[at + 1 :])
    cuts = [(axis - len(x.shape), i) for axis, i in enumerate(index) if i != slice(None)]
    if len(cuts) != 1:
        return None
    axis, part = cuts[0]
    if isinstance(part, int):
        return _chosen(x, axis, part, node)
    return cut(x, axis, part.start or 0, x.shape[axis] if part.stop is None else part.stop, part.step or 1, node)


def _slice(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    """SliceExt(x, dim, start, end, step)."""
    axis = _from_end(_value(node, inputs, 1, "dim"), _rank(inputs[0]))
    start, stop, step = (_value(node, inputs, i, "", d) for i, d in ((2, 0), (3, None), (4, 1)))
    return None if axis is None else cut(inputs[0], axis, start, stop, step, node)


def _joined(op: str) -> _Build:
    """Concat and Stack, with their tensors in a tuple or one by one."""

    def build(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
        if inputs[0].op == "tuple":
            parts, axis = inputs[0].inputs, _value(node, inputs, 1, "axis", 0)
        else:
            parts, axis = tuple(inputs), node.attributes.get("axis", 0)
        rank = None if node.shape is None else len(node.shape)
        return Expr(op, tuple(parts), {"axis": _from_end(axis, rank)}, node)

    return build


def _unstack(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    axis = _from_end(_value(node, inputs, 1, "axis", 0), _rank(inputs[0]))
    if axis is None or inputs[0].shape is None:
        return None
    return Expr("unstack", (inputs[0],), {"axis": axis, "count": inputs[0].shape[axis]}, node)


def _tuple(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    return Expr("tuple", tuple(inputs), node=node)


def _through(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    """The value itself, with something that only the order of execution needs."""
    return inputs[0]


def _tile(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    multiples = _value(node, inputs, 1, "multiples")
    return Expr("tile", (inputs[0],), {"multiples": multiples}, node) if isinstance(multiples, tuple) else None


def _repeat(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    """RepeatInterleaveInt(x, repeats, dim): each element several times, one after the other."""
    axis = _from_end(_value(node, inputs, 2, "dim"), _rank(inputs[0]))
    return Expr("repeat", (inputs[0],), {"axis": axis, "count": _value(node, inputs, 1, "repeats")}, node)


def _kept(x: Expr, made: Expr) -> Expr:
    """A last axis of one element behind a reduction of the last axis: the reduction that keeps it.

    What happens to every element on the way is done behind that.
    """
    chain = [x]
    while (top := chain[-1]).op in ("rsqrt", "sqrt", "add", "mul", "reciprocal", "cast"):
        if any(number(i) is None for i in top.inputs[1:]):
            return made
        chain.append(top.inputs[0])
    inner = chain.pop()
    if inner.op not in ("mean", "sum", "variance", "max") or inner.attributes["keep_dims"]:
        return made
    if inner.attributes["axis"] != -1 or not made.shape or x.shape is None or made.shape[:-1] != x.shape:
        return made
    if made.shape[-1] != 1:
        return made
    result = Expr(inner.op, inner.inputs, {**inner.attributes, "keep_dims": True})
    for step in reversed(chain):
        result = Expr(step.op, (result, *step.inputs[1:]), step.attributes)
    return Expr(result.op, result.inputs, result.attributes, made.node)


def _expand_dims(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    return _kept(inputs[0], Expr("expand_dims", tuple(inputs[:1]), {"to": _value(node, inputs, 1, "shape")}, node))


def _dropout(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    """Dropout(x, keep_prob) and DropoutExt(x, p, ...); with nothing to drop it is x."""
    kept = node.attributes.get("keep_prob") if node.kind == "Dropout" else None
    dropped = number(inputs[1]) if node.kind == "DropoutExt" and len(inputs) > 1 else None
    if kept == 1 or dropped == 0:
        return Expr("tuple", (inputs[0], Expr("other:mask")), node=node)
    return Expr("tuple:dropout", tuple(inputs[:1]), node=node)


def _extreme(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    """ArgMaxWithValue(x, axis, keep_dims): where the largest is, and that."""
    axis = _from_end(_value(node, inputs, 1, "axis", 0), _rank(inputs[0]))
    keep = bool(_value(node, inputs, 2, "keep_dims", False))
    most = Expr("max", tuple(inputs[:1]), {"axis": axis, "keep_dims": keep})
    return Expr("tuple", (Expr("other:place"), most), node=node)


def _reshape(op: str) -> _Build:
    return lambda _, node, inputs: Expr(op, tuple(inputs[:1]), {"to": _value(node, inputs, 1, "shape")}, node)


def _regrouped(known: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    x = inputs[0]
    if x.op == "stack" and x.attributes["axis"] == -2 and len(x.inputs) == 2 and x.shape and x.shape[-1] > 0:
        joined = (*x.shape[:-2], 2 * x.shape[-1])
        if node.shape == joined:
            return Expr("concat", x.inputs, {"axis": -1}, node)
    made = known.behind("reshape", x, {"to": _value(node, inputs, 1, "shape")}, node)
    return _kept(x, made) if made.op == "reshape" and node.shape and node.shape[-1] == 1 else made


def _matmul(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    """A product of matrices, of batches of them or not; one with a matrix that turns pairs is that rotation."""
    flags = transposed(node)
    if flags is None:
        return None
    if not flags[0] and (turned := turned_by(inputs[0], inputs[1], flags[1], node)) is not None:
        return turned
    return Expr("matmul", tuple(inputs[:2]), dict(zip(("transpose_a", "transpose_b"), flags, strict=True)), node)


def _transpose(known: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    order, rank = permutation(node), len(node.shape or ())
    if node.kind.startswith("TransposeExt"):
        axes = [_from_end(_value(node, inputs, i, name), rank) for i, name in ((1, "dim0"), (2, "dim1"))]
        if rank and None not in axes:
            one, other = (axis + rank for axis in axes if axis is not None)
            order = tuple({one: other, other: one}.get(axis, axis) for axis in range(rank))
    return None if order is None else known.behind("transpose", inputs[0], {"order": order}, node)


def _masked_fill(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    """MaskedFill(x, mask, value): as Select(mask, value, x)."""
    x, mask, value = inputs[:3]
    return Expr("select", (mask, value, x), node=node)


def _linear(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    """Dense(x, weight, bias): the weight is transposed."""
    x, weight, *bias = inputs[:3]
    given = [b for b in bias if b.op != "constant" or b.attributes["value"] is not None]
    if not given and (turned := turned_by(x, weight, True, node)) is not None:
        return turned
    return Expr("linear", (x, weight, *given), node=node)


def _call(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    """A layer that was called and not looked into: behind its arguments are weight and bias."""
    op = {"matmul": "linear", "conv2d": "conv2d"}.get(node.attributes.get("layer", ""))
    return None if op is None else Expr(op, tuple(inputs), node.attributes["settings"], node)


_PRIMITIVES: dict[str, _Build] = {
    **dict.fromkeys(("Add", "Adds", "AddExt"), _binary("add")),
    **dict.fromkeys(("Sub", "Subs", "SubExt"), _binary("sub")),
    **dict.fromkeys(("Mul", "Muls"), _binary("mul")),
    **dict.fromkeys(("Div", "Divs", "RealDiv"), _binary("div")),
    **dict.fromkeys(("Pow", "PowTensorScalar"), _pow),
    **{name: _elementwise(op) for name, op in (
        ("Square", "square"), ("Rsqrt", "rsqrt"), ("Neg", "neg"), ("Exp", "exp"), ("Tanh", "tanh"), ("Erf", "erf"),
        ("Sigmoid", "sigmoid"), ("SiLU", "silu"), ("ReLU", "relu"), ("Cos", "cos"), ("Sin", "sin"),
    )},
    "Sqrt": _sqrt,
    **dict.fromkeys(("Reciprocal", "Inv"), _reciprocal),
    **dict.fromkeys(("Dropout", "DropoutExt"), _dropout),
    "ArgMaxWithValue": _extreme,
    **dict.fromkeys(("ReduceMean", "MeanExt"), _reduction("mean")),
    **dict.fromkeys(("ReduceSum", "SumExt"), _reduction("sum")),
    **dict.fromkeys(("ReduceMax", "AmaxExt", "Amax"), _reduction("max")),
    "Var": _variance,
    "Cast": _cast,
    **dict.fromkeys(("GeLU", "GeluExt"), _gelu),
    "Softmax": _softmax,
    **dict.fromkeys(("LayerNorm", "LayerNormExt"), _layer_norm),
    "GroupNorm": _group_norm,
    "RmsNorm": _rms_norm,
    "AddRmsNorm": _add_rms_norm,
    "Swiglu": _swiglu,
    "RotaryPositionEmbedding": _rotary,
    "Custom": _custom,
    **dict.fromkeys(("Split", "Chunk", "SplitTensor", "SplitWithSize"), _split),
    "TupleGetItem": _item,
    "StridedSlice": _strided_slice,
    "SliceExt": _slice,
    "getitem": _getitem,
    "Concat": _joined("concat"),
    **dict.fromkeys(("Stack", "StackExt"), _joined("stack")),
    **dict.fromkeys(("Unstack", "UnstackExt"), _unstack),
    **dict.fromkeys(("MakeTuple", "make_tuple", "make_list", "MakeList"), _tuple),
    **dict.fromkeys(("Load", "Depend", "Contiguous"), _through),
    **dict.fromkeys(("Reshape", "View"), _regrouped),
    **dict.fromkeys(("ExpandDims", "Unsqueeze"), _expand_dims),
    "BroadcastTo": _reshape("broadcast"),
    **dict.fromkeys(("MatMul", "MatMulExt", "BatchMatMul", "BatchMatMulExt"), _matmul),
    **dict.fromkeys(("Transpose", "TransposeExt"), _transpose),
    "Dense": _linear,
    "Conv2D": lambda _, node, inputs: of_primitive(node, inputs),
    **dict.fromkeys(("Conv2DExt", "Conv2DPadding"), lambda _, node, inputs: of_mint(node, inputs)),
    CALL: _call,
    "BiasAdd": lambda _, node, inputs: Expr("bias_add", tuple(inputs[:2]), node=node),
    **dict.fromkeys(("MaskedFill", "MaskedFillScalar"), _masked_fill),
    "Select": lambda _, node, inputs: Expr("select", tuple(inputs[:3]), node=node),
    "Tile": _tile,
    "RepeatInterleaveInt": _repeat,
}  # fmt: skip
