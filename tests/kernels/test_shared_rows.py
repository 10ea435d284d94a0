"""Few long rows, which cores share piece by piece: the same bits on any number of cores, and the right ones."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ms_ascend_ops.library import native
from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.inputs import draw
from tests.native import launch
from tests.reference import cross_entropy, layer_norm, rms_norm, softmax

OPERATORS = {  # inputs of the forward
    "softmax": lambda rng, x: [x],
    "scaled_masked_softmax": lambda rng, x: [x, draw(rng, (1, x.shape[1]))],
    "rms_norm": lambda rng, x: [x, draw(rng, x.shape[1:])],
    "layer_norm": lambda rng, x: [x, *draw(rng, (2, x.shape[1]))],
    "add_rms_norm": lambda rng, x: [x, draw(rng, x.shape), draw(rng, x.shape[1:])],
    "add_layer_norm": lambda rng, x: [x, draw(rng, x.shape), *draw(rng, (2, x.shape[1]))],
}
REFERENCES = {"softmax": softmax, "rms_norm": rms_norm, "layer_norm": layer_norm}
# Pieces without and with a tail; several tiles a piece, as 7 cores have them here and 40 on a chip; more rows than the
# gradients hold at a time.
SHAPES = [(1, 65536), (3, 70001), (1, 600001), (11, 40000)]
CORES = (1, 2, 3, 7)


def on_any_number_of_cores(name, inputs, dtypes, **attributes):
    results = []
    for cores in CORES:
        native().set_thread_num(cores)
        try:
            results.append(launch(name, inputs, dtypes, **attributes)[0])
        finally:
            native().set_thread_num(0)
    for other in results[1:]:
        for first, value in zip(results[0], other, strict=True):
            assert np.array_equal(first, value)
    return results[0]


@cover("name, shape", product(OPERATORS, SHAPES), dtype=["float32", "float16"])
def test_the_number_of_cores_does_not_change_results(name, shape, dtype):
    rng = np.random.default_rng(shape[1])
    x, dy = draw(rng, shape), draw(rng, shape)
    inputs = OPERATORS[name](rng, x)
    outputs = on_any_number_of_cores(name, inputs, [dtype] * len(inputs))
    state = [draw(rng, (shape[0], 1)) for _ in outputs[1:]]
    if name.endswith("softmax"):
        on_any_number_of_cores(f"{name}_grad", [dy, outputs[0]], [dtype] * 2)
    elif name.endswith("rms_norm"):
        added = name.startswith("add")
        tensors = [dy, state[0], *([draw(rng, shape)] if added else []), x, outputs[1], inputs[-1]]
        types = [dtype, "float32", *([dtype] if added else []), dtype, "float32", dtype]
        on_any_number_of_cores(f"{name}_grad", tensors, types)
    else:
        added = name.startswith("add")
        tensors = [dy, *state[:2], *([draw(rng, shape)] if added else []), x, *outputs[1:3], inputs[-2]]
        types = [dtype, "float32", "float32", *([dtype] if added else []), dtype, "float32", "float32", dtype]
        if not added:  # with ReLU there is one vector more in the Unified Buffer
            on_any_number_of_cores(f"{name}_grad", [*tensors, inputs[-1]], [*types, dtype], activation="relu")
            tensors, types = [*tensors, inputs[-1]], [*types, dtype]
        on_any_number_of_cores(f"{name}_grad", tensors, types)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", [(1, 65536), (9, 40000), (70, 30000), (3, 1000001)], ids=str)
def test_cross_entropy(shape, dtype):
    """70 rows: more than are held at a time, and than a block of values has."""
    rng = np.random.default_rng(shape[1])
    logits, labels, dloss = draw(rng, shape), rng.integers(0, shape[1], shape[0]), draw(rng, shape[:1])
    labels[0] = shape[1] - 1
    loss, lse = on_any_number_of_cores("cross_entropy", [logits, labels], [dtype, "int32"])
    inputs, types = [dloss, logits, labels, lse], ["float32", dtype, "int32", "float32"]
    (dlogits,) = on_any_number_of_cores("cross_entropy_grad", inputs, types)
    exact = launch("cross_entropy_grad", inputs, types)[1]
    golden_loss, golden_lse = cross_entropy.forward(exact[1], labels)
    assert_accurate(loss, golden_loss, "float32", np.abs(golden_lse) + 5)
    assert_accurate(lse, golden_lse, "float32")
    golden, terms = (f(exact[0], exact[1], labels) for f in (cross_entropy.backward, cross_entropy.backward_terms))
    assert_accurate(dlogits, golden, dtype, terms)


@pytest.mark.parametrize("name", REFERENCES)
def test_rows_that_are_too_many_to_be_shared(name):
    """Tile by tile, one row after the other."""
    rng = np.random.default_rng(0)
    inputs = OPERATORS[name](rng, draw(rng, (25, 24000)))
    outputs, rounded = launch(name, inputs, ["float32"] * len(inputs))
    golden = REFERENCES[name].forward(*rounded)
    for value, exact in zip(outputs, golden if isinstance(golden, tuple) else [golden], strict=True):
        assert_accurate(value, exact, "float32", np.abs(exact) + 1)
    if name == "softmax":
        dy = draw(rng, (25, 24000))
        (dx,), exact = launch("softmax_grad", [dy, outputs[0]], ["float32"] * 2)
        assert_accurate(dx, softmax.backward(*exact), "float32", softmax.backward_terms(*exact))
    elif name == "rms_norm":
        x, gamma, dy, drstd = (draw(rng, shape) for shape in ((97, 10000), (10000,), (97, 10000), (97, 1)))
        (_, rstd), _ = launch(name, [x, gamma], ["float32"] * 2)
        (dx, dgamma), exact = launch("rms_norm_grad", [dy, drstd, x, rstd, gamma], ["float32"] * 5)
        arguments = exact[0], exact[1], exact[2], exact[4]
        golden, terms = rms_norm.backward(*arguments), rms_norm.backward_terms(*arguments)
        assert_accurate(dx, golden[0], "float32", terms[0])
        assert_accurate(dgamma, golden[1], "float32", terms[1])


@pytest.mark.parametrize("shape", [(2, 65537), (1, 1000001)], ids=str)
def test_a_piece_unlike_the_others(shape):
    """Its maximum, its mean: the others' values count in relation to those."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape)
    x[0, :9000] += 60
    x[-1, -5:] -= 1e4
    (y,), (rounded,) = launch("softmax", [x], ["float32"])
    assert_accurate(y, softmax.forward(rounded), "float32")
    ones = np.ones(shape[1])
    (y, mean, rstd), rounded = launch("layer_norm", [x, ones, 0 * ones], ["float32"] * 3)
    golden_y, golden_mean, golden_rstd = layer_norm.forward(*rounded)
    assert_accurate(rstd, golden_rstd, "float32")
    assert_accurate(mean, golden_mean, "float32", np.abs(x).max())
    assert_accurate(y, golden_y, "float32", np.abs(golden_y) + 1)
    (y, rstd), rounded = launch("rms_norm", [x, ones], ["float32"] * 2)
    golden_y, golden_rstd = rms_norm.forward(*rounded)
    assert_accurate(y, golden_y, "float32")
    assert_accurate(rstd, golden_rstd, "float32")


