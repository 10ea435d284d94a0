"""gelu(gate) * up and its gradient in float64."""

import numpy as np

from tests.reference import gelu


def forward(gate, up, approximate="none"):
    return gelu.forward(gate, approximate) * up


def backward(dy, gate, up, approximate="none"):
    """Gradients of sum(dy * y) with respect to gate and up."""
    return dy * up * gelu.slope(gate, approximate), dy * gelu.forward(gate, approximate)


def backward_terms(dy, gate, up, approximate="none"):
    """The sums of backward(), of magnitudes."""
    return np.abs(dy * up) * gelu.slope_terms(gate, approximate), np.abs(dy * gelu.forward(gate, approximate))
