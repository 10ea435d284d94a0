"""Samples block_sparse_matmul of blocks by chance; stock operators make the dense matrix, PyTorch has one of blocks."""

from __future__ import annotations

from mindspore import ops
from ms_ascend_ops.samples.operators import Call
from ms_ascend_ops.samples.patterns import by_chance

from ms_ascend_ops import ops as fused

SIDE = 16
# M, K, N, and the percentage of blocks that exist.
SHAPES = (
    (4, 4, 64, 30),
    (64, 64, 1024, 10),
    (64, 64, 1024, 30),
    (256, 256, 64, 10),  # a pruned weight and some tokens
    (77, 103, 777, 25),
)
SMALL_SHAPES = ((2, 3, 6, 50), (3, 2, 9, 60))
TOLERANCES = {"float32": 1e-4}
# The gradient of the dense factor is the product with the transposed matrix.
GRADIENT = (Call("block_sparse_matmul_grad"),)


def inputs(draw, rows, inner, cols, percent):
    row_ends, indices = by_chance(draw, rows, inner, percent)
    scale = (inner * SIDE * percent / 100) ** 0.5
    blocks = draw.normal(len(indices), SIDE, SIDE)
    dense = draw.normal(inner * SIDE, cols)
    return [row_ends, indices, (blocks / scale).astype(blocks.dtype), dense]


def ours(row_ends, indices, blocks, dense):
    return fused.block_sparse_matmul(row_ends, indices, blocks, dense)


def stock(row_ends, indices, blocks, dense):
    """Multiply by the dense matrix as a whole, with the blocks at their places in it."""
    position = ops.cumsum(ops.ones_like(indices), 0) - 1
    row = ops.searchsorted(row_ends, position, right=True)
    columns = ops.zeros_like(dense[::SIDE, 0])
    places = ops.stack((row.astype("int32"), indices), -1)
    matrix = ops.zeros((row_ends.shape[0], columns.shape[0], SIDE, SIDE), blocks.dtype)
    matrix = ops.TensorScatterAdd()(matrix, places, blocks).swapaxes(1, 2)
    return ops.matmul(matrix.reshape((row_ends.shape[0] * SIDE, columns.shape[0] * SIDE)), dense)


def pytorch(torch, row_ends, indices, blocks, dense):
    pointers = torch.cat((row_ends.new_zeros(1), row_ends))
    shape = len(row_ends) * SIDE, len(dense)
    return torch.sparse_bsr_tensor(pointers, indices, blocks, shape, check_invariants=False).to_dense() @ dense
