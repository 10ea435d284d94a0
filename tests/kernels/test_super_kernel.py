"""Lists of kernels (super kernels): values against float64, and lists that were damaged."""

import random

import numpy as np
import pytest

from ms_ascend_ops import _C
from ms_ascend_ops.super_kernel import LAST_ROW, TRANSPOSE, VIEW, Step, Value, as_text

X, GAMMA = Value(-1, 0), Value(-1, 1)
NORM = {"epsilon": 1e-6, "scheme": "llama"}

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
    x, gamma, (turned, viewed, last, rstd) = launch(TEXT, rows, columns)
    first = norm(x, gamma)
    second = norm(first, gamma)
    product = first / (1 + np.exp(-first)) * second
    third = product / (1 + np.exp(-product)) * first
    np.testing.assert_allclose(viewed, first.reshape(rows, 3, -1), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(turned, viewed.transpose(1, 0, 2))
    np.testing.assert_allclose(last, third[-1:], rtol=1e-4, atol=1e-5)
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
    words = [*TEXT.split(" "), "\n", ";", "-", "-1", "0:0", "9" * 30, "matmul", "transpose", "4294967296", "\0", "="]
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