@given(offset=st.floats(-1e5, 1e5), level=st.floats(-1e5, 1e5), begin=st.integers(0, 60000), seed=st.integers(0, 99))
@settings(max_examples=20)
def test_the_variance_of_rows_with_levels(offset, level, begin, seed):
    x = np.random.default_rng(seed).normal(offset, 1, (1, 65537))
    x[:, begin : begin + 5000] += level
    ones = np.ones(65537)
    (_, _, rstd), rounded = launch("layer_norm", [x, ones, ones], ["float32"] * 3)
    assert_accurate(rstd, layer_norm.forward(*rounded)[2], "float32")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_special_values_reach_every_piece_of_their_row_only(value):
    x = np.random.default_rng(0).normal(size=(3, 65537))
    x[1, 60000] = value
    if value == -np.inf:
        x[1] = value
    (y,), _ = launch("softmax", [x], ["float32"])
    assert np.isnan(y[1]).all()
    assert np.isfinite(y[[0, 2]]).all()
    (y,), _ = launch("scaled_masked_softmax", [x, np.zeros((1, 65537))], ["float32"] * 2)
    assert (y[1] == 0).all() if value == -np.inf else np.isnan(y[1]).all()


def test_pieces_depend_on_the_shape_and_not_on_the_number_of_cores():
    for name, tensors in (("softmax", 1), ("rms_norm", 2), ("layer_norm", 3), ("cross_entropy", 2)):
        shapes = [(4, 262144), *[(262144,)] * (tensors - 1)]
        dtypes = ["float32"] * tensors
        if name == "cross_entropy":
            shapes, dtypes = [(4, 262144), (4,)], ["float32", "int32"]
        found = [native().tiling(name, shapes, dtypes, {}, cores, 188160, 4096) for cores in (1, 2, 40, 48)]
        assert len({(tiling["pieces"], tiling["pieceCols"], tiling["tileCols"]) for tiling in found}) == 1
        assert found[0]["pieces"] > 40 / 4
        assert [tiling["block_dim"] for tiling in found] == [1, 2, 40, 48]
