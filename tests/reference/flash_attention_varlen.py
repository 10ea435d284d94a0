"""Attention of packed sequences and its gradients in float64: flash_attention of one sequence after the other."""

import numpy as np

from tests.reference import flash_attention


def _rows(lengths):
    """Those of each sequence."""
    ends = np.asarray(lengths).astype(int)
    return [slice(begin, end) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def forward(query, key, value, query_lengths, key_lengths, **attributes):
    """(out, lse)"""
    out = np.zeros((*query.shape[:2], value.shape[2]))
    lse = np.zeros(query.shape[1::-1])
    for queries, keys in zip(_rows(query_lengths), _rows(key_lengths), strict=True):
        arrays = (query[None, queries], key[None, keys], value[None, keys])
        (out[queries],), (lse[:, queries],) = flash_attention.forward(*arrays, layout="BSND", **attributes)
    return out, lse


def backward(dout, query, key, value, query_lengths, key_lengths, of_sequence=flash_attention.backward, **attributes):
    """(dquery, dkey, dvalue) of sum(dout * out)."""
    gradients = [np.zeros(array.shape) for array in (query, key, value)]
    for queries, keys in zip(_rows(query_lengths), _rows(key_lengths), strict=True):
        arrays = (dout[None, queries], query[None, queries], key[None, keys], value[None, keys])
        found = of_sequence(*arrays, layout="BSND", **attributes)
        for gradient, rows, (values,) in zip(gradients, (queries, keys, keys), found, strict=True):
            gradient[rows] = values
    return tuple(gradients)


def backward_terms(*arguments, **attributes):
    """The sums of backward(), of magnitudes."""
    return backward(*arguments, of_sequence=flash_attention.backward_terms, **attributes)
