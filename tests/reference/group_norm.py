"""GroupNorm with or without SiLU or ReLU, and its gradient, in float64."""

import math

import numpy as np

from tests.reference import layer_norm


def _rows(x, num_groups, data_format):
    """x as N x G x D x S."""
    first = np.moveaxis(x, -1, 1) if data_format == "NHWC" else x
    samples, channels = first.shape[:2]
    positions = math.prod(first.shape[2:])
    return first.reshape(samples, num_groups, channels // num_groups, positions)


def _back(rows, like, data_format):
    if data_format == "NHWC":
        first = rows.reshape(like.shape[0], like.shape[-1], *like.shape[1:-1])
        return np.moveaxis(first, 1, -1)
    return rows.reshape(like.shape)


def _sigmoid(z):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-z))


def _factors(vector, num_groups):
    return vector.reshape(1, num_groups, -1, 1)


def forward(x, gamma, beta, num_groups, epsilon=1e-5, activation="none", data_format="NCHW"):
    rows = _rows(x, num_groups, data_format)
    mean, rstd = layer_norm.statistics(rows, (2, 3), epsilon)
    with np.errstate(invalid="ignore"):
        z = (rows - mean) * rstd * _factors(gamma, num_groups) + _factors(beta, num_groups)
        y = z * _sigmoid(z) if activation == "silu" else np.maximum(z, 0) if activation == "relu" else z
    return _back(y, x, data_format), mean[:, :, 0, 0], rstd[:, :, 0, 0]


def forward_terms(x, gamma, beta, num_groups, epsilon=1e-5, activation="none", data_format="NCHW"):
    """The sums of y, of magnitudes; SiLU stretches an error by at most 1.1."""
    rows = _rows(x, num_groups, data_format)
    mean, rstd = layer_norm.statistics(rows, (2, 3), epsilon)
    terms = (np.abs(rows - mean) * rstd + 1) * np.abs(_factors(gamma, num_groups)) + np.abs(_factors(beta, num_groups))
    return _back(1.1 * terms, x, data_format)


def _dz(dy, z, activation):
    if activation == "none":
        return dy
    if activation == "relu":
        return dy * (z > 0)
    sigmoid = _sigmoid(z)
    return dy * sigmoid * (1 + z * (1 - sigmoid))


def backward(dy, dmean, drstd, x, gamma, beta, num_groups, epsilon=1e-5, activation="none", data_format="NCHW"):
    """Gradients of sum(dy * y) + sum(dmean * mean) + sum(drstd * rstd) with respect to x, gamma and beta.

    Those of LayerNorm over a group, with dz for dy.
    """
    rows, dy_rows = _rows(x, num_groups, data_format), _rows(dy, num_groups, data_format)
    mean, rstd = layer_norm.statistics(rows, (2, 3), epsilon)
    scale = _factors(gamma, num_groups)
    h = (rows - mean) * rstd
    dz = _dz(dy_rows, h * scale + _factors(beta, num_groups), activation)
    g, n = dz * scale, rows.shape[2] * rows.shape[3]
    inner, outer = (np.mean(value, axis=(2, 3), keepdims=True) for value in (g * h, g))
    dmean, drstd = dmean[:, :, None, None], drstd[:, :, None, None]
    dx = rstd * (g - outer - h * inner) + dmean / n - drstd * rstd**2 * h / n
    dgamma, dbeta = np.sum(dz * h, axis=(0, 3)).reshape(-1), np.sum(dz, axis=(0, 3)).reshape(-1)
    return _back(dx, x, data_format), dgamma, dbeta


def backward_terms(dy, dmean, drstd, x, gamma, beta, num_groups, epsilon=1e-5, activation="none", data_format="NCHW"):
    """The sums of backward(), of magnitudes."""
    rows, dy_rows = _rows(x, num_groups, data_format), _rows(dy, num_groups, data_format)
    mean, rstd = layer_norm.statistics(rows, (2, 3), epsilon)
    scale = np.abs(_factors(gamma, num_groups))
    h = (np.abs(rows - mean) + np.mean(np.abs(rows), axis=(2, 3), keepdims=True)) * rstd
    dz = np.abs(dy_rows) * (1 if activation != "silu" else 1 + h * scale + np.abs(_factors(beta, num_groups)))
    g, n = dz * scale, rows.shape[2] * rows.shape[3]
    inner, outer = (np.mean(value, axis=(2, 3), keepdims=True) for value in (g * h, g))
    dmean, drstd = np.abs(dmean[:, :, None, None]), np.abs(drstd[:, :, None, None])
    dx = rstd * (g + outer + h * inner) + dmean / n + drstd * rstd**2 * h / n
    dgamma, dbeta = np.sum(dz * h, axis=(0, 3)).reshape(-1), np.sum(dz, axis=(0, 3)).reshape(-1)
    return _back(dx, x, data_format), dgamma, dbeta
