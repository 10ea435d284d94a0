import numpy as np

from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.native import launch
from tests.reference import geglu as reference

CASES = [
    ((2,), 0),  # one gate, one up
    ((7, 2), -1),  # gate and up alternate in memory
    ((40000, 2), 1),  # the same, in several tiles
    ((5, 62), -1),  # halves shorter than one instruction
    ((2, 131074), -1),  # halves larger than the Unified Buffer, and not aligned
    ((6, 129), 0),  # the rows are split
    ((3, 4, 5, 7), 1),  # an axis in the middle, with a short inner block
    ((512, 514), -1),
]
FORMS = ["none", "tanh"]


@cover("shape, axis", CASES, dtype=FLOATS, activate_left=[False, True], form=FORMS)
def test_forward(shape, axis, dtype, activate_left, form):
    attributes = {"axis": axis, "activate_left": activate_left, "approximate": form}
    (y,), (x,) = launch("geglu", [draw(np.random.default_rng(len(shape)), shape)], [dtype], **attributes)
    assert_accurate(y, reference.forward(x, axis, activate_left, form), dtype)


@cover("shape, axis", CASES, dtype=FLOATS, activate_left=[False, True], form=FORMS)
def test_gradient(shape, axis, dtype, activate_left, form):
    rng = np.random.default_rng(len(shape))
    x = draw(rng, shape)
    dy = draw(rng, reference.forward(x, axis).shape)
    attributes = {"axis": axis, "activate_left": activate_left, "approximate": form}
    (dx,), exact = launch("geglu_grad", [dy, x], [dtype] * 2, **attributes)
    golden = reference.backward(*exact, *attributes.values())
    assert_accurate(dx, golden, dtype, reference.backward_terms(*exact, *attributes.values()))


def test_the_right_half_is_activated_unless_the_left_is():
    x = np.array([3.0, 1.0])
    gelu = 0.8413447460685429  # of 1
    assert np.isclose(launch("geglu", [x], ["float32"])[0][0][0], 3 * gelu)
    assert np.isclose(launch("geglu", [x[::-1]], ["float32"], activate_left=True)[0][0][0], 3 * gelu)
