"""activation(x weight + bias) in float64."""

import numpy as np

from tests.reference import gelu

ACTIVATIONS = {
    "none": lambda z: z,
    "relu": lambda z: np.maximum(z, 0),
    "gelu": lambda z: gelu.forward(z, "none"),
    "gelu_tanh": lambda z: gelu.forward(z, "tanh"),
    "silu": lambda z: z / (1 + np.exp(-z)),
}


def forward(x, weight, bias=None, transpose_x=False, transpose_weight=False, activation="none"):
    x = x.swapaxes(-1, -2) if transpose_x else x
    weight = weight.swapaxes(-1, -2) if transpose_weight else weight
    with np.errstate(over="ignore"):
        return ACTIVATIONS[activation](x @ weight + (0 if bias is None else bias))
