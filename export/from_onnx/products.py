"""Writes products and attention."""

from __future__ import annotations

import math

import numpy as np
from ms_ascend_ops.export.from_onnx.node import Node, Writer

__all__ = ["OPERATORS"]


def _gemm(n: Node) -> str:
    a = f"ops.transpose({n[0]}, (1, 0))" if n.attribute("transA", 0) else n[0]
    b = f"ops.transpose({n[1]}, (1, 0))" if n.attribute("transB", 0) else n[1]
    product = f"ops.matmul({a}, {b})"
    if (alpha := n.attribute("alpha", 1.0)) != 1.0:
        product = f"{product} * {n.scalar(alpha)}"
    if not n.has(2):
        return product
    beta = n.attribute("beta", 1.0)
    return f"ops.add({product}, {n[2]}{'' if beta == 1.0 else f' * {n.scalar(beta)}'})"


def _attention(n: Node) -> str:
    n.only_output()
    if any(n.has(i) for i in (4, 5, 6)):
        raise n.refuse("past keys and values are not supported")
    n.wants(softcap=(0.0,), qk_matmul_output_mode=(0,), softmax_precision=(0, 1))
    parts, heads = [], [n.attribute("q_num_heads"), n.attribute("kv_num_heads"), n.attribute("kv_num_heads")]
    shapes = [n.shape(i) for i in range(3)]
    flat = len(shapes[0]) == 3
    for i, shape in enumerate(shapes):
        part = n[i]
        if flat:
            batch, length, width = shape
            split = (batch, length, heads[i], width // heads[i])
            part = f"ops.transpose(ops.reshape({part}, {split}), (0, 2, 1, 3))"
            shapes[i] = (batch, heads[i], length, width // heads[i])
        parts.append(part)
    (batch, q_heads, q_length, size), (_, kv_heads, kv_length, _) = shapes[:2]
    if q_heads != kv_heads:
        parts[1:] = [f"ops.repeat_interleave({part}, {q_heads // kv_heads}, 1)" for part in parts[1:]]
    scale = n.attribute("scale") or 1.0 / math.sqrt(size)
    scores = f"ops.matmul({parts[0]}, ops.transpose({parts[1]}, (0, 1, 3, 2))) * {n.scalar(scale)}"
    if n.has(3):
        seen = f"ops.where({n[3]}, {scores}, {n.scalar(-math.inf)})"
        scores = seen if n.dtype(3) == "bool_" else f"ops.add({scores}, {n[3]})"
    if n.attribute("is_causal", 0):
        scores = f"ops.where({n.keep(np.tri(q_length, kv_length, dtype=bool))}, {scores}, {n.scalar(-math.inf)})"
    # Behind a mask a query may see no key.
    probabilities = f"_probabilities({scores})" if n.has(3) else f"ops.softmax({scores}, -1)"
    result = f"ops.matmul({probabilities}, {parts[2]})"
    if flat:
        result = f"ops.reshape(ops.transpose({result}, (0, 2, 1, 3)), {n.out_shape()})"
    return result


OPERATORS: dict[str, Writer] = {
    "Attention": _attention,
    "Gemm": _gemm,
}
