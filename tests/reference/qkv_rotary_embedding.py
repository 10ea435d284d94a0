"""Heads of q, k and v apart, in float64."""

import numpy as np

from tests.reference import rotary_embedding


def forward(qkv, cos, sin, q_heads, k_heads, v_heads, mode="half", layout="BNSD", rotary_dim=0, separate_halves=False):
    """q, k and v."""
    q, k, v = split(qkv, q_heads, k_heads, v_heads)
    q, k = (rotary_embedding.forward(x, cos, sin, mode, 1, rotary_dim, separate_halves) for x in (q, k))
    return tuple(_arranged(x, layout) for x in (q, k, v))


def backward(
    dq, dk, dv, cos, sin, q_heads, k_heads, v_heads, mode="half", layout="BNSD", rotary_dim=0, separate_halves=False
):
    """Gradient of sum(dq * q) + sum(dk * k) + sum(dv * v) with respect to qkv."""
    dq, dk, dv = (_arranged(dy, layout) for dy in (dq, dk, dv))
    dq, dk = (rotary_embedding.backward(dy, cos, sin, mode, 1, rotary_dim, separate_halves) for dy in (dq, dk))
    return np.concatenate([dq, dk, dv], axis=2)


def terms(qkv, cos, sin, q_heads, k_heads, v_heads, mode="half", layout="BNSD", rotary_dim=0, separate_halves=False):
    """The sums of forward(), of magnitudes."""
    q, k, v = split(qkv, q_heads, k_heads, v_heads)
    q, k = (rotary_embedding.terms(x, cos, sin, mode, 1, rotary_dim, separate_halves) for x in (q, k))
    return tuple(_arranged(x, layout) for x in (q, k, np.abs(v)))


def backward_terms(
    dq, dk, dv, cos, sin, q_heads, k_heads, v_heads, mode="half", layout="BNSD", rotary_dim=0, separate_halves=False
):
    """The sums of backward(), of magnitudes."""
    dq, dk, dv = (_arranged(dy, layout) for dy in (dq, dk, dv))
    dq, dk = (rotary_embedding.terms(dy, cos, sin, mode, 1, rotary_dim, separate_halves) for dy in (dq, dk))
    return np.concatenate([dq, dk, np.abs(dv)], axis=2)


def split(qkv, q_heads, k_heads, v_heads):
    """The heads of each, as they lie."""
    assert qkv.shape[2] == q_heads + k_heads + v_heads
    return qkv[:, :, :q_heads], qkv[:, :, q_heads : q_heads + k_heads], qkv[:, :, q_heads + k_heads :]


def _arranged(x, layout):
    """(batch, seq, heads, d) and (batch, heads, seq, d), from one to the other, or as it is."""
    return x.swapaxes(1, 2) if layout == "BNSD" else x
