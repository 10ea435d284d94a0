"""gelu(x gate_weight^T) * (x up_weight^T) in float64."""

from functools import partial

from tests.reference import gelu_mul, linear_silu_mul
from tests.reference.linear_silu_mul import forward_terms

__all__ = ["backward", "forward", "forward_terms"]


def forward(x, gate_weight, up_weight, approximate="none"):
    return gelu_mul.forward(*linear_silu_mul.products(x, gate_weight, up_weight), approximate)


def backward(dy, x, gate_weight, up_weight, approximate="none"):
    """Gradients of sum(dy * y)."""
    gated = partial(gelu_mul.backward, approximate=approximate)
    return linear_silu_mul.backward(dy, x, gate_weight, up_weight, gated)
