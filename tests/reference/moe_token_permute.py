"""Tokens in the order of their experts, by NumPy's stable sort."""

import numpy as np


def forward(tokens, indices, num_experts):
    indices = np.asarray(indices).astype(int)
    order = np.argsort(indices.ravel(), kind="stable")
    places = np.empty(order.size, int)
    places[order] = np.arange(order.size)
    permuted = tokens[order // indices.shape[1]].reshape(*indices.shape, tokens.shape[1])
    return permuted, places.reshape(indices.shape), np.cumsum(np.bincount(indices.ravel(), minlength=num_experts))


def backward(dpermuted, sorted_indices):
    """Of tokens."""
    rows = dpermuted.reshape(np.prod(dpermuted.shape[:2]), dpermuted.shape[2])
    return rows[np.asarray(sorted_indices).astype(int)].sum(1)
