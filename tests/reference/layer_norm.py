"""LayerNorm over the trailing axes that gamma has, with or without ReLU, and its gradient, in float64."""

import numpy as np


def _axes(x, gamma):
    return tuple(range(x.ndim - gamma.ndim, x.ndim))


def statistics(x, axes, epsilon):
    with np.errstate(invalid="ignore", over="ignore"):
        mean = np.mean(x, axis=axes, keepdims=True)
        return mean, 1 / np.sqrt(np.mean((x - mean) ** 2, axis=axes, keepdims=True) + epsilon)


def forward(x, gamma, beta, epsilon=1e-5, activation="none"):
    mean, rstd = statistics(x, _axes(x, gamma), epsilon)
    with np.errstate(invalid="ignore"):
        y = (x - mean) * rstd * gamma + beta
        return np.maximum(y, 0) if activation == "relu" else y, mean, rstd


def forward_terms(x, gamma, beta, epsilon=1e-5, activation="none"):
    """The sums of y, of magnitudes; x - mean is not counted as one, but as what it is beside the deviation."""
    mean, rstd = statistics(x, _axes(x, gamma), epsilon)
    return (np.abs(x - mean) * rstd + 1) * np.abs(gamma) + np.abs(beta)


def masked(dy, x, gamma, beta, epsilon=1e-5):
    """dy with 0 where ReLU gives none."""
    return dy * (forward(x, gamma, beta, epsilon)[0] > 0)


def backward(dy, dmean, drstd, x, gamma, epsilon=1e-5):
    """Gradients of sum(dy * y) + sum(dmean * mean) + sum(drstd * rstd) with respect to x, gamma and beta.

    With h = (x - mean) * rstd: d mean / d x_j = 1 / n and d rstd / d x_j = -rstd^2 h_j / n, so with g = dy * gamma
    dx_j = rstd (g_j - sum(g) / n - h_j sum(g h) / n) + dmean / n - drstd rstd^2 h_j / n.
    """
    axes = _axes(x, gamma)
    mean, rstd = statistics(x, axes, epsilon)
    h, g = (x - mean) * rstd, dy * gamma
    inner = np.mean(g * h, axis=axes, keepdims=True)
    outer = np.mean(g, axis=axes, keepdims=True)
    n = gamma.size
    dx = rstd * (g - outer - h * inner) + dmean / n - drstd * rstd**2 * h / n
    rows = tuple(range(x.ndim - gamma.ndim))
    return dx, np.sum(dy * h, axis=rows), np.sum(dy, axis=rows)


def backward_terms(dy, dmean, drstd, x, gamma, epsilon=1e-5):
    """The sums of backward(), of magnitudes."""
    axes = _axes(x, gamma)
    mean, rstd = statistics(x, axes, epsilon)
    # x - mean is a sum, too, and the mean itself.
    h, g = (np.abs(x - mean) + np.mean(np.abs(x), axis=axes, keepdims=True)) * rstd, np.abs(dy * gamma)
    inner, outer = np.mean(g * h, axis=axes, keepdims=True), np.mean(g, axis=axes, keepdims=True)
    n = gamma.size
    dx = rstd * (g + outer + h * inner) + np.abs(dmean) / n + np.abs(drstd) * rstd**2 * h / n
    rows = tuple(range(x.ndim - gamma.ndim))
    return dx, np.sum(np.abs(dy) * h, axis=rows), np.sum(np.abs(dy), axis=rows)
