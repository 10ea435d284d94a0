"""x = x1 + x2, RMSNorm of x, and the gradient, in float64."""

from tests.dtypes import decode, encode
from tests.reference import rms_norm


def forward(x1, x2, gamma, dtype=None, epsilon=1e-6, scheme="round_then_scale"):
    """y, rstd and x; with `dtype`, x is rounded to it before it is normalized."""
    x = x1 + x2 if dtype is None else decode(encode(x1 + x2, dtype), dtype)
    return *rms_norm.forward(x, gamma, epsilon, scheme), x


def backward(dy, drstd, dresidual, x, gamma, epsilon=1e-6, scheme="round_then_scale"):
    """Gradients of sum(dy * y) + sum(drstd * rstd) + sum(dresidual * x) with respect to x1 (or x2) and gamma."""
    dx, dgamma = rms_norm.backward(dy, drstd, x, gamma, epsilon, scheme)
    return dx + dresidual, dgamma


def backward_terms(dy, drstd, dresidual, x, gamma, epsilon=1e-6, scheme="round_then_scale"):
    """The sums of backward(), of magnitudes."""
    dx, dgamma = rms_norm.backward_terms(dy, drstd, x, gamma, epsilon, scheme)
    return dx + abs(dresidual), dgamma
