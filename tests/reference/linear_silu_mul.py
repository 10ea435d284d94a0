"""silu(x gate_weight^T) * (x up_weight^T) in float64."""

import numpy as np

from tests.reference import silu_mul

STEEPEST = 1.13  # slope of SiLU and of both forms of GELU


def products(x, gate_weight, up_weight):
    return x @ gate_weight.T, x @ up_weight.T


def forward(x, gate_weight, up_weight):
    return silu_mul.forward(*products(x, gate_weight, up_weight))


def forward_terms(x, gate_weight, up_weight):
    """The sums of forward(), of magnitudes."""
    gate, up = products(x, gate_weight, up_weight)
    gate_terms, up_terms = products(*map(np.abs, (x, gate_weight, up_weight)))
    return STEEPEST * (gate_terms * np.abs(up) + np.abs(gate) * up_terms)


def backward(dy, x, gate_weight, up_weight, gated=silu_mul.backward):
    """Gradients of sum(dy * y). `gated`: those of act(gate) * up."""
    dgate, dup = gated(dy, *products(x, gate_weight, up_weight))
    rows, dgate_rows, dup_rows = (values.reshape(-1, values.shape[-1]) for values in (x, dgate, dup))
    return dgate @ gate_weight + dup @ up_weight, dgate_rows.T @ rows, dup_rows.T @ rows
