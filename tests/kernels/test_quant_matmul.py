import numpy as np
import pytest

from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.inputs import draw
from tests.native import launch
from tests.reference import quant_matmul as reference

CASES = [  # rows of x, n, k
    ((1,), 70, 64),  # one row
    ((3,), 33, 577),  # a few; numbers behind whole vectors
    ((2, 4), 7, 5),  # fewer numbers than a vector
    ((9,), 130, 1030),  # in two stretches of k
    ((150,), 300, 96),  # several tiles, the last not full
    ((64,), 16, 2048),
    ((0,), 4, 64),  # no rows
]
TYPES = ["float16", "bfloat16", "float32"]


def arrays(rng, case, has_row_scale, has_bias, low=-128):
    rows, n, k = case
    x, weight = (rng.integers(low, 128, shape) for shape in ((*rows, k), (n, k)))
    scale = rng.uniform(0.5, 1.5, n) / (127 * k**0.5)
    row_scale = rng.uniform(0.5, 1.5, rows) / 127 if has_row_scale else None
    return [x, weight, scale, row_scale, draw(rng, (n,)) if has_bias else None]


def run(inputs, dtype):
    return launch("quant_matmul", inputs, ["int8", "int8", dtype, "float32", "float32"])


@cover("case", CASES, dtype=TYPES, has_row_scale=[1, 0], has_bias=[0, 1])
def test_products(case, dtype, has_row_scale, has_bias):
    (y,), rounded = run(arrays(np.random.default_rng(sum(case[1:])), case, has_row_scale, has_bias), dtype)
    golden = reference.forward(*rounded)
    product = reference.forward(*rounded[:4])
    # The product and its scales have some roundings in float32 before the bias is added, which may cancel.
    assert_accurate(y, golden, dtype, 4 * np.abs(product))


@pytest.mark.parametrize("rows", [2, 40])
@pytest.mark.parametrize("k", [64, 1024, 9000])
def test_sums_are_exact(rows, k):
    """Also of the largest magnitudes, where sums of two products do not fit 16 bits, and floats round the sum."""
    rng = np.random.default_rng(k)
    x, weight = (np.where(rng.random((n, k)) < 0.9, -128, 127) for n in (rows, 24))
    x[0], weight[0], weight[1] = -128, -128, 127
    (y,), _ = run([x, weight, np.ones(24), None, None], "float32")
    exact = x @ weight.T
    np.testing.assert_array_equal(y, exact.astype(np.float32))
