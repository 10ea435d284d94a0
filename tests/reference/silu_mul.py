"""silu(gate) * up and its gradient in float64."""

import numpy as np


def _sigmoid(x):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def forward(gate, up):
    with np.errstate(invalid="ignore"):  # silu(-inf) is -inf * 0 = NaN, as in PyTorch
        return gate * _sigmoid(gate) * up


def backward(dy, gate, up):
    """Gradients of sum(dy * y) with respect to gate and up."""
    sigmoid = _sigmoid(gate)
    return dy * up * sigmoid * (1 + gate * (1 - sigmoid)), dy * gate * sigmoid


def backward_terms(dy, gate, up):
    """The sums of backward(), of magnitudes."""
    sigmoid = _sigmoid(gate)
    return np.abs(dy * up * sigmoid) * (1 + np.abs(gate) * (1 - sigmoid)), np.abs(dy * gate * sigmoid)
