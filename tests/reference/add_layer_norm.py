"""x = x1 + x2, and LayerNorm of x, in float64."""

from tests.dtypes import decode, encode
from tests.reference import layer_norm


def forward(x1, x2, gamma, beta, epsilon=1e-5, dtype=None):
    """y, mean, rstd and x; with `dtype`, x is rounded to it before it is normalized."""
    x = x1 + x2 if dtype is None else decode(encode(x1 + x2, dtype), dtype)
    return *layer_norm.forward(x, gamma, beta, epsilon), x
