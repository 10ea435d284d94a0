"""Writes operators that only move elements: shapes, slices, gathers, blocks."""

from __future__ import annotations

import numpy as np
from ms_ascend_ops.export.from_onnx import windows
from ms_ascend_ops.export.from_onnx.node import Node, Writer, tuple_of

__all__ = ["OPERATORS"]


def _reshape(n: Node) -> str:
    return f"ops.reshape({n[0]}, {n.out_shape()})"


def _transpose(n: Node) -> str:
    axes = n.attribute("perm") or range(len(n.shape(0)))[::-1]
    return f"ops.transpose({n[0]}, {tuple_of(list(axes))})"


def _concat(n: Node) -> str:
    return f"ops.cat(({', '.join(n.inputs)},), {n.axis(0)})"


def _split(n: Node) -> str:
    axis, count = n.axis(0), len(n.node.output)
    sizes = n.attribute("split") or (n.integers(1) if n.has(1) else None)
    if sizes is None:
        total = n.shape(0)[axis]
        each = -(-total // count)
        sizes = [min(each, total - at) for at in range(0, total, each)]
    if len(set(sizes)) == 1:
        return f"ops.split({n[0]}, {int(sizes[0])}, {axis})"
    return f"ops.split({n[0]}, {tuple_of(sizes)}, {axis})"


def _slice(n: Node) -> str:
    shape, rank = n.shape(0), len(n.shape(0))
    if n.opset < 10:
        starts, ends = n.attribute("starts"), n.attribute("ends")
        axes, steps = n.attribute("axes"), None
    else:
        starts, ends = n.integers(1), n.integers(2)
        axes = n.integers(3) if n.has(3) else None
        steps = n.integers(4) if n.has(4) else None
    result, parts = n[0], [":"] * rank
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = (axes[i] if axes else i) % rank
        step = steps[i] if steps else 1
        found = range(shape[axis])[slice(_within(start), _within(end), step)]
        if step < 0 or len(found) == 0:
            result = f"ops.gather({result}, {n.keep(np.array(found, np.int64))}, {axis})"
        elif len(found) < shape[axis]:
            parts[axis] = f"{found.start}:{found[-1] + 1}" + (f":{step}" if step > 1 else "")
    return result if set(parts) == {":"} else f"{result}[{', '.join(parts)}]"


def _within(value: int) -> int:
    """Limit what ONNX writes for the end of an axis to Python's ranges."""
    return max(-(2**62), min(2**62, int(value)))


def _expand(n: Node) -> str:
    shape = n.out_shape()
    if n.dtype(0) == "bool_":
        return f"ops.ne(ops.broadcast_to({n[0]}.astype(ms.int32), {shape}), 0)"
    return f"ops.broadcast_to({n[0]}, {shape})"


def _tile(n: Node) -> str:
    return f"ops.tile({n[0]}, {tuple_of(n.integers(1))})"


def _indices(n: Node, size: int) -> str:
    """Return indices that may count from the end."""
    if n.is_constant(1):
        given = n.constant(1)
        return n.keep(np.where(given < 0, given + size, given))
    return f"ops.where({n[1]} < 0, {n[1]} + {size}, {n[1]})"


def _gather(n: Node) -> str:
    axis = n.axis(0)
    return f"ops.gather({n[0]}, {_indices(n, n.shape(0)[axis])}, {axis})"


def _gather_elements(n: Node) -> str:
    axis = n.axis(0)
    return f"ops.gather_elements({n[0]}, {axis}, {_indices(n, n.shape(0)[axis])})"


def _gather_nd(n: Node) -> str:
    n.wants(batch_dims=(0,))
    return f"ops.gather_nd({n[0]}, {_places(n)})"


def _scatter_nd(n: Node) -> str:
    n.wants(reduction=("none",))
    return f"ops.tensor_scatter_update({n[0]}, {_places(n)}, {n[2]})"


def _places(n: Node) -> str:
    """Return places in several axes, which may count from the end."""
    sizes = np.array(n.shape(0)[: n.shape(1)[-1]], np.int64)
    if n.is_constant(1):
        given = n.constant(1)
        return n.keep(np.where(given < 0, given + sizes, given))
    return f"ops.where({n[1]} < 0, {n[1]} + {n.keep(sizes)}, {n[1]})"


def _pad(n: Node) -> str:
    rank, mode = len(n.shape(0)), n.attribute("mode", "constant")
    pads = n.integers(1) if n.opset >= 11 else list(n.attribute("pads"))
    if n.has(3):
        axes = [axis % rank for axis in n.integers(3)]
        full = [0] * (2 * rank)
        for i, axis in enumerate(axes):
            full[axis], full[rank + axis] = pads[i], pads[len(axes) + i]
        pads = full
    value = n.constant(2).item() if n.has(2) else n.attribute("value", 0.0)
    result = n[0]
    if min(pads) < 0:
        cut = [f"{max(0, -pads[i])}:{size - max(0, -pads[rank + i])}" for i, size in enumerate(n.shape(0))]
        result = f"{result}[{', '.join(cut)}]"
        pads = [max(0, pad) for pad in pads]
    if mode == "constant":
        return windows.padded(result, pads[:rank], pads[rank:], value)
    for axis in range(rank):
        before, after, size = pads[axis], pads[rank + axis], n.shape(0)[axis]
        if before or after:
            if mode not in ("reflect", "edge", "wrap"):
                raise n.refuse(f"mode must be constant, reflect, edge or wrap, got {mode}")
            picked = np.pad(np.arange(size), (before, after), mode)
            result = f"ops.gather({result}, {n.keep(picked)}, {axis})"
    return result


def _triangle(n: Node) -> str:
    k = n.integers(1)[0] if n.has(1) else 0
    function = "triu" if n.attribute("upper", 1) else "tril"
    rows, cols = n.shape(0)[-2:]
    kept = getattr(np, function)(np.ones((rows, cols), bool), k)
    if n.dtype(0) == "bool_":
        return f"ops.logical_and({n[0]}, {n.keep(kept)})"
    return f"ops.where({n.keep(kept)}, {n[0]}, ops.zeros_like({n[0]}))"


def _blocks(n: Node) -> str:
    batch, channels, height, width = n.shape(0)
    block = n.attribute("blocksize")
    if n.node.op_type == "SpaceToDepth":
        shape, axes = (batch, channels, height // block, block, width // block, block), (0, 3, 5, 1, 2, 4)
    elif n.attribute("mode", "DCR") == "DCR":
        shape, axes = (batch, block, block, channels // block**2, height, width), (0, 3, 4, 1, 5, 2)
    else:
        shape, axes = (batch, channels // block**2, block, block, height, width), (0, 1, 4, 2, 5, 3)
    return f"ops.reshape(ops.transpose(ops.reshape({n[0]}, {shape}), {axes}), {n.out_shape()})"


OPERATORS: dict[str, Writer] = {
    "Concat": _concat,
    "DepthToSpace": _blocks,
    "Expand": _expand,
    "Flatten": _reshape,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Pad": _pad,
    "Reshape": _reshape,
    "ScatterND": _scatter_nd,
    "Slice": _slice,
    "SpaceToDepth": _blocks,
    "Split": _split,
    "Squeeze": _reshape,
    "Tile": _tile,
    "Transpose": _transpose,
    "Trilu": _triangle,
    "Unsqueeze": _reshape,
}
