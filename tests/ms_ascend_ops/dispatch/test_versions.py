"""Versions of a kernel with a seeded fault, beside the one that is there: what notices them."""

import logging

import mindspore as ms
import numpy as np
import pytest

from ms_ascend_ops import dispatch, monitoring, ops
from tests.acceptance import assert_close
from tests.tensors import numpy, tensor


@pytest.fixture
def pair():
    rng = np.random.default_rng(0)
    return [tensor(rng.standard_normal((64, 512)), "float32") for _ in range(2)]


def _sum(x, y):
    return ops.add(x, y)


def state(version, operator="add"):
    return next(one for one in dispatch.status(operator) if one.version == version)


def test_a_second_version_runs_beside_the_first(version, pair):
    dispatch.register("add", "next", library=version("same"))
    dispatch.use(dispatch.Fixed("next"), "add")
    expected = numpy(pair[0]) + numpy(pair[1])
    assert np.allclose(numpy(ops.add(*pair)), expected, rtol=1e-6)
    assert state("next").what.endswith("libsame.so")
    gradient = ms.grad(lambda x, y: (ops.add(x, y) * x).sum())(*pair)
    assert_close(numpy(gradient), expected + numpy(pair[0]), rtol=1e-5, atol=1e-6)
    graph = ms.jit(_sum)
    assert np.allclose(numpy(graph(*pair)), expected, rtol=1e-6)
    assert [(one.version, one.form) for one in dispatch.choices()] == [("next", "float32[64,512] float32[64,512]")]
    # Each library counts its own calls.
    monitor = monitoring.start(registry=pytest.importorskip("prometheus_client").CollectorRegistry())
    try:
        ops.add(*pair)
        assert {key[:2]: sum(one.calls) for key, one in monitor.figures().items()} == {("add", "next"): 1}
    finally:
        monitoring.stop()


def test_a_wrong_result_is_caught_by_the_guard(version, pair, caplog):
    dispatch.register("add", "next", library=version("wrong"))
    dispatch.use(dispatch.Fixed("next"), "add", guard=dispatch.Guard())
    with caplog.at_level(logging.WARNING, "ms_ascend_ops"):
        for _ in range(5):
            assert np.allclose(numpy(ops.add(*pair)), numpy(pair[0]) + numpy(pair[1]), rtol=1e-6)
    assert state("next").state == "open"
    assert state("next").failures == {"wrong result": 1}
    assert state("next").fallbacks == 5
    assert "within the tolerance" in state("next").reason
    assert len([one for one in caplog.records if "taken out" in one.message]) == 1
    assert len([one for one in caplog.records if "answers in place of next" in one.message]) == 1


def test_infinities_that_the_reference_does_not_have_are_caught(version, pair):
    """Without any comparison of values."""
    dispatch.register("add", "next", library=version("infinite"))
    dispatch.use(dispatch.Fixed("next"), "add", guard=dispatch.Guard(first=0, share=0))
    ops.add(*pair)
    assert state("next").state == "closed", "it has no infinity yet"
    x, y = pair
    y[3, 4] = 0.0
    assert np.allclose(numpy(ops.add(x, y)), numpy(x) + numpy(y), rtol=1e-6)
    assert state("next").failures == {"non-finite": 1}


def test_infinities_that_belong_there_are_not(pair):
    x, y = pair
    x[0, 0], x[1, 1] = float("inf"), float("nan")
    dispatch.use(dispatch.Fixed(), "add", guard=dispatch.Guard())
    for _ in range(3):
        result = numpy(ops.add(x, y))
    assert np.isinf(result[0, 0])
    assert np.isnan(result[1, 1])
    assert state("kernel").failures == {}


def test_one_that_crashes_on_load_does_not_take_the_process_along(version, pair, caplog):
    dispatch.register("add", "next", library=version("crash"))
    dispatch.use(dispatch.Fixed("next"), "add")
    with caplog.at_level(logging.WARNING, "ms_ascend_ops"):
        for _ in range(3):
            assert np.allclose(numpy(ops.add(*pair)), numpy(pair[0]) + numpy(pair[1]), rtol=1e-6)
    assert state("next").failures == {"load": 1}
    assert "SIGABRT" in state("next").reason
    assert state("kernel").state == "closed"
    # A graph gets the next one, too, and the report says so.
    graph = ms.jit(_sum)
    assert np.allclose(numpy(graph(*pair)), numpy(pair[0]) + numpy(pair[1]), rtol=1e-6)
    (choice,) = dispatch.choices()
    assert choice.version == "kernel"
    assert "next" in choice.reason


@pytest.mark.parametrize("text", ["", "not a library"])
def test_a_file_that_is_no_library(tmp_path, pair, text):
    (tmp_path / "libnone.so").write_text(text)
    dispatch.register("add", "next", library=tmp_path / "libnone.so")
    dispatch.use(dispatch.Fixed("next"), "add")
    ops.add(*pair)
    assert state("next").failures == {"load": 1}


def test_a_candidate_with_wrong_results_loses_at_once(version, pair):
    dispatch.register("add", "next", library=version("wrong"))
    policy = dispatch.AB("next", compare=1.0)
    dispatch.use(policy, "add")
    for _ in range(40):
        assert np.allclose(numpy(ops.add(*pair)), numpy(pair[0]) + numpy(pair[1]), rtol=1e-6)
    assert policy.verdict == "wrong"
    assert policy.calls["next"] == 1
    assert state("next").state == "open"
    assert policy.differences[0] > 1000
