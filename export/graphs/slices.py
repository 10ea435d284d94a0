"""Tell what a StridedSlice of MindSpore takes."""

from __future__ import annotations

from typing import Any

from ms_ascend_ops.export.graphs.graph import CONSTANT, Node

__all__ = ["index_of", "is_whole"]

_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


def index_of(node: Node) -> tuple[Any, ...] | None:
    """Return the index of a StridedSlice as NumPy writes it; None: unknown, or it adds axes or leaves some out."""
    if node.kind != "StridedSlice" or len(node.inputs) < 4:
        return None
    numbers = [_numbers(i) for i in node.inputs[1:4]]
    masks = dict(zip(_MASKS, (i.value for i in node.inputs[4:9]), strict=False))
    masks = {name: masks.get(name, node.attributes.get(name, 0)) for name in _MASKS}
    # Indexing in Python makes no slices with an ellipsis or new axes; MindSpore's elements of those on a CPU are others
    # than NumPy's.
    if not all(isinstance(m, int) for m in masks.values()) or masks["ellipsis_mask"] or masks["new_axis_mask"]:
        return None
    if not numbers[0] or len({len(n) for n in numbers}) != 1 or 0 in numbers[2]:
        return None
    index: list[Any] = []
    for axis, (first, last, step) in enumerate(zip(*numbers, strict=True)):
        from_first, to_last = masks["begin_mask"] >> axis & 1, masks["end_mask"] >> axis & 1
        if masks["shrink_axis_mask"] >> axis & 1:
            if from_first:  # MindSpore takes the first element then, on a CPU
                return None
            index.append(first)
        else:
            index.append(slice(None if from_first else first, None if to_last else last, step))
    return tuple(index)


def is_whole(part: Any, dim: int) -> bool:
    """Tell whether a part of an index takes all of an axis with so many elements; -1: unknown how many."""
    if not isinstance(part, slice) or part.start not in (None, 0) or part.step != 1:
        return False
    return part.stop is None or 0 <= dim <= part.stop


def _numbers(node: Node) -> tuple[int, ...]:
    """Return a tuple of numbers that a constant is; or nothing."""
    value = node.value if node.kind == CONSTANT else None
    return value if isinstance(value, tuple) and all(isinstance(n, int) for n in value) else ()
