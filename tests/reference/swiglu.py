"""SwiGLU of one tensor and its gradient in float64."""

import numpy as np

from tests.reference import silu_mul


def split(x, axis=-1, interleaved=False):
    if interleaved:
        moved = np.moveaxis(x, axis, -1)
        return np.moveaxis(moved[..., 0::2], -1, axis), np.moveaxis(moved[..., 1::2], -1, axis)
    gate, up = np.split(x, 2, axis=axis)
    return gate, up


def join(gate, up, axis=-1, interleaved=False):
    if interleaved:
        pairs = np.stack([np.moveaxis(gate, axis, -1), np.moveaxis(up, axis, -1)], axis=-1)
        return np.moveaxis(pairs.reshape(*pairs.shape[:-2], -1), -1, axis)
    return np.concatenate([gate, up], axis=axis)


def forward(x, axis=-1, interleaved=False):
    return silu_mul.forward(*split(x, axis, interleaved))


def backward(dy, x, axis=-1, interleaved=False):
    """Gradient of sum(dy * y) with respect to x."""
    return join(*silu_mul.backward(dy, *split(x, axis, interleaved)), axis, interleaved)


def backward_terms(dy, x, axis=-1, interleaved=False):
    """The sums of backward(), of magnitudes."""
    return join(*silu_mul.backward_terms(dy, *split(x, axis, interleaved)), axis, interleaved)
