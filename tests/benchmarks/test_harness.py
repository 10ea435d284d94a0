import numpy as np
import pytest
from ms_ascend_ops.benchmarks import harness
from ms_ascend_ops.benchmarks.harness import Sampling, measure, repeat, wait_until_idle
from ms_ascend_ops.benchmarks.providers import PROVIDERS, Prepared, Provider, library
from ms_ascend_ops.samples.cases import Case, all_cases
from ms_ascend_ops.samples.operators import names, operator, unmeasured

from ms_ascend_ops import registry
from ms_ascend_ops.library import native

SHORT = Sampling(
    rounds=1, idle_seconds=0, untimed_seconds=0, untimed_calls=1, timed_seconds=0, timed_calls=1, warm_up_seconds=0
)
DTYPES = ("float32", "bfloat16", "float16")
PASSES = [name + "_grad" * gradient for name in names() for gradient in operator(name).passes]


@pytest.fixture(autouse=True)
def _usual_threads():
    """A measurement sets the number of threads."""
    yield
    native().set_thread_num(0)


def small_cases(name, dtypes):
    cases, _ = all_cases([name], dtypes, [operator(name.removesuffix("_grad")).small_shapes[0]])
    assert cases
    return cases


def test_what_is_measured_is_an_operator():
    assert set(names()) <= set(registry.names())
    assert set(unmeasured()) == set(registry.names()) - set(names())


@pytest.mark.parametrize("name", registry.names())
def test_every_operator_is_measured(name):
    """With shapes of every class: a call's own cost, in cache, in memory, tails everywhere.

    The tests of all operators alike leave out one that has no samples: this is the one that fails.
    """
    assert name not in unmeasured(), (
        f"there is no samples/ops/{name}.py: write it, with inputs(), ours(), stock() and pytorch(); "
        "samples/ops/__init__.py says what they are"
    )
    sizes = {shape: int(np.prod(shape)) for shape in operator(name).shapes}
    assert min(sizes.values()) <= 2**22
    assert max(sizes.values()) >= 2**22
    assert len(sizes) >= 4
    assert any(sum(size % 2 for size in shape if size > 1) >= len(shape) // 2 for shape in sizes)


def test_every_gradient_is_measured():
    gradients = {name for name in registry.names() if registry.op_spec(name).gradient}
    # The kernels of their gradients take sums that the functions make.
    assert gradients - {"flash_attention", "flash_attention_varlen"} == {
        name for name in names() if operator(name).gradient
    }


@pytest.mark.parametrize("name", PASSES)
def test_every_case_runs_in_every_dtype(name):
    for case in small_cases(name, DTYPES):
        outcome = measure(case, ["copy", "library"], 2, SHORT, lambda _: None)
        assert all(result.seconds for result in outcome.results.values()), outcome.results


@pytest.mark.parametrize("name", PASSES)
def test_the_compositions_compute_what_our_kernels_do(name):
    """Every provider that is installed; another library may have no kernel for a dtype, float32 all have."""
    providers = ["torch", "onnx"]  # torch.compile takes long; it is torch's function
    if PASSES.index(name) % 8 == 0:  # in MindSpore: tests/ops has every operator, stock and ours
        providers += ["stock", "mindspore", "pynative"]
    for case in small_cases(name, ["float32"]):
        outcome = measure(case, providers, 2, SHORT, lambda _: None)
        for provider, result in outcome.results.items():
            missing = ("not installed", "ONNX Runtime has no gradients", "no composition for ONNX Runtime")
            assert result.seconds or any(text in result.reason for text in missing), (provider, result.reason)


def test_frameworks_are_left_as_they_were():
    """PyTorch's gradients and threads, MindSpore's mode: tests of other folders run in the same process."""
    ms = pytest.importorskip("mindspore")
    torch = pytest.importorskip("torch")

    def found():
        return torch.is_grad_enabled(), torch.get_num_threads(), ms.get_context("mode")

    before = found()
    for gradient in (False, True):
        outcome = measure(
            Case("silu_mul", gradient, (3, 33), "float32"), ["stock", "torch", "torch_ours"], 3, SHORT, lambda _: None
        )
        assert all(result.seconds for result in outcome.results.values()), outcome.results
        assert found() == before


def test_bytes_are_those_of_inputs_and_outputs():
    assert Case("silu_mul", False, (2, 8), "bfloat16").bytes == 3 * 2 * 8 * 2
    assert Case("silu_mul", True, (2, 8), "bfloat16").bytes == (3 + 5) * 2 * 8 * 2


def test_flops_are_those_of_the_elements():
    per_element = operator("silu_mul").flops
    assert Case("silu_mul", False, (2, 8), "float32").flops == per_element[0] * 16
    assert Case("silu_mul", True, (2, 8), "float32").flops == sum(per_element) * 16
    assert Case("matmul", False, (3, 5, 7), "float32").flops == 2 * 3 * 5 * 7
    # Scores of 2 heads, 3 queries and 5 keys of 4 elements, and the product with as many values.
    assert Case("flash_attention", False, (1, 2, 1, 3, 5, 4), "float32").flops == 2 * (2 * 2 * 3 * 5 * 4)


def test_an_operator_without_shapes_of_that_many_sizes_is_left_out():
    cases, without = all_cases(["silu_mul", "swiglu"], ["float32"], [(2, 3, 4)])
    assert not cases
    assert without == ["silu_mul", "swiglu"]


def test_a_wrong_result_is_not_timed(monkeypatch):
    monkeypatch.setitem(PROVIDERS, "wrong", Provider("wrong", "library:wrong"))
    monkeypatch.setattr(library, "wrong", lambda case, _: Prepared(lambda: None, lambda _: [np.zeros((3, 33))]), False)
    outcome = measure(Case("silu_mul", False, (3, 33), "float32"), ["wrong"], 1, SHORT, lambda _: None)
    assert not outcome.results["wrong"].seconds
    assert outcome.results["wrong"].reason.startswith("wrong result, not timed: differs by 1.0e+00")


class Clock:
    """A time that only calls and sleeping take; beside it another thread spins for `spins` seconds."""

    def __init__(self, *seconds, spins=0.0):
        self.now, self.seconds, self.spins = 0.0, list(seconds), spins

    def perf_counter(self):
        return self.now

    def process_time(self):
        return min(self.now, self.spins)

    def sleep(self, seconds):
        self.now += seconds

    def run(self):
        self.now += self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0]


@pytest.mark.parametrize(
    ("durations", "least_seconds", "least_calls", "calls"),
    [
        ([0.001], 0.004, 1, 4),  # until the time is over
        ([0.003], 0.004, 8, 8),  # but as many as a faster one makes
        ([0.5], 0.004, 8, 1),  # unless each takes long
        ([0.5, 0.001], 0.004, 8, 1),
        ([0.001], 0, 1, 1),
    ],
)
def test_how_often_a_turn_calls(monkeypatch, durations, least_seconds, least_calls, calls):
    clock = Clock(*durations)
    monkeypatch.setattr(harness, "time", clock)
    assert len(repeat(clock.run, least_seconds, least_calls)) == calls


@pytest.mark.parametrize(("spins", "least", "most"), [(0, 0.001, 0.01), (0.03, 0.03, 0.04), (9, 0.2, 0.21)])
def test_rests_while_a_thread_spins(monkeypatch, spins, least, most):
    clock = Clock(spins=spins)
    monkeypatch.setattr(harness, "time", clock)
    wait_until_idle(0.2)
    assert least <= clock.now <= most
