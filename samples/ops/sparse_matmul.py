"""Samples sparse_matmul of a pattern by chance; stock operators make the dense matrix, PyTorch has one by rows."""

from __future__ import annotations

from mindspore import ops
from ms_ascend_ops.samples.operators import Call
from ms_ascend_ops.samples.patterns import by_chance

from ms_ascend_ops import ops as fused

# M, K, N, percentage of values.
SHAPES = (
    (64, 64, 64, 10),
    (1024, 1024, 1024, 5),
    (1024, 1024, 1024, 10),
    (2048, 2048, 1, 5),  # a pruned weight and a token
    (4096, 4096, 16, 1),
    (4096, 4096, 64, 5),  # some tokens
    (2048, 2048, 2048, 5),
    (2048, 2048, 256, 20),
    (777, 1029, 333, 3),
)
SMALL_SHAPES = ((7, 5, 6, 40), (4, 6, 9, 50))
TOLERANCES = {"float32": 1e-4}
# The gradient of the dense factor is the product with the transposed matrix.
GRADIENT = (Call("sparse_matmul_grad"),)


def inputs(draw, rows, inner, cols, percent):
    row_ends, indices = by_chance(draw, rows, inner, percent)
    scale = (inner * percent / 100) ** 0.5
    values = draw.normal(len(indices))
    dense = draw.normal(inner, cols)
    return [row_ends, indices, (values / scale).astype(values.dtype), dense]


def ours(row_ends, indices, values, dense):
    return fused.sparse_matmul(row_ends, indices, values, dense)


def stock(row_ends, indices, values, dense):
    """Multiply by the dense matrix as a whole, with the values at their places in it."""
    position = ops.cumsum(ops.ones_like(indices), 0) - 1
    row = ops.searchsorted(row_ends, position, right=True)
    columns = ops.zeros_like(dense[:, 0])
    matrix = ops.zeros_like(ops.expand_dims(row_ends.astype(values.dtype), 1) * ops.expand_dims(columns, 0))
    places = ops.stack((row.astype("int32"), indices), -1)
    return ops.matmul(ops.TensorScatterAdd()(matrix, places, values), dense)


def pytorch(torch, row_ends, indices, values, dense):
    pointers = torch.cat((row_ends.new_zeros(1), row_ends))
    matrix = torch.sparse_csr_tensor(pointers, indices, values, (len(row_ends), len(dense)), check_invariants=False)
    return matrix @ dense


def scipy(scipy, row_ends, indices, values, dense):
    matrix = scipy.sparse.csr_matrix((values, indices, [0, *row_ends]), (len(row_ends), len(dense)))
    return lambda: matrix @ dense
