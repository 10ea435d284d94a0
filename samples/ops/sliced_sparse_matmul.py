"""Samples sliced_sparse_matmul of values by chance and a few rows.

Stock operators make the dense matrix, PyTorch multiplies by rows.
"""

from __future__ import annotations

import numpy as np
from mindspore import ops
from ms_ascend_ops.samples.patterns import by_chance

from ms_ascend_ops import ops as fused
from ms_ascend_ops.sliced import LANES, SlicedPattern

# Rows of x (M), rows and columns of the matrix (N, K), percentage of values.
SHAPES = (
    (1, 2048, 2048, 1),
    (1, 2048, 2048, 5),  # a pruned weight and a token
    (4, 4096, 4096, 1),
    (2, 333, 1029, 20),
)
# In the first shape every lane has a value.
SMALL_SHAPES = ((2, 128, 5, 100), (1, 130, 40, 30))
TOLERANCES = {"float32": 1e-4}


def inputs(draw, rows, outputs, columns, percent):
    ends, indices = by_chance(draw, outputs, columns, percent)
    pattern = SlicedPattern.of(np.concatenate([[0], ends]), indices, columns)
    values = draw.normal(len(indices))
    scaled = np.append(values / max(1, columns * percent / 100) ** 0.5, 0).astype(values.dtype)
    x = draw.normal(rows, columns)
    return [x, pattern.slice_ends, pattern.indices, scaled[pattern.places], pattern.group_ends, pattern.pieces]


def ours(x, slice_ends, indices, values, group_ends, pieces):
    return fused.sliced_sparse_matmul(x, slice_ends, indices, values, group_ends, pieces)


def stock(x, slice_ends, indices, values, group_ends, pieces):
    """Gather elements and multiply, then add up by slices and by groups."""
    wide = ops.pad(x.astype("float32"), (0, 1))
    products = ops.gather(wide, indices, -1) * values.astype("float32")
    sums = ops.pad(_by_ends(products, slice_ends).reshape((x.shape[0], -1)), (0, 1))
    return _by_ends(ops.gather(sums, pieces, -1), group_ends).reshape((x.shape[0], -1)).astype(x.dtype)


def _by_ends(terms, ends):
    """Return sums of positions up to each end: differences of running sums."""
    running = ops.cumsum(ops.pad(terms, (0, 0, 1, 0)), 1)
    upper = ops.gather(running, ends, 1)
    return upper - ops.concat((ops.zeros_like(upper[:, :1]), upper[:, :-1]), 1)


def pytorch(torch, x, slice_ends, indices, values, group_ends, pieces):
    """Multiply in PyTorch. The rows of the matrix are those of the pieces that a group has."""
    rows = torch.full((len(slice_ends) * LANES + 1,), -1, dtype=torch.long)
    rows[pieces.long()] = _owners(torch, group_ends)[:, None] * LANES + torch.arange(LANES)
    row = rows[_owners(torch, slice_ends)[:, None] * LANES + torch.arange(LANES)]
    there = indices < x.shape[-1]
    coordinates = torch.stack((row[there], indices[there].long()))
    shape = (len(group_ends) * LANES, x.shape[-1])
    matrix = torch.sparse_coo_tensor(coordinates, values[there], shape, check_invariants=False)
    return (matrix.to_sparse_csr() @ x.T).T


def _owners(torch, ends):
    """Return what each position is a part of."""
    return torch.repeat_interleave(torch.arange(len(ends)), torch.diff(ends, prepend=ends.new_zeros(1)).long())
