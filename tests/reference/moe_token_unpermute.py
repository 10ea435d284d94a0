"""Weighted sums of the rows of a token's experts in float64."""

import numpy as np


def _rows(permuted, sorted_indices):
    rows = permuted.reshape(np.prod(permuted.shape[:2]), permuted.shape[2])
    return rows[np.asarray(sorted_indices).astype(int)]


def forward(permuted, sorted_indices, probs=None):
    rows = _rows(permuted, sorted_indices)
    rows = rows if probs is None else rows * probs[..., None]
    y = rows[:, 0].copy()  # NumPy's sum begins with 0, which takes the sign of -0
    for j in range(1, rows.shape[1]):
        y += rows[:, j]
    return y


def backward(dtokens, permuted, sorted_indices, probs=None):
    """Of permuted and probs."""
    places = np.asarray(sorted_indices).astype(int)
    weights = np.ones(places.shape) if probs is None else probs
    dpermuted = np.zeros((places.size, permuted.shape[-1]))
    dpermuted[places.ravel()] = (weights[..., None] * dtokens[:, None]).reshape(dpermuted.shape)
    return dpermuted.reshape(permuted.shape), (_rows(permuted, places) * dtokens[:, None]).sum(-1)


def backward_terms(dtokens, permuted, sorted_indices, probs=None):
    """Magnitudes of what the gradients add up."""
    return backward(np.abs(dtokens), np.abs(permuted), sorted_indices, None if probs is None else np.abs(probs))
