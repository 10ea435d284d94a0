"""Lists of kernels (super kernels): values against float64, and lists that were damaged."""

import random

import ml_dtypes
import numpy as np
import pytest

from ms_ascend_ops import _C
from ms_ascend_ops.super_kernel import CAST, LAST_ROW, TRANSPOSE, VIEW, Step, Value, as_text
from tests.acceptance import assert_close

X, GAMMA = Value(-1, 0), Value(-1, 1)
NORM = {"epsilon": 1e-6, "scheme": "round_then_scale"}

# rms_norm, twice; the first one in other views; sums of results that share the arena with what is dead by then
STEPS = [
    Step("rms_norm", [X, GAMMA], NORM, outputs=2),
    Step(VIEW, [Value(0)], dims=[(X, 0), 3, -1]),
    Step(TRANSPOSE, [Value(1)], dims=[1, 0, 2]),
    Step("rms_norm", [Value(0), GAMMA], NORM, outputs=2),
    Step("silu_mul", [Value(0), Value(3)], outputs=1),
    Step("silu_mul", [Value(4), Value(0)], outputs=1),
    Step(LAST_ROW, [Value(5)]),
]
RESULTS = [Value(2), Value(1), Value(6), Value(0, 1)]
TEXT = as_text(2, STEPS, RESULTS)


def launch(text, rows=5, columns=96):
    rng = np.random.default_rng(0)
    x, gamma = rng.standard_normal((rows, columns)).astype(np.float32), rng.random(columns).astype(np.float32)
    shapes = [(3, rows, columns // 3), (rows, 3, columns // 3), (1, columns), (rows, 1)]
    outputs = [np.full(shape, np.nan, np.float32) for shape in shapes]
    _C.launch("super_kernel", [x, gamma], outputs, {"kernels": text})
    return x.astype(np.float64), gamma.astype(np.float64), outputs


def norm(x, gamma):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * gamma


# one row; rows that a core takes alone; a transpose that several threads copy
@pytest.mark.parametrize(("rows", "columns"), [(1, 96), (5, 96), (257, 768)])
def test_values(rows, columns):
    x, gamma, (transposed, viewed, last, rstd) = launch(TEXT, rows, columns)
    first = norm(x, gamma)
    second = norm(first, gamma)
    product = first / (1 + np.exp(-first)) * second
    third = product / (1 + np.exp(-product)) * first
    # Of float32: each norm is a sum of `columns`, a root and two products, wrong by some 1e-6 (relative); `last` comes
    # behind two of them, an exponential and three products.
    assert_close(viewed, first.reshape(rows, 3, -1), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(transposed, viewed.transpose(1, 0, 2))
    assert_close(last, third[-1:], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rstd, 1 / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6), rtol=1e-5)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("super_kernel 1", "super_kernel 2", "the format 2"),
        ("super_kernel", "kernel", "begins with"),
        ("inputs 2", "inputs 3", "expects 7 tensors, got 6"),
        ("rms_norm 0 1", "rms_norm 0 99", r"step 0 .*99 is not below 2"),
        ("rms_norm 0 1", "rms_norm 0", r"step 0 .*takes 2 inputs, got 1"),
        ("rms_norm 0 1", "rms_norm 1 0", "step 0 of 7, rms_norm: .*gamma must have 1 dim"),
        ("rms_norm 0 1", "rms_norm 0 -", "gamma is missing"),
        ("rms_norm", "no_norm", "no operator 'no_norm'"),
        ("epsilon=1e-06", "epsilon=nan", "epsilon"),
        ("epsilon=1e-06", "", "the attribute epsilon is missing"),
        ("0:0 3 -1", "0:0 7 -1", "step 1 of 7, view: .*not as many elements"),
        ("0:0 3 -1", "0:7 3 -1", "has no axis 7"),
        ("0:0 3 -1", "-1 3 -1", "several dims of -1"),
        ("0:0 3 -1", "4611686018427387904 4 -1", "too large"),
        ("1 0 2", "1 1 2", "the axis 1 twice"),
        ("1 0 2", "1 0", "has not 2 axes"),
        ("results 5", "results 555", "results: 555"),
    ],
)
def test_a_wrong_list(before, after, message):
    assert before in TEXT
    with pytest.raises((TypeError, ValueError), match=message):
        launch(TEXT.replace(before, after, 1))


