"""Each row of CANN's operators (ms_ascend_ops/device/aclnn.txt) against independent formulas in float64."""

import traceback

import numpy as np
import pytest

from ms_ascend_ops.device.aclnn_table import rows
from ms_ascend_ops.device.operators import attention
from ms_ascend_ops.device.operators.graph_engine_layers import ge_layer_norm
from tests.acceptance import assert_close
from tests.device.calls import Memory, Scalar, execute, values_of
from tests.device.operator_cases import MODULES, Draw, all_cases, families, stored

CASES = all_cases()
# Half of the last place of a dtype, and what float32 adds on the way.
ROUNDING = {"float32": 0.0, "float16": 2.0**-11, "bfloat16": 2.0**-8}
ACCUMULATED = 1e-5
NOT_LOOKED_AT = {"int8": 0, "dtype": 0}


def _output(golden, dtype, strided):
    """A tensor for a result, full of what no operator returns; None: nobody wants it."""
    if golden is None:
        return None
    poison = np.nan if golden.dtype.kind in "fc" else 77 if golden.dtype.kind in "iu" else True
    return stored(np.full(golden.shape, poison, golden.dtype), dtype, strided)


def _assert_equal(name, memory, golden, dtype):
    found = values_of(memory)
    assert found.shape == golden.shape
    if golden.dtype.kind in "fc":
        # Results are exact but for their rounding, and that of sums of float32.
        rounding = ROUNDING[dtype] if golden.dtype == np.float64 else 0.0
        allowed = (rounding + ACCUMULATED) * np.abs(golden) + ACCUMULATED * np.abs(golden).max(initial=0.0)
        wide = found.astype(np.complex128 if golden.dtype.kind == "c" else np.float64)
        assert np.all(np.abs(wide - golden) <= allowed), f"{name}: {np.abs(wide - golden).max()}"
    else:
        np.testing.assert_array_equal(found, golden)


def _run(name, dtype, strided=False):
    inputs, goldens = CASES[name](Draw(dtype))
    inputs, goldens = iter(inputs), iter(goldens)
    arguments, expected = [], []
    for parameter in rows()[name].parameters:
        if parameter.mark == "_":
            arguments.append(NOT_LOOKED_AT[parameter.kind])
            continue
        value = next(inputs) if parameter.is_input else None
        if isinstance(value, np.ndarray):
            value = stored(value, dtype, strided)
        elif parameter.kind == "tensors" and value is not None:
            value = [stored(one, dtype, strided) for one in value]
        if parameter.is_output:
            golden = next(goldens)
            if parameter.mark == ">":
                many = isinstance(golden, list)
                value = [_output(one, dtype, strided) for one in golden] if many else _output(golden, dtype, strided)
            expected.append((value, golden))
        arguments.append(value)
    assert next(inputs, "none is left") == next(goldens, "none is left") == "none is left"
    shapes = np.zeros((len(expected), 9), np.int64)
    if rows()[name].is_dynamic:
        arguments.append(shapes.__array_interface__["data"][0])
    execute(name, *arguments)
    for place, (value, golden) in enumerate(expected):
        if value is None:
            continue
        if rows()[name].is_dynamic:
            assert [*shapes[place, 1 : 1 + shapes[place, 0]]] == [*golden.shape]
        pairs = zip(value, golden, strict=True) if isinstance(value, list) else [(value, golden)]
        for one, wanted in pairs:
            _assert_equal(name, one, wanted, dtype)


# Of those the results have a distribution, or signs that are free: they have tests of their own.
OWN_TESTS = {
    f"aclnn{name}"
    for name in (
        *(
            "Dropout",
            "DropoutGenMaskV2",
            "InplaceBernoulli",
            "InplaceBernoulliTensor",
            "InplaceNormal",
            "InplaceRandom",
        ),
        *("InplaceUniform", "LinalgQr", "Multinomial", "NormalFloatFloat", "NormalFloatTensor", "NormalTensorFloat"),
        *("NormalTensorTensor", "Randperm"),
    )
}


def test_every_operator_has_a_case():
    assert {name for name in rows() if name.startswith("aclnn")} == (CASES.keys() & rows().keys()) | OWN_TESTS


@pytest.mark.parametrize("family", MODULES)
def test_operators(family):
    """In each dtype; and with tensors that are not contiguous."""
    failed = {}
    for name in sorted(families()[family].keys() & rows().keys()):
        try:
            for dtype in ROUNDING:
                _run(name, dtype)
            if not rows()[name].is_dynamic:  # its memory is larger than its result
                _run(name, "float32", strided=True)
        except Exception:
            failed[name] = traceback.format_exc(limit=-2)
    assert not failed, "\n".join(f"{name}: {text}" for name, text in failed.items())


def _made(name, *arguments, shape=(100, 100), dtype=np.float32):
    out = np.zeros(shape, dtype)
    execute(name, *arguments, out)
    return out


def test_attention_in_blocks_of_rows(monkeypatch):
    """As long sequences have them."""
    monkeypatch.setattr(attention, "_CACHED_SCORES", 8)
    for name in families()["attention"].keys() & rows().keys():
        _run(name, "float32")


@pytest.mark.parametrize("mean", [2.0, np.full((100, 100), 2, np.float32)], ids=["number", "tensor"])
@pytest.mark.parametrize("std", [0.5, np.full((100, 100), 0.5, np.float32)], ids=["number", "tensor"])
def test_normal(mean, std):
    kinds = ["Float" if isinstance(one, float) else "Tensor" for one in (mean, std)]
    made = _made(f"aclnnNormal{kinds[0]}{kinds[1]}", mean, std, 3, 8)
    assert abs(made.mean() - 2) < 0.02
    assert abs(made.std() - 0.5) < 0.02
    np.testing.assert_array_equal(made, _made(f"aclnnNormal{kinds[0]}{kinds[1]}", mean, std, 3, 8))
    assert (made != _made(f"aclnnNormal{kinds[0]}{kinds[1]}", mean, std, 3, 12)).any()


