"""NaN, infinities, zeros of both signs, subnormal numbers and empty tensors, for the kernels of every operator.

What an operator makes of them stands in its docstring; what is special about one is tested in its own file.
"""

from itertools import product

import numpy as np
import pytest

from ms_ascend_ops import registry
from ms_ascend_ops.library import native
from tests.dtypes import FLOATS
from tests.every_operator import every_operator

STEP = 2.0**-149  # between subnormal numbers


def sources(example):
    """Names of the float tensors that come from outside: inputs, and gradients of outputs."""
    case = example.case()
    gradient = example.gradient and example.operator.gradient
    names = case.input_names + [f"d{name}" for name in case.output_names if gradient]
    return [name for name in names if not case.arrays[name].dtype.name.startswith("int")]


def results(example, dtype="float32", shape=None, mild=False, **changes):
    """Of the kernels, in float64, with one element of some tensors changed, or the tensor as a whole."""
    case = example.case(dtype, shape)
    for name in sources(example):
        array = case.arrays[name]
        if mild:
            np.clip(array, -2, 2, out=array)
        if name in changes:
            with np.errstate(over="ignore"):
                array[element(array) if np.ndim(changes[name]) == 0 else ...] = changes[name]
    for launch in case.launches:
        native().launch(launch.kernel, launch.inputs, launch.outputs, launch.attributes)
    return [np.array(result, np.float64) for result in case.results if not _is_integer(result)]


def _is_integer(array):
    return array.dtype.name.startswith("int")  # numbers of a row whose scale says that it is not finite


def golden(example, dtype="float32", **changes):
    case = example.case(dtype)
    values = [np.array(array, np.float64) for array in case.inputs]
    for name, value in changes.items():
        array = values[case.input_names.index(name)]
        array[element(array) if np.ndim(value) == 0 else ...] = value
    with np.errstate(all="ignore"):
        outputs = example.forward(values)
    return [output for output, result in zip(outputs, case.results, strict=True) if not _is_integer(result)]


def element(array):
    """The one that is changed. Two thirds through: in the first position a rotary embedding turns nothing."""
    return np.unravel_index(2 * array.size // 3, array.shape)


def dependent(example, name):
    """Which results change if this element does. A rounding hides some finite changes, a mask hides all."""
    before = results(example, mild=True)
    changed = [results(example, mild=True, **{name: value}) for value in (0.3, -1.7, 4.0, 40.0, -40.0, 1e6)]
    return [np.any([after[i] != value for after in changed], axis=0) for i, value in enumerate(before)]


# Products go over whole tiles: a key that a query does not see has the probability 0 there, and 0 * NaN is NaN.
BY_TILES = ("flash_attention", "flash_attention_varlen", "paged_attention")
# So is a kernel offset that sees the padding, unless a library leaves it out; so is dy in the gradient of the weight.
PADDED = (("conv2d", "weight"), ("conv2d", "dy"), ("conv2d_batch_norm", "weight"), ("conv2d_group_norm", "weight"))
# Says which experts are picked. +inf is NaN in the weights. The gradient takes the experts as given, whatever picked
# them: NaN of one expert may be in any of its token.
PICKS = ("moe_gating_top_k", "bias")


@pytest.mark.values
@every_operator()
def test_nan_reaches_what_depends_on_it_and_nothing_else(example):
    before = {dtype: results(example, dtype) for dtype in FLOATS}
    for name in sources(example):
        places = dependent(example, name)
        assert any(place.any() for place in places) or name in registry.signature(example.name).writes
        for dtype in FLOATS:
            after = results(example, dtype, **{name: np.nan})
            for value, old, place in zip(after, before[dtype], places, strict=True):
                if example.name in BY_TILES or (example.name, name) in PADDED:
                    assert np.isnan(value[place]).all(), (name, dtype)
                    continue
                if example.gradient and example.name == PICKS[0]:
                    assert not np.isnan(value[~place.any(-1)]).any(), (name, dtype)
                    continue
                assert np.array_equal(np.isnan(value), place), (name, dtype)
                assert np.array_equal(value[~place], old[~place]), (name, dtype)


@pytest.mark.values
@pytest.mark.parametrize("value", [np.inf, -np.inf])
@every_operator(False)
def test_infinities(example, value):
    """Results are finite and NaN where they are in float64; nothing is touched that is not changed there.

    An infinite result may also be NaN: group_norm folds gamma, beta and the statistics, as PyTorch does.
    """
    for dtype in FLOATS:
        assert_infinities(example, dtype, value)


def assert_infinities(example, dtype, value):
    before, golden_before = results(example, dtype), golden(example, dtype)
    for name in sources(example):
        if example.name.startswith("weight_quant") and name in ("scale", "offset"):  # they meet sums, not elements
            continue
        if (example.name, name) == PICKS and value > 0:
            assert np.isnan(results(example, dtype, **{name: value})[0]).all()
            continue
        after, golden_after = results(example, dtype, **{name: value}), golden(example, dtype, **{name: value})
        if (example.name, name) in PADDED:
            places = zip(after, golden_after, before, golden_before, strict=True)
            golden_after = [np.where(np.isnan(e) & (m == o), oe, e) for m, e, o, oe in places]
        for mine, exact, old, old_exact in zip(after, golden_after, before, golden_before, strict=True):
            assert np.array_equal(np.isfinite(mine), np.isfinite(exact)), (name, dtype)
            assert np.isnan(mine[np.isnan(exact)]).all(), (name, dtype)
            assert np.array_equal(mine[np.isinf(mine)], exact[np.isinf(mine)]), (name, dtype)
            same = exact == old_exact
            # Scores of softmax that are divided by their sum are rounded in another place.
            rounding = 1e-6 if example.name == "moe_gating_top_k" else 0
            np.testing.assert_allclose(mine[same], old[same], rtol=rounding, err_msg=f"{name} {dtype}")


@pytest.mark.values
@every_operator(False)
def test_zeros(example):
    """A result that is zero has the sign that float64 gives it."""
    for name, dtype, zero in product(sources(example), FLOATS, (0.0, -0.0)):
        zeros = np.full(example.case().arrays[name].shape, zero)
        ours, theirs = (f(example, dtype, **{name: zeros}) for f in (results, golden))
        for mine, exact in zip(ours, theirs, strict=True):
            assert np.array_equal(np.signbit(mine[exact == 0]), np.signbit(exact[exact == 0])), (name, dtype, zero)
            assert not mine[exact == 0].any(), (name, dtype, zero)


@pytest.mark.values
@every_operator(False)
def test_subnormal_numbers(example):
    """They are not taken for zeros."""
    for name in sources(example):
        if (example.name, name) == ("conv2d_batch_norm", "variance"):
            continue  # beside epsilon it is nothing, and the norm divides so little that its terms cancel
        shape = example.case().arrays[name].shape
        tiny = np.random.default_rng(0).integers(-(2**22), 2**22, shape) * STEP
        for mine, exact in zip(results(example, **{name: tiny}), golden(example, **{name: tiny}), strict=True):
            assert np.all(np.abs(mine - exact) <= 1e-5 * np.abs(exact) + 8 * STEP + 1e-6 * (np.abs(exact) > 1e-20)), (
                name
            )


@every_operator()
def test_no_rows(example):
    """Empty results, and zeros where a gradient is a sum over rows."""
    shape = (0, *example.operator.small_shapes[0][1:])
    for dtype in FLOATS:
        for value in results(example, dtype, shape):
            assert not value.any(), dtype
