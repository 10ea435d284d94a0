"""Rotary position embedding in float64."""

import numpy as np


def forward(x, cos, sin, mode="half", seq_axis=1, rotary_dim=0, separate_halves=False, direction=1):
    """`cos` and `sin` as (..., s, w), their leading dims broadcasting to those of x before the axis."""
    width = rotary_dim or x.shape[-1]
    lead = x.shape[:seq_axis]
    between = (1,) * (x.ndim - seq_axis - 2)
    cos, sin = (
        np.broadcast_to(t, (*lead, *t.shape[-2:])).reshape(*lead, t.shape[-2], *between, t.shape[-1])
        for t in (cos, sin)
    )
    half = width // 2
    parts = (slice(0, half), slice(half, width)) if mode == "half" else (slice(0, width, 2), slice(1, width, 2))
    # The values of the first and of the second elements in tables of full width; without separate_halves the first
    # ones count.
    both = parts if cos.shape[-1] == width else (slice(None), slice(None))
    if not separate_halves:
        both = both[:1] * 2
    (cos1, cos2), (sin1, sin2) = ([t[..., part] for part in both] for t in (cos, sin))
    if direction < 0:  # the transposed matrix
        sin1, sin2 = -sin2, -sin1
    first, second = x[..., parts[0]], x[..., parts[1]]
    y = x.copy()
    with np.errstate(invalid="ignore"):
        y[..., parts[0]] = first * cos1 - second * sin1
        y[..., parts[1]] = second * cos2 + first * sin2
    return y


def backward(dy, cos, sin, mode="half", seq_axis=1, rotary_dim=0, separate_halves=False):
    """Gradient of sum(dy * y) with respect to x: rotates back."""
    return forward(dy, cos, sin, mode, seq_axis, rotary_dim, separate_halves, -1)


def terms(x, cos, sin, mode="half", seq_axis=1, rotary_dim=0, separate_halves=False):
    """The sums of either, of magnitudes."""
    x, cos, sin = np.abs(x), np.abs(cos), np.abs(sin)
    return np.maximum(*(forward(x, cos, sin, mode, seq_axis, rotary_dim, separate_halves, sign) for sign in (1, -1)))


def backward_tables(dy, x, cos, sin, mode="half", seq_axis=1, rotary_dim=0, separate_halves=False):
    """Gradients of sum(dy * y) with respect to cos and sin: y is linear in them."""
    gradients = []
    for moved in range(2):
        tables = [np.zeros_like(cos), np.zeros_like(sin)]
        gradient = np.zeros_like(cos)
        for i in np.ndindex(cos.shape):
            tables[moved][i] = 1.0
            rotated = forward(x, *_for_axis(tables, seq_axis), mode, seq_axis, rotary_dim, separate_halves)
            tables[moved][i] = 0.0
            gradient[i] = np.sum(dy * (rotated - _untouched(x, rotary_dim)))
        gradients.append(gradient)
    return gradients


def backward_tables_terms(dy, x, cos, sin, mode="half", seq_axis=1, rotary_dim=0, separate_halves=False):
    """The sums of backward_tables(), of magnitudes."""
    dy, x, width = np.abs(dy), np.abs(x), rotary_dim or x.shape[-1]
    mirrored = dy.copy()  # dsin is the sum of dy2 x1 - dy1 x2
    mirrored[..., slice(0, width // 2) if mode == "half" else slice(0, width, 2)] *= -1
    attributes = mode, seq_axis, rotary_dim, separate_halves
    return backward_tables(dy, x, cos, sin, *attributes)[0], backward_tables(mirrored, x, cos, sin, *attributes)[1]


def _for_axis(tables, seq_axis):
    """Tables for every sequence, with the dim of heads between."""
    return [table[:, None] if table.ndim == 3 and seq_axis == 2 else table for table in tables]


def _untouched(x, rotary_dim):
    """The elements that are copied."""
    return np.where(np.arange(x.shape[-1]) < (rotary_dim or x.shape[-1]), 0.0, x)
