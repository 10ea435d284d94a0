"""A convolution with what is added to it, z, and group normalization of z, in float64."""

import numpy as np

from tests.reference import conv2d, group_norm

NORM = ("num_groups", "epsilon", "activation", "data_format")


def norm_attributes(attributes):
    return {name: attributes[name] for name in NORM if name in attributes}


def convolution_attributes(attributes):
    return {name: value for name, value in attributes.items() if name == "data_format" or name not in NORM}


def of_channels(values, data_format):
    """Values of (samples, channels) as tensors that broadcast to z."""
    return values[:, None, None, :] if data_format == "NHWC" else values[:, :, None, None]


def convolution(x, weight, bias=None, shift=None, residual=None, **attributes):
    """z."""
    z = conv2d.forward(x, weight, bias, **convolution_attributes(attributes))
    if shift is not None:
        z = z + of_channels(np.asarray(shift, np.float64), attributes.get("data_format", "NCHW"))
    return z if residual is None else z + residual


def forward(x, weight, gamma, beta, bias=None, shift=None, residual=None, **attributes):
    """y, z, mean, rstd."""
    z = convolution(x, weight, bias, shift, residual, **attributes)
    y, mean, rstd = group_norm.forward(z, gamma, beta, **norm_attributes(attributes))
    return y, z, mean, rstd


def backward(dy, dz, x, weight, gamma, beta, bias=None, shift=None, residual=None, **attributes):
    """Gradients of sum(dy * y) + sum(dz * z) with respect to the inputs; None for those that are absent."""
    z = convolution(x, weight, bias, shift, residual, **attributes)
    none = np.zeros((z.shape[0], attributes["num_groups"]))
    through, dgamma, dbeta = group_norm.backward(dy, none, none, z, gamma, beta, **norm_attributes(attributes))
    dz, of_convolution = dz + through, convolution_attributes(attributes)
    positions = (1, 2) if attributes.get("data_format") == "NHWC" else (2, 3)
    dshift = dz.sum(positions)
    return (
        conv2d.backward_x(dz, x, weight, **of_convolution),
        conv2d.backward_weight(dz, x, weight, **of_convolution),
        *(dgamma, dbeta),
        *(None if bias is None else dshift.sum(0), None if shift is None else dshift),
        None if residual is None else dz,
    )
