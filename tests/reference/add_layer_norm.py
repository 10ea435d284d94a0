"""x = x1 + x2, and LayerNorm of x, in float64."""

from tests.dtypes import decode, encode
from tests.reference import layer_norm


def forward(x1, x2, gamma, beta, epsilon=1e-5, dtype=None):
    """y, mean, rstd and x; with `dtype`, x is rounded to it before it is normalized."""
    x = x1 + x2 if dtype is None else decode(encode(x1 + x2, dtype), dtype)
    return *layer_norm.forward(x, gamma, beta, epsilon), x


def forward_terms(x1, x2, gamma, beta, epsilon=1e-5, dtype=None):
    """The sums of y, of magnitudes: as of layer_norm."""
    return layer_norm.forward_terms(x1 + x2, gamma, beta, epsilon)


def backward(dy, dmean, drstd, dresidual, x, gamma, epsilon=1e-5):
    """Gradients with respect to x1 (or x2), gamma and beta; dresidual is the gradient of x."""
    dx, dgamma, dbeta = layer_norm.backward(dy, dmean, drstd, x, gamma, epsilon)
    return dx + dresidual, dgamma, dbeta


def backward_terms(dy, dmean, drstd, dresidual, x, gamma, epsilon=1e-5):
    """The sums of backward(), of magnitudes."""
    dx, dgamma, dbeta = layer_norm.backward_terms(dy, dmean, drstd, x, gamma, epsilon)
    return dx + abs(dresidual), dgamma, dbeta
