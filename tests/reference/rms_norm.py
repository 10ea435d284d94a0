"""RMSNorm and its gradient in float64."""

import numpy as np


def _scale(gamma, scheme):
    return 1 + gamma if scheme == "one_plus_gamma" else gamma


def forward(x, gamma, epsilon=1e-6, scheme="round_then_scale"):
    with np.errstate(invalid="ignore", over="ignore"):
        rstd = 1 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon)
        return x * rstd * _scale(gamma, scheme), rstd


def backward(dy, drstd, x, gamma, epsilon=1e-6, scheme="round_then_scale"):
    """Gradients of sum(dy * y) + sum(drstd * rstd) with respect to x and gamma.

    With r = rstd, d r / d x_j = -r^3 x_j / n, so
    dx_j = dy_j s_j r - x_j r^3 / n (sum_i dy_i s_i x_i + drstd), where s is what x * r is multiplied by.
    """
    _, rstd = forward(x, gamma, epsilon, scheme)
    scaled = dy * _scale(gamma, scheme)
    inner = np.sum(scaled * x, axis=-1, keepdims=True) + drstd
    dx = scaled * rstd - x * rstd**3 / x.shape[-1] * inner
    dgamma = np.sum((dy * x * rstd).reshape(-1, x.shape[-1]), axis=0)
    return dx, dgamma


def backward_terms(dy, drstd, x, gamma, epsilon=1e-6, scheme="round_then_scale"):
    """The sums of backward(), of magnitudes."""
    _, rstd = forward(x, gamma, epsilon, scheme)
    scaled = np.abs(dy * _scale(gamma, scheme))
    inner = np.sum(scaled * np.abs(x), axis=-1, keepdims=True) + np.abs(drstd)
    dx = scaled * rstd + np.abs(x) * rstd**3 / x.shape[-1] * inner
    return dx, np.sum(np.abs(dy * x * rstd).reshape(-1, x.shape[-1]), axis=0)
