"""A matrix of sparse blocks times a dense one, in float64: by its values, those of `sparse_matmul`."""

import numpy as np

from tests.reference import sparse_matmul

SIDE = 16


def _values(row_ends, indices):
    """The pattern of the values, and which of those of the blocks each is."""
    block_rows, columns = sparse_matmul.pattern(row_ends, indices)
    rows, inner, order = [], [], []
    for row in range(len(row_ends)):
        own = np.flatnonzero(block_rows == row)
        for i in range(SIDE):
            inner += [columns[block] * SIDE + j for block in own for j in range(SIDE)]
            order += [(block * SIDE + i) * SIDE + j for block in own for j in range(SIDE)]
            rows.append(len(inner))
    return np.array(rows, int), np.array(inner, int), np.array(order, int)


def forward(row_ends, indices, blocks, dense):
    ends, columns, order = _values(row_ends, indices)
    return sparse_matmul.forward(ends, columns, blocks.ravel()[order], dense)


def forward_terms(row_ends, indices, blocks, dense):
    """What a sum adds up; a library adds in an order of its own."""
    return 8 * forward(row_ends, indices, np.abs(blocks), np.abs(dense))


def backward_blocks(dy, row_ends, indices, dense):
    ends, columns, order = _values(row_ends, indices)
    dblocks = np.zeros(len(indices) * SIDE * SIDE)
    dblocks[order] = sparse_matmul.backward_values(dy, ends, columns, dense)
    return dblocks.reshape(-1, SIDE, SIDE)


def backward(dy, row_ends, indices, blocks, dense):
    """Of blocks and dense."""
    ends, columns, order = _values(row_ends, indices)
    ddense = sparse_matmul.backward_dense(dy, ends, columns, blocks.ravel()[order], dense)
    return backward_blocks(dy, row_ends, indices, dense), ddense


def backward_terms(dy, row_ends, indices, blocks, dense):
    found = backward(np.abs(dy), row_ends, indices, np.abs(blocks), np.abs(dense))
    return tuple(8 * terms for terms in found)
