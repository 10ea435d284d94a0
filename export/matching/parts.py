"""Bring what takes tensors apart and puts them together into the common form: halves, elements, stacks, tuples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ms_ascend_ops.export.graphs.graph import Node
from ms_ascend_ops.export.matching.arguments import from_end, rank_of, value_of
from ms_ascend_ops.export.matching.expr import Expr, number

__all__ = ["PARTS", "with_kept_axis"]

_Build = Callable[[object, Node, "list[Expr]"], "Expr | None"]


def _split(_: object, node: Node, inputs: list[Expr]) -> Expr | None:
    """Match equal parts: Split(x, axis, n), Chunk(x, n, axis), SplitTensor or SplitWithSize(x, sizes, axis)."""
    kind, x = node.kind.removesuffix("View"), inputs[0]
    if kind == "Split":
        axis, count = value_of(node, inputs, 1, "axis", 0), value_of(node, inputs, 2, "output_num", 1)
        axis = from_end(axis, rank_of(x))
    else:
        axis = from_end(value_of(node, inputs, 2, "axis", 0), rank_of(x))
        count = value_of(node, inputs, 1, "chunks" if kind == "Chunk" else "split_size")
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


def _item(_: object, node: Node, inputs: list[Expr]) -> Expr | None:
    """Match one of several values. The first output of a norm is the norm: the others are no part of a pattern."""
    index = value_of(node, inputs, 1, "index")
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


def _strided_slice(_: object, node: Node, inputs: list[Expr]) -> Expr | None:
    """Read StridedSlice(x, begin, end, strides, masks...) that cuts one axis: a half of it, or every other element."""
    x = inputs[0]
    begin, end, strides = (value_of(node, inputs, i, name) for i, name in ((1, "begin"), (2, "end"), (3, "strides")))
    masks = [
        int(value_of(node, inputs, 4 + i, name, 0))
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
    """Read `x[..., 0]` of an axis of two."""
    if x.shape is None or x.shape[axis] != 2 or not isinstance(index, int) or isinstance(index, bool):
        return None
    return _pick(x, axis, index % 2, node) if -2 <= index <= 1 else None


def cut(x: Expr, axis: int, start: Any, stop: Any, step: Any, node: Node) -> Expr | None:
    """Return a slice of one axis, in the common form if it is a half or every other element."""
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
    """Match one of two along an axis: a half of a last axis that was parted into two, or every other element."""
    wide = x.inputs[0] if x.op == "reshape" else x
    if wide is not x and x.shape and wide.shape and axis in (-1, -2):
        parted = (*x.shape[:-2], x.shape[-2] * x.shape[-1])
        if wide.shape == parted and -1 not in parted[-1:]:
            return _half(wide, -1, (("even", "odd") if axis == -1 else ("first", "second"))[index], node)
    return Expr("pick", (x,), {"axis": axis, "index": index}, node)


def _half(x: Expr, axis: int, which: str, node: Node) -> Expr:
    """Return a half of a tensor; of two that were put together before, one of them."""
    if x.op == "concat" and x.attributes["axis"] == axis and which in ("first", "second") and len(x.inputs) == 2:
        first, second = x.inputs
        if first.shape and second.shape and first.shape[axis] == second.shape[axis] > 0:
            return first if which == "first" else second
    return Expr("half", (x,), {"axis": axis, "which": which}, node)


def _new_axis(x: Expr, index: tuple[Any, ...], node: Node) -> Expr | None:
    """Read `x[:, :, None]`: an axis of one element, and all of the others."""
    if sum(i is None for i in index) != 1 or any(i is not None and i != slice(None) for i in index):
        return None
    return Expr("expand_dims", (x,), {"to": index.index(None)}, node)


def _getitem(_: object, node: Node, inputs: list[Expr]) -> Expr | None:
    """Read `x[index]` in Python, as the watched run of a cell sees it."""
    x, index = inputs[0], node.attributes["index"]
    index = index if isinstance(index, tuple) else (index,)
    if index == (Ellipsis, None):
        return with_kept_axis(x, Expr("expand_dims", (x,), {"to": -1}, node))
    if all(i is None or isinstance(i, slice) for i in index) and None in index:
        several = index.count(None) > 1 and all(i in (None, slice(None)) for i in index)
        return Expr("reshape", (x,), {"to": node.shape}, node) if several else _new_axis(x, index, node)
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


def _slice(_: object, node: Node, inputs: list[Expr]) -> Expr | None:
    """Read SliceExt(x, dim, start, end, step)."""
    axis = from_end(value_of(node, inputs, 1, "dim"), rank_of(inputs[0]))
    start, stop, step = (value_of(node, inputs, i, "", d) for i, d in ((2, 0), (3, None), (4, 1)))
    return None if axis is None else cut(inputs[0], axis, start, stop, step, node)


def _joined(op: str) -> _Build:
    """Read Concat and Stack, with their tensors in a tuple or one by one."""

    def build(_: object, node: Node, inputs: list[Expr]) -> Expr | None:
        if inputs[0].op == "tuple":
            parts, axis = inputs[0].inputs, value_of(node, inputs, 1, "axis", 0)
        else:
            parts, axis = tuple(inputs), node.attributes.get("axis", 0)
        rank = None if node.shape is None else len(node.shape)
        return Expr(op, tuple(parts), {"axis": from_end(axis, rank)}, node)

    return build


def _unstack(_: object, node: Node, inputs: list[Expr]) -> Expr | None:
    axis = from_end(value_of(node, inputs, 1, "axis", 0), rank_of(inputs[0]))
    if axis is None or inputs[0].shape is None:
        return None
    return Expr("unstack", (inputs[0],), {"axis": axis, "count": inputs[0].shape[axis]}, node)


def _tuple(_: object, node: Node, inputs: list[Expr]) -> Expr:
    return Expr("tuple", tuple(inputs), node=node)


def _through(_: object, node: Node, inputs: list[Expr]) -> Expr:
    """Return the value itself of an operator whose further input only fixes the order of execution."""
    return inputs[0]


def _tile(_: object, node: Node, inputs: list[Expr]) -> Expr | None:
    multiples = value_of(node, inputs, 1, "multiples")
    return Expr("tile", (inputs[0],), {"multiples": multiples}, node) if isinstance(multiples, tuple) else None


def _repeat(_: object, node: Node, inputs: list[Expr]) -> Expr | None:
    """Read RepeatInterleaveInt(x, repeats, dim): each element several times, one after the other."""
    axis = from_end(value_of(node, inputs, 2, "dim"), rank_of(inputs[0]))
    return Expr("repeat", (inputs[0],), {"axis": axis, "count": value_of(node, inputs, 1, "repeats")}, node)


def with_kept_axis(x: Expr, made: Expr) -> Expr:
    """Return, for a last axis of one element behind a reduction of the last axis, the reduction that keeps it.

    What happens to every element on the way is done behind that.
    """
    steps = [x]
    while (top := steps[-1]).op in ("rsqrt", "sqrt", "add", "mul", "reciprocal", "cast"):
        if any(number(i) is None for i in top.inputs[1:]):
            return made
        steps.append(top.inputs[0])
    inner = steps.pop()
    if inner.op not in ("mean", "sum", "variance", "max") or inner.attributes["keep_dims"]:
        return made
    if inner.attributes["axis"] != -1 or not made.shape or x.shape is None or made.shape[:-1] != x.shape:
        return made
    if made.shape[-1] != 1:
        return made
    result = Expr(inner.op, inner.inputs, {**inner.attributes, "keep_dims": True})
    for step in reversed(steps):
        result = Expr(step.op, (result, *step.inputs[1:]), step.attributes)
    return Expr(result.op, result.inputs, result.attributes, made.node)


# Rows of the table of primitives (expressions.py).
PARTS: Mapping[str, _Build] = {
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
    "Tile": _tile,
    "RepeatInterleaveInt": _repeat,
}
