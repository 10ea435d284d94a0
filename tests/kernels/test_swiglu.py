import numpy as np
import pytest

from tests.acceptance import assert_accurate
from tests.cann_bench import cases, draw_range
from tests.cover import cover
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.native import launch
from tests.reference import swiglu as reference

CASES = [
    ((2,), 0),  # one gate, one up
    ((3, 10), -1),  # interleaved, the gradient is less than one run of 64
    ((5, 62), -1),  # halves shorter than one instruction
    ((3, 8194), -1),  # halves that are not aligned
    ((2, 131074), -1),  # halves larger than the Unified Buffer
    ((6, 129), 0),  # the rows are split
    ((3, 4, 5, 7), 1),  # an axis in the middle, with a short inner block
    ((2, 6, 1023), -2),
    ((512, 514), -1),
]


@cover("shape, axis", CASES, dtype=FLOATS, interleaved=[False, True])
def test_forward(shape, axis, dtype, interleaved):
    x = draw(np.random.default_rng(len(shape)), shape)
    (y,), (rounded,) = launch("swiglu", [x], [dtype], axis=axis, interleaved=interleaved)
    assert_accurate(y, reference.forward(rounded, axis, interleaved), dtype)


@cover("shape, axis", CASES, dtype=FLOATS, interleaved=[False, True])
def test_gradient(shape, axis, dtype, interleaved):
    rng = np.random.default_rng(len(shape))
    x = draw(rng, shape)
    dy = draw(rng, reference.forward(x, axis).shape)
    (dx,), rounded = launch("swiglu_grad", [dy, x], [dtype] * 2, axis=axis, interleaved=interleaved)
    golden = reference.backward(*rounded, axis, interleaved)
    assert_accurate(dx, golden, dtype, reference.backward_terms(*rounded, axis, interleaved))


@pytest.mark.parametrize("case", cases("SwiGlu"), ids=lambda case: f"case{case['case_id']}")
def test_cann_bench(case):
    x = draw_range(np.random.default_rng(case["case_id"]), case["input_shape"][0], case["value_range"])
    (y,), (rounded,) = launch("swiglu", [x], case["dtype"], axis=case["attrs"]["dim"])
    assert_accurate(y, reference.forward(rounded, case["attrs"]["dim"]), case["dtype"][0])
