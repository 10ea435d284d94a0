import numpy as np
import pytest
from ms_ascend_ops.benchmarks.cases import DTYPES, OPERATORS, Case
from ms_ascend_ops.benchmarks.harness import Effort, measure
from ms_ascend_ops.benchmarks.providers import PROVIDERS, Prepared, Provider, library

SHORT = Effort(rounds=1, turn_seconds=0, settle_seconds=0)


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("operator", OPERATORS)
def test_every_case_runs_in_every_dtype(operator, gradient):
    for dtype in DTYPES:
        outcome = measure(Case(operator, gradient, 3, 33, dtype), ["copy", "library"], 2, SHORT, lambda _: None)
        assert all(result.seconds for result in outcome.results.values())


def test_bytes_are_those_of_inputs_and_outputs():
    assert Case("silu_mul", False, 2, 8, "bfloat16").bytes == 3 * 2 * 8 * 2
    assert Case("silu_mul", True, 2, 8, "bfloat16").bytes == (3 + 5) * 2 * 8 * 2


def test_a_wrong_result_is_not_timed(monkeypatch):
    monkeypatch.setitem(PROVIDERS, "wrong", Provider("wrong", "library:wrong"))
    monkeypatch.setattr(library, "wrong", lambda case, _: Prepared(lambda: None, lambda _: [np.zeros((3, 33))]), False)
    outcome = measure(Case("silu_mul", False, 3, 33, "float32"), ["wrong"], 1, SHORT, lambda _: None)
    assert not outcome.results["wrong"].seconds
    assert outcome.results["wrong"].reason.startswith("wrong result, not timed: differs by 1.0e+00")
