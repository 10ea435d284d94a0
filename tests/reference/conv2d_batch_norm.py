"""activation(batch_norm(x * weight + bias)) with given statistics, in float64."""

import numpy as np

from tests.reference import conv2d, matmul

ACTIVATIONS = {
    **matmul.ACTIVATIONS,
    "relu6": lambda z: np.clip(z, 0, 6),
    "hard_swish": lambda z: z * np.clip(z + 3, 0, 6) / 6,
}
NORM = ("epsilon", "activation")


def convolution_attributes(attributes):
    return {name: value for name, value in attributes.items() if name not in NORM}


def before(x, weight, gamma, beta, mean, variance, bias=None, epsilon=1e-5, **attributes):
    """What the activation is applied to."""
    z = conv2d.forward(x, weight, bias, **convolution_attributes(attributes))
    vectors = [np.asarray(vector, np.float64) for vector in (gamma, beta, mean, variance)]
    if attributes.get("data_format") != "NHWC":
        vectors = [vector[:, None, None] for vector in vectors]
    gamma, beta, mean, variance = vectors
    return (z - mean) / np.sqrt(variance + epsilon) * gamma + beta


def forward(*tensors, activation="none", **attributes):
    with np.errstate(over="ignore"):
        return ACTIVATIONS[activation](before(*tensors, **attributes))


def forward_terms(x, weight, gamma, beta, mean, variance, bias=None, epsilon=1e-5, **attributes):
    """The sum of the magnitudes of all terms."""
    magnitudes = [None if each is None else np.abs(each) for each in (x, weight, gamma, beta, mean)]
    x, weight, gamma, beta, mean = magnitudes
    return before(
        *(x, weight, gamma, beta, -mean, variance, None if bias is None else np.abs(bias), epsilon),
        **{name: value for name, value in attributes.items() if name != "activation"},
    )