def _in_place(name, *arguments, dtype=np.float32):
    x = np.full((100, 100), 9, dtype)
    execute(name, x, *arguments)
    return x


def test_random_numbers_in_place():
    normal, uniform = _in_place("aclnnInplaceNormal", 1.0, 2.0, 1, 0), _in_place("aclnnInplaceUniform", -1.0, 3.0, 1, 0)
    assert abs(normal.mean() - 1) < 0.1
    assert abs(normal.std() - 2) < 0.1
    assert uniform.min() >= -1
    assert uniform.max() <= 3
    assert abs(uniform.std() - 4 / 12**0.5) < 0.05
    integers = _in_place("aclnnInplaceRandom", 2, 6, 1, 0, dtype=np.int32)
    assert set(integers.reshape(-1)) == {2, 3, 4, 5}
    for name, argument in (("", Scalar(0.25)), ("Tensor", np.full((100, 100), 0.25, np.float32))):
        drawn = _in_place(f"aclnnInplaceBernoulli{name}", argument, 1, 0)
        assert set(drawn.reshape(-1)) == {0, 1}
        assert abs(drawn.mean() - 0.25) < 0.03


def test_permutations_and_choices():
    places = _made("aclnnRandperm", 100, 1, 0, shape=(100,), dtype=np.int64)
    assert sorted(places) == list(range(100))
    assert list(places) != list(range(100))
    chosen = _made(
        "aclnnMultinomial", np.array([[0, 3, 1]], np.float32), 400, True, 1, 0, shape=(1, 400), dtype=np.int64
    )
    assert set(chosen[0]) == {1, 2}
    assert abs((chosen == 1).mean() - 0.75) < 0.1


def test_dropout():
    x, out, mask = np.ones(4096, np.float32), np.zeros(4096, np.float32), np.zeros(512, np.uint8)
    execute("aclnnDropout", x, 0.25, True, 1, 0, out, mask)
    kept = np.unpackbits(mask, bitorder="little").astype(bool)
    assert abs(kept.mean() - 0.75) < 0.05
    np.testing.assert_allclose(out, np.where(kept, 1 / 0.75, 0), rtol=1e-6)
    again = np.zeros(512, np.uint8)
    execute("aclnnDropoutGenMaskV2", [4096], 0.25, 1, 0, 0, again)
    np.testing.assert_array_equal(again, mask)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_gradients_that_are_not_finite(value):
    grads, found = [np.ones(3, np.float32), np.array([1, value], np.float32)], np.zeros(1, np.float32)
    execute("aclnnForeachNonFiniteCheckAndUnscale", grads, found, np.array([0.5], np.float32))
    np.testing.assert_array_equal(found, [1])
    np.testing.assert_array_equal(grads[0], np.full(3, 0.5, np.float32))


@pytest.mark.parametrize(
    ("tracker", "found", "scale", "expected"),
    [(2, 0, 8, (8, 3)), (4, 0, 8, (16, 0)), (2, 1, 8, (4, 0)), (4, 0, 3e38, (3e38, 0))],
    ids=["as it is", "grown", "backed off", "no more than finite"],
)
def test_loss_scale(tracker, found, scale, expected):
    made = np.zeros(1, np.float32), np.zeros(1, np.int32)
    given = np.array([scale], np.float32), np.array([tracker], np.int32), np.array([found], np.float32)
    execute("aclnnAmpUpdateScale", *given, 2.0, 0.5, 5, *made)
    assert (made[0][0], made[1][0]) == (np.float32(expected[0]), expected[1])


@pytest.mark.parametrize("name", ["aclnnLayerNorm", "aclnnGroupNorm", "aclop:LayerNorm"])
def test_norms_of_what_is_far_from_zero(name):
    """A mean of 1000 deviations is rounded by 6e-5 of one."""
    x = (1000 + np.random.default_rng(4).normal(size=(2, 3, 512))).astype(np.float32)
    y = normalized(name, x)
    wide = x.astype(np.float64) - x.mean(-1, keepdims=True, dtype=np.float64)
    np.testing.assert_allclose(y, wide / np.sqrt(np.square(wide).mean(-1, keepdims=True) + 1e-5), rtol=2e-6, atol=2e-6)


def normalized(name, x):
    if name == "aclop:LayerNorm":
        return ge_layer_norm(x, np.float32(1), np.float32(0), 2, 1e-5)[0]
    y, mean, rstd = (np.full(shape, np.nan, np.float32) for shape in (x.shape, (2, 3, 1), (2, 3, 1)))
    if name == "aclnnLayerNorm":
        execute(name, x, [512], None, None, 1e-5, y, mean, rstd)
    else:
        execute(name, x, None, None, 2, 3, 512, 3, 1e-5, y, mean.reshape(2, 3), rstd.reshape(2, 3))
    return y


def test_qr():
    x, q, r = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32), np.zeros((4, 3)), np.zeros((3, 3))
    execute("aclnnLinalgQr", x, 0, q, r)
    assert_close(q @ r, x, atol=1e-5)
    assert_close(q.T @ q, np.eye(3), atol=1e-5)
    np.testing.assert_array_equal(np.tril(r, -1), 0)


def test_memory_without_elements():
    empty = np.empty((0, 3), np.float32)
    execute("aclnnExp", empty, Memory(np.empty((0, 3), np.float32)))
