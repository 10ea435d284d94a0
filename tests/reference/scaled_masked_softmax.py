"""softmax(scale * x + mask) and its gradients in float64."""

import numpy as np

from tests.reference import softmax


def forward(x, mask, scale=1.0):
    """A row that is -inf everywhere is zeros."""
    with np.errstate(invalid="ignore"):
        z = scale * x + mask
        return np.where(np.all(z == -np.inf, axis=-1, keepdims=True), 0.0, softmax.forward(z))


def backward(dy, y, scale=1.0):
    """Gradient of sum(dy * y) with respect to x, from the output."""
    return scale * softmax.backward(dy, y)


def backward_terms(dy, y, scale=1.0):
    """The sums of backward(), of magnitudes."""
    return abs(scale) * softmax.backward_terms(dy, y)


def reduced(values, shape):
    """Summed over the dims that a mask of this shape broadcasts in: what its gradient, or the terms of it, are."""
    leading = tuple(range(values.ndim - len(shape)))
    values = np.sum(values, axis=leading)
    return np.sum(values, axis=tuple(i for i, size in enumerate(shape) if size == 1 < values.shape[i]), keepdims=True)
