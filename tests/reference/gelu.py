"""gelu(x) and its derivative in float64, by libm's erfc, which keeps its relative accuracy in the tail."""

import math

import numpy as np

_erfc = np.vectorize(math.erfc, otypes=[np.float64])
_A, _B = 2 * math.sqrt(2 / math.pi), 2 * math.sqrt(2 / math.pi) * 0.044715


def cumulative(x, approximate):
    """What gelu multiplies x by: Phi(x), or 1 / (1 + exp(-z)), which is (1 + tanh(z / 2)) / 2 without cancellation."""
    if approximate == "none":
        return np.where(np.isnan(x), np.nan, _erfc(-x / math.sqrt(2)) / 2)
    with np.errstate(over="ignore", invalid="ignore"):
        return 1 / (1 + np.exp(-x * (_A + _B * x * x)))


def forward(x, approximate="none"):
    if approximate == "none":
        return np.where(x == -np.inf, 0, np.maximum(x, -np.finfo(np.float64).max) * cumulative(x, approximate))
    with np.errstate(invalid="ignore"):  # by tanh, gelu(-inf) is -inf * 0 = NaN, as in MindSpore and PyTorch
        return x * cumulative(x, approximate)


def _second(x, approximate):
    """x times the derivative of cumulative(x)."""
    if approximate == "none":
        x = np.clip(x, -50, 50)  # 0 beyond, inf included
        return x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    x = np.clip(x, -30, 30)
    share = cumulative(x, approximate)
    return x * (_A + 3 * _B * x * x) * share * cumulative(-x, approximate)


def slope(x, approximate="none"):
    return cumulative(x, approximate) + _second(x, approximate)


def slope_terms(x, approximate="none"):
    """The sum in slope(), of magnitudes."""
    return cumulative(x, approximate) + np.abs(_second(x, approximate))


def backward(dy, x, approximate="none"):
    """Gradient of sum(dy * y) with respect to x."""
    return dy * slope(x, approximate)


def backward_terms(dy, x, approximate="none"):
    """The sums of backward(), of magnitudes."""
    return np.abs(dy) * slope_terms(x, approximate)