HALVES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def cast_list(*dtypes):
    return as_text(
        1, [Step(CAST, [Value(i - 1)], dtype=name) for i, name in enumerate(dtypes)], [Value(len(dtypes) - 1)]
    )


# what a machine converts at once, and what is left over; more than one piece of 1024; a part for each thread
@pytest.mark.parametrize("count", [1, 8, 13, 2061, 200000])
def test_casts(count):
    """Every bit as NumPy rounds: also ties, subnormal numbers, Inf, NaN and what is too large."""
    rng = np.random.default_rng(count)
    x = (rng.standard_normal(count) * np.exp2(rng.integers(-30, 20, count))).astype(np.float32)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 65519.9, 65520.0, 2.0**-24, 2.0**-25, 3 * 2.0**-25, 1 + 2.0**-11]
    x[: len(special)] = special[:count]
    with np.errstate(over="ignore"):
        for name, dtype in HALVES.items():
            half, again = np.empty(count, dtype), np.empty(count, np.float32)
            _C.launch("super_kernel", [x], [half], {"kernels": cast_list(name)})
            np.testing.assert_array_equal(half.astype(np.float32), x.astype(dtype).astype(np.float32))
            _C.launch("super_kernel", [half], [again], {"kernels": cast_list("float32")})
            np.testing.assert_array_equal(again, half.astype(np.float32))
        other = np.empty(count, np.float16)
        _C.launch("super_kernel", [x], [other], {"kernels": cast_list("bfloat16", "float16")})
        np.testing.assert_array_equal(other, x.astype(ml_dtypes.bfloat16).astype(np.float32).astype(np.float16))


# all at once; five at a time, which are converted without the machine's own instruction
@pytest.mark.parametrize("halves", [slice(None), slice(1, 6), slice(1022, 1027), slice(31742, 31747)])
def test_casts_of_halves(halves):
    half = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)[halves]
    again = np.empty(half.shape, np.float32)
    _C.launch("super_kernel", [half], [again], {"kernels": cast_list("float32")})
    np.testing.assert_array_equal(again, half.astype(np.float32))


@pytest.mark.parametrize("dtype", ["int32", "float64", ""])
def test_a_cast_is_to_floats(dtype):
    x = np.zeros(3, np.float32)
    with pytest.raises(ValueError, match="casts to float16, bfloat16 or float32"):
        _C.launch("super_kernel", [x], [x.copy()], {"kernels": cast_list(dtype)})


def test_a_cast_is_of_floats():
    with pytest.raises(TypeError, match=r"step 0 of 1, cast: it casts floats, got int32"):
        _C.launch("super_kernel", [np.zeros(3, np.int32)], [np.zeros(3, np.float32)], {"kernels": cast_list("float32")})


def test_what_is_written_must_be_an_input_of_the_list():
    steps = [
        Step("rms_norm", [X, GAMMA], NORM, outputs=2),
        Step("kv_cache_update", [Value(0), Value(0), Value(0), Value(-1, 0), Value(-1, 2)]),
    ]
    with pytest.raises(ValueError, match=r"key_cache, which it writes, must be an input"):
        launch(as_text(2, steps, [Value(1)]).replace("inputs 2", "inputs 3"))


def test_damaged_lists():
    """A list that is changed at random gives an error, or results in their memory: the sanitized build tells."""
    rng = random.Random(0)
    words = [
        *TEXT.split(" "),
        "\n",
        ";",
        "-",
        "-1",
        "0:0",
        "9" * 30,
        "matmul",
        "transpose",
        "cast",
        "float16",
        "4294967296",
        "\0",
        "=",
    ]
    messages = []
    for _ in range(400):
        text = TEXT.split(" ")
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(text))
            text[place : place + rng.randint(0, 2)] = rng.choice([[], [rng.choice(words)]])
        try:
            launch(" ".join(text))
        except (TypeError, ValueError, RuntimeError, MemoryError) as error:
            messages.append(str(error))
    assert len(messages) > 200
    assert [text for text in messages if "super_kernel" not in text] == []
