"""A few rows times the transpose of a sparse matrix in slices, in float64: its definition, position by position."""

import numpy as np

LANES = 64


def _by_ends(terms, ends):
    """Terms (..., positions, 64) added up to each end: (..., 64 times the ends)."""
    sums = np.zeros((*terms.shape[:-2], len(ends), LANES))
    for i, end in enumerate(ends):
        sums[..., i, :] = terms[..., ends[i - 1] if i else 0 : end, :].sum(-2)
    return sums.reshape(*terms.shape[:-2], LANES * len(ends))


def forward(x, slice_ends, indices, values, group_ends, pieces):
    zero = np.zeros((*x.shape[:-1], 1))
    products = np.concatenate([x, zero], -1)[..., indices.astype(int)] * values
    sums = np.concatenate([_by_ends(products, slice_ends.astype(int)), zero], -1)
    return _by_ends(sums[..., pieces.astype(int)], group_ends.astype(int))


def forward_terms(x, slice_ends, indices, values, group_ends, pieces):
    """What a sum adds up; a library adds in an order of its own."""
    return 8 * forward(np.abs(x), slice_ends, indices, np.abs(values), group_ends, pieces)
