import numpy as np
import pytest

from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.native import launch
from tests.reference import cross_entropy as reference

SHAPES = [
    (1, 1),  # one class
    (1, 31),
    (7, 2),
    (300, 21),  # many short rows: the pixels of a segmentation; they are transposed
    (20, 40),  # whole blocks of floats, which are not
    (2, 3, 64),  # one repeat, and around it
    (9, 8),
    (9, 63),
    (9, 65),
    (9, 128),  # two repeats
    (9, 129),
    (5, 1000),
    (35, 1025),  # the first that is walked through in tiles; more rows than a batch of the gradient
    (3, 16384),  # one tile on a CPU
    (70, 16390),  # more rows than a batch, a shorter second tile
    (2, 151936),
]


def draw_labels(rng, shape):
    labels = rng.integers(0, shape[-1], shape[:-1])
    return np.where(rng.random(shape[:-1]) < 0.2, -100, labels)


@cover("shape", SHAPES, dtype=FLOATS)
def test_forward_and_gradient(shape, dtype):
    rng = np.random.default_rng(shape[-1])
    labels, dloss = draw_labels(rng, shape), draw(rng, shape[:-1])
    (loss, lse), (logits, _) = launch("cross_entropy", [draw(rng, shape), labels], [dtype, "int32"])
    golden_loss, golden_lse = reference.forward(logits, labels)
    assert_accurate(loss, golden_loss, "float32", np.abs(golden_lse) + 5)
    assert_accurate(lse, golden_lse, "float32")
    inputs, dtypes = [dloss, logits, labels, lse], ["float32", dtype, "int32", "float32"]
    (dlogits,), exact = launch("cross_entropy_grad", inputs, dtypes)
    golden, terms = (f(exact[0], logits, labels) for f in (reference.backward, reference.backward_terms))
    assert_accurate(dlogits, golden, dtype, terms)


@pytest.mark.parametrize("dtype", FLOATS)
def test_columns_of_rows_that_are_transposed(dtype):
    """Of 32 bits a column of 16 rows is two blocks, of 16 bits one."""
    rng = np.random.default_rng(0)
    logits = draw(rng, (40, 5))
    (loss, lse), (logits, labels) = launch("cross_entropy", [logits, np.arange(40) % 5], [dtype, "int32"])
    golden_loss, golden_lse = reference.forward(logits, labels)
    assert_accurate(loss, golden_loss, "float32", np.abs(golden_lse) + 5)
    assert_accurate(lse, golden_lse, "float32")


@pytest.mark.parametrize("classes", [21, 100, 5000])
@pytest.mark.parametrize("ignore_index", [-100, 0, 3, 2**31 - 1])
def test_ignored_rows(ignore_index, classes):
    """Neither a loss nor a gradient, whatever dloss is."""
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(20, classes)), np.arange(20)
    labels[5] = ignore_index
    attributes = {"ignore_index": ignore_index}
    (loss, lse), (exact, _) = launch("cross_entropy", [logits, labels], ["float32", "int32"], **attributes)
    assert_accurate(loss, reference.forward(exact, labels, ignore_index)[0], "float32")
    assert loss[5] == 0
    dloss = np.where(labels == ignore_index, np.nan, 1.0)
    types = ["float32", "float32", "int32", "float32"]
    (dlogits,), _ = launch("cross_entropy_grad", [dloss, exact, labels, lse], types, **attributes)
    assert (dlogits[5] == 0).all()
    assert np.isfinite(dlogits).all()


@pytest.mark.parametrize("label", [0, 1, 20, 8319, 8320, 16409])
@pytest.mark.parametrize("classes", [21, 16410])
def test_the_labels_element_is_rounded_like_its_row(classes, label):
    """It is another column's of the same logit, less 1; the columns beside it are not touched.

    16410 classes are tiles of 8320 and 8090, on the chip, too.
    """
    label = min(label, classes - 1)
    logits = np.random.default_rng(0).normal(size=(20, classes)) / 4
    other = (label + 7) % classes
    logits[:, other] = logits[:, label]
    labels, elsewhere = np.full(20, label), np.full(20, -1)
    (_, lse), _ = launch("cross_entropy", [logits, labels], ["float32", "int32"])
    types = ["float32", "float32", "int32", "float32"]
    (dlogits,), _ = launch("cross_entropy_grad", [np.ones(20), logits, labels, lse], types)
    (softmax,), _ = launch("cross_entropy_grad", [np.ones(20), logits, elsewhere, lse], types)
    assert (dlogits[:, label] == (dlogits[:, other] - 1).astype(np.float32)).all()
    assert np.array_equal(np.delete(dlogits, label, 1), np.delete(softmax, label, 1))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("classes", [21, 100, 5000])
def test_gradient_of_a_label_that_is_no_class(classes, dtype):
    """The softmax times dloss: no column has the -1, not even the nearest."""
    logits, labels = np.random.default_rng(0).normal(size=(4, classes)), np.array([-1, classes, 2**31 - 1, -(2**31)])
    (_, lse), (exact, _) = launch("cross_entropy", [logits, labels], [dtype, "int32"])
    types = ["float32", dtype, "int32", "float32"]
    (dlogits,), _ = launch("cross_entropy_grad", [np.full(4, 2.0), exact, labels, lse], types)
    golden = 2 * np.exp(exact - lse[:, None])
    assert_accurate(dlogits, golden, dtype, golden)


@pytest.mark.parametrize("classes", [21, 100, 5000])
def test_special_values_stay_in_their_row(classes):
    logits = np.random.default_rng(0).normal(size=(8, classes))
    labels = np.full(8, 7)
    logits[0, 3], logits[1, 3], logits[2, 3], logits[3, 7], logits[4] = np.nan, np.inf, -np.inf, -np.inf, -np.inf
    labels[5], labels[6] = classes, -1  # no classes
    (loss, lse), (exact, _) = launch("cross_entropy", [logits, labels], ["float32", "int32"])
    golden_loss, _ = reference.forward(exact, labels)
    finite = np.array([2, 7])
    assert_accurate(loss[finite], golden_loss[finite], "float32")
    assert np.isnan(loss[[0, 1, 4]]).all()
    assert np.isposinf(loss[[3, 5, 6]]).all()
    types = ["float32", "float32", "int32", "float32"]
    (dlogits,), _ = launch("cross_entropy_grad", [np.ones(8), exact, labels, lse], types)
    golden = reference.backward(np.ones(2), exact[2:4], labels[2:4])
    assert_accurate(dlogits[2:4], golden, "float32", np.ones_like(golden))
    assert np.isnan(dlogits[[0, 4]]).all()


def test_large_logits_do_not_overflow():
    logits, labels = np.array([[3e38, 3e38, 0.0], [-3e38, -3e38, -3e38]]), np.array([2, 1])
    (loss, _), (exact, _) = launch("cross_entropy", [logits, labels], ["float32", "int32"])
    assert_accurate(loss, reference.forward(exact, labels)[0], "float32", np.full(2, 3e38))
