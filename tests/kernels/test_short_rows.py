"""Rows of one repeat, of two and of a little more: each length is reduced in a way of its own, whatever the tile."""

from itertools import product

import numpy as np

from tests.cover import cover
from tests.dtypes import FLOATS
from tests.native import launch

COLUMNS = [1, 8, 63, 64, 65, 128, 129, 200]
ROWS = 41


def inputs_of(columns):
    """Of each kernel: its inputs, those with a first axis of ROWS by rows, and their dtypes; T stands for x's."""
    rng = np.random.default_rng(columns)
    x, dy, gamma = rng.normal(size=(ROWS, columns)), rng.normal(size=(ROWS, columns)), rng.normal(size=columns)
    mean, rstd, lse = x.mean(-1, keepdims=True), 1 / np.sqrt((x**2).mean(-1, keepdims=True)), np.log(np.exp(x).sum(-1))
    labels = rng.integers(0, columns, ROWS)
    return {
        "softmax": ([x], ["T"]),
        "softmax_grad": ([dy, np.exp(x - lse[:, None])], ["T", "T"]),
        "scaled_masked_softmax": ([x, dy], ["T", "T"]),
        "cross_entropy": ([x, labels], ["T", "int32"]),
        "cross_entropy_grad": ([rstd[:, 0], x, labels, lse], ["float32", "T", "int32", "float32"]),
        "rms_norm": ([x, gamma], ["T", "T"]),
        "rms_norm_grad": ([dy, mean, x, rstd, gamma], ["T", "float32", "T", "float32", "T"]),
        "layer_norm": ([x, gamma, gamma], ["T", "T", "T"]),
        "layer_norm_grad": (
            [dy, mean, mean, x, mean, rstd, gamma, gamma],
            ["T", "float32", "float32", "T", "float32", "float32", "T", "T"],
        ),
    }


@cover("name, columns", product(inputs_of(1), COLUMNS), dtype=FLOATS)
def test_a_row_does_not_depend_on_those_beside_it(name, columns, dtype):
    inputs, dtypes = inputs_of(columns)[name]
    dtypes = [dtype if kind == "T" else kind for kind in dtypes]
    together, _ = launch(name, inputs, dtypes)
    for row in (0, 7, ROWS - 1):
        one = [values[row : row + 1] if len(values) == ROWS else values for values in inputs]
        alone, _ = launch(name, one, dtypes)
        for several, single in zip(together, alone, strict=True):
            if len(several) == ROWS:  # not the gradient of gamma
                np.testing.assert_array_equal(several[row : row + 1], single)
