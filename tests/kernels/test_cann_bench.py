"""Kernels of operators that a public CANN benchmark has cases of."""

import numpy as np
import pytest

from tests.acceptance import assert_accurate
from tests.cann_bench import cases, draw_range
from tests.native import launch
from tests.reference import gelu, rms_norm, rotary_embedding, softmax


@pytest.mark.parametrize("case", cases("Softmax"), ids=lambda case: f"case{case['case_id']}")
def test_softmax(case):
    rng = np.random.default_rng(case["case_id"])
    (shape,), (dtype,), axis = case["input_shape"], case["dtype"], case["attrs"]["dim"]
    (y,), (rounded,) = launch("softmax", [draw_range(rng, shape, case["value_range"])], [dtype], axis=axis)
    assert_accurate(y, softmax.forward(rounded, axis), dtype)


@pytest.mark.parametrize("case", cases("Gelu"), ids=lambda case: f"case{case['case_id']}")
def test_gelu(case):
    x = draw_range(np.random.default_rng(case["case_id"]), case["input_shape"][0], case["value_range"])
    form = case["attrs"]["approximate"]
    (y,), (rounded,) = launch("gelu", [x], case["dtype"], approximate=form)
    assert_accurate(y, gelu.forward(rounded, form), case["dtype"][0])


@pytest.mark.parametrize("case", cases("RmsNorm"), ids=lambda case: f"case{case['case_id']}")
def test_rms_norm(case):
    rng = np.random.default_rng(case["case_id"])
    inputs = [draw_range(rng, shape, case["value_range"]) for shape in case["input_shape"]]
    epsilon = case["attrs"]["epsilon"]
    (y, rstd), rounded = launch("rms_norm", inputs, case["dtype"], epsilon=epsilon)
    golden_y, golden_rstd = rms_norm.forward(*rounded, epsilon)
    assert_accurate(y, golden_y, case["dtype"][0])
    assert_accurate(rstd, golden_rstd, "float32")


@pytest.mark.parametrize("case", cases("ApplyRotaryPosEmb"), ids=lambda case: f"case{case['case_id']}")
def test_rotary_embedding(case):
    rng = np.random.default_rng(case["case_id"])
    ranges = case["value_range"]
    _, k, cos, sin = (draw_range(rng, shape, bounds) for shape, bounds in zip(case["input_shape"], ranges, strict=True))
    mode = {"half": "half", "interleaved": "interleave"}[case["attrs"]["rotaryMode"]]
    attributes = {"mode": mode, "seq_axis": 1 + case["attrs"]["layout"]}
    (y,), exact = launch("rotary_embedding", [k, cos, sin], case["dtype"][1:], **attributes)
    golden = rotary_embedding.forward(*exact, **attributes)
    assert_accurate(y, golden, case["dtype"][1], rotary_embedding.terms(*exact, **attributes))
