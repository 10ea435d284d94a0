import pytest

from ms_ascend_ops import registry
from ms_ascend_ops.profiler.chip import load_chip
from ms_ascend_ops.profiler.launches import Case
from ms_ascend_ops.profiler.survey import PUBLISHED, as_markdown, survey, survey_cases, surveyed


def test_every_operator_in_every_dtype_forward_and_gradient():
    cases = survey_cases("ascend910b2")
    kernels = {signature.name for name in surveyed() for signature in registry.op_spec(name).signatures}
    assert {(case.kernel, case.dtype) for case in cases} == {
        (kernel, dtype) for kernel in kernels for dtype in ("float16", "bfloat16", "float32")
    }


@pytest.mark.parametrize("name", registry.names())
def test_every_case_can_be_called(name):
    """Shapes and dtypes fit the definitions; nothing is run."""
    for case in [*survey_cases("ascend910b2"), *(case for case, _ in PUBLISHED)]:
        if case.operator == name:
            assert case.request(load_chip(case.chip)).shapes[0], case


def test_a_case_that_fails_keeps_its_place(recorder):
    rows = survey([Case("silu_mul", (48, 1024)), Case("swiglu", (4, 7))], recorder)
    assert rows[0].prediction is not None
    assert rows[1].prediction is None
    assert "must be even" in rows[1].problem
    table = as_markdown(rows, "ascend910b2")
    assert "nothing was measured" in table
    assert "| silu_mul | 48x1024 | " in table
    assert "| swiglu | 4x7 | - | swiglu: x.shape[-1] must be even" in table


def test_markdown_has_a_line_for_a_shape_and_a_column_for_a_dtype(recorder):
    cases = [Case("silu_mul", (48, 1024), dtype) for dtype in ("float16", "float32")]
    lines = as_markdown(survey(cases, recorder), "ascend910b2").splitlines()
    assert lines[2] == "| kernel | shape | float16: us, % | float32: us, % | bounded by |"
    assert len(lines) == 5
