"""Samples matmul with bias and activation, and a weight as nn.Dense keeps it: of a prompt, and of one token."""

from __future__ import annotations

from mindspore import ops

from ms_ascend_ops import ops as fused

# nn.Dense keeps its weight transposed.
DENSE = {"transpose_weight": True}
VARIANTS = {"": DENSE, "gelu": {**DENSE, "activation": "gelu"}, "silu": {**DENSE, "activation": "silu"}}
# M, N, K.
SHAPES = (
    (1, 1024, 1024),
    (1, 4096, 4096),
    (8, 4096, 4096),
    (128, 4096, 4096),
    (128, 4096, 1024),
    (512, 1024, 4096),
    (512, 2048, 2048),
    (333, 1029, 777),
)
SMALL_SHAPES = ((3, 5, 7), (2, 4, 6))
# Kernels sum K products in different orders.
TOLERANCES = {"float32": 1e-4}
# The gradient is made of products.
GRADIENT = ()


def operations(arrays):
    """Count one multiplication and one addition for each K of each element."""
    return 2 * arrays["y"].size * arrays["x"].shape[-1]


def inputs(draw, rows, cols, inner):
    weight = draw.normal(cols, inner)
    return [draw.normal(rows, inner), (weight / inner**0.5).astype(weight.dtype), draw.normal(cols)]


def ours(x, weight, bias, transpose_weight, activation="none"):
    return fused.matmul(x, weight, bias, transpose_weight=transpose_weight, activation=activation)


def stock(x, weight, bias, transpose_weight, activation="none"):
    y = ops.matmul(x, weight.swapaxes(0, 1)) + bias
    return {"none": lambda y: y, "gelu": lambda y: ops.gelu(y, "none"), "silu": ops.silu}[activation](y)


def matmul_v3(x, weight, bias, transpose_weight, activation="none"):
    """Call the product, which is one operator there; bias and activation are others."""
    return stock(x, weight, bias, transpose_weight, activation)


CANN = {"MatMulV3": matmul_v3}
CANN_SHAPE = (512, 1024, 4096)


def pytorch(torch, x, weight, bias, transpose_weight, activation="none"):
    y = torch.nn.functional.linear(x, weight, bias)
    return {"none": lambda y: y, "gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu}[activation](y)
