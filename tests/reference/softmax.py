"""Softmax, also scaled and masked, and its gradient in float64."""

import numpy as np


def forward(x, axis=-1):
    with np.errstate(invalid="ignore"):
        e = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-np.inf))
        return e / np.sum(e, axis=axis, keepdims=True)


def masked(x, mask, scale):
    """A row that is -inf everywhere is zeros."""
    with np.errstate(invalid="ignore"):
        z = scale * x + mask
        return np.where(np.all(z == -np.inf, axis=-1, keepdims=True), 0.0, forward(z))


def backward(dy, y, axis=-1, scale=1.0):
    """Gradient of sum(dy * softmax(scale * x + mask)) with respect to x, from the output."""
    return scale * y * (dy - np.sum(dy * y, axis=axis, keepdims=True))


def backward_terms(dy, y, axis=-1, scale=1.0):
    """The sums of backward(), of magnitudes."""
    return np.abs(scale * y) * (np.abs(dy) + np.sum(np.abs(dy * y), axis=axis, keepdims=True))
