"""Writes normalizations."""

from __future__ import annotations

import numpy as np
from ms_ascend_ops.export.from_onnx.node import Node, Writer

__all__ = ["OPERATORS"]


def _batch_norm(n: Node) -> str:
    n.only_output()
    n.wants(training_mode=(0,))
    scale, shift, mean, variance = (n.constant(i).astype(np.float64) for i in (1, 2, 3, 4))
    factor = scale / np.sqrt(variance + n.attribute("epsilon", 1e-5))
    shape = (1, -1, *[1] * (len(n.shape(0)) - 2))
    dtype = n.constant(1).dtype
    kept = [n.keep(x.astype(dtype).reshape(shape)) for x in (factor, shift - mean * factor)]
    return f"ops.add(ops.mul({n[0]}, {kept[0]}), {kept[1]})"


def _group_norm(n: Node) -> str:
    instance = n.node.op_type == "InstanceNormalization"
    groups = n.shape(0)[1] if instance else n.attribute("num_groups")
    if not instance and n.opset < 21:
        raise n.refuse("before opset 21 it has a scale for each group, not for each channel")
    return f"ops.group_norm({n[0]}, {groups}, {n[1]}, {n[2]}, {n.number('epsilon', 1e-5)})"


def _layer_norm(n: Node) -> str:
    n.only_output()
    shift = n[2] if n.has(2) else f"ops.zeros_like({n[1]})"
    axis = n.axis(-1)
    return f"ops.LayerNorm({axis}, {axis}, {n.number('epsilon', 1e-5)})({n[0]}, {n[1]}, {shift})[0]"


def _rms_norm(n: Node) -> str:
    axes = tuple(range(n.axis(-1), len(n.shape(0))))
    x = f"{n[0]}.astype(ms.float32)"
    root = f"ops.rsqrt(ops.mean(ops.square({x}), {axes}, True) + {n.number('epsilon', 1e-5)})"
    return f"ops.mul(ops.mul({x}, {root}).astype(ms.{n.dtype(0)}), {n[1]})"


OPERATORS: dict[str, Writer] = {
    "BatchNormalization": _batch_norm,
    "GroupNormalization": _group_norm,
    "InstanceNormalization": _group_norm,
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _rms_norm,
}
