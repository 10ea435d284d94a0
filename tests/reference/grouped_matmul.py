"""Products of groups of rows in float64."""

import numpy as np


def _groups(group_list):
    ends = np.asarray(group_list).astype(int)
    return list(zip([0, *ends[:-1]], ends, strict=True))


def forward(x, weight, group_list, transpose_weight=False):
    weight = weight.swapaxes(-1, -2) if transpose_weight else weight
    y = np.zeros((len(x), weight.shape[2]))
    for matrix, (begin, end) in zip(weight, _groups(group_list), strict=True):
        y[begin:end] = x[begin:end] @ matrix
    return y


def backward_weight(dy, x, group_list, transpose_weight=False):
    sums = np.stack([x[begin:end].T @ dy[begin:end] for begin, end in _groups(group_list)])
    return sums.swapaxes(-1, -2) if transpose_weight else sums


def backward(dy, x, weight, group_list, transpose_weight=False):
    """Of x and weight."""
    dx = forward(dy, weight, group_list, not transpose_weight)
    return dx, backward_weight(dy, x, group_list, transpose_weight)
