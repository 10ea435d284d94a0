"""A sparse matrix times a dense one, in float64."""

import numpy as np


def pattern(row_ends, indices):
    """Rows and columns of the values."""
    ends = np.asarray(row_ends).astype(int)
    return np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0)), np.asarray(indices).astype(int)


def forward(row_ends, indices, values, dense):
    rows, columns = pattern(row_ends, indices)
    y = np.zeros((len(row_ends), dense.shape[1]))
    np.add.at(y, rows, np.asarray(values)[:, None] * dense[columns])
    return y


def forward_terms(row_ends, indices, values, dense):
    """What a sum adds up; a library adds in an order of its own."""
    return 8 * forward(row_ends, indices, np.abs(values), np.abs(dense))


def backward_values(dy, row_ends, indices, dense):
    rows, columns = pattern(row_ends, indices)
    return (dy[rows] * dense[columns]).sum(axis=1)


def backward_dense(dy, row_ends, indices, values, dense):
    rows, columns = pattern(row_ends, indices)
    ddense = np.zeros(dense.shape)
    np.add.at(ddense, columns, np.asarray(values)[:, None] * dy[rows])
    return ddense


def backward(dy, row_ends, indices, values, dense):
    """Of values and dense."""
    return (
        backward_values(dy, row_ends, indices, dense),
        backward_dense(dy, row_ends, indices, values, dense),
    )


def backward_terms(dy, row_ends, indices, values, dense):
    found = backward(np.abs(dy), row_ends, indices, np.abs(values), np.abs(dense))
    return tuple(8 * terms for terms in found)
