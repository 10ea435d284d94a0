import fcntl
import json
import os
import re
import signal
import time

import mindspore as ms
import numpy as np
import pytest
from click.testing import CliRunner
from mindspore import Tensor
from ms_ascend_ops.benchmarks.harness import Sampling
from ms_ascend_ops.benchmarks.networks import measure, plots, report, target, variants
from ms_ascend_ops.benchmarks.networks.ablation import ablate_mindir, without_operators
from ms_ascend_ops.benchmarks.networks.measure import Row, Series, Task
from ms_ascend_ops.benchmarks.networks.sharing import Budget, Machine
from ms_ascend_ops.benchmarks.networks.worker import by_operator
from ms_ascend_ops.export.files.model import read_model
from ms_ascend_ops.export.graphs.mindir_graph import graphs_of

from ms_ascend_ops import export_mindir, load, ops
from ms_ascend_ops.__main__ import main
from tests.export import equivalent_forms
from tests.pictures import check_picture, drawn

HIDDEN = equivalent_forms.HIDDEN
SHORT = Sampling(rounds=2, timed_seconds=0, untimed_seconds=0)
X = np.random.default_rng(0).standard_normal((3, 5, HIDDEN)).astype(np.float32)
MACHINE = {"cpu": "some CPU", "threads": 2, "versions": {"mindspore": "2.10.0"}}


def row(stock, fused, joined, ablated):
    """A phase with these seconds in each of its rounds."""
    made = Row("net", "small", "float32", "prefill", 128, "tokens")
    for name, seconds in zip(variants.VARIANTS, (stock, fused, joined, ablated), strict=True):
        made.series[name] = Series([[second] for second in seconds])
    return made


def kinds(path):
    return [node.kind for graph in graphs_of(read_model(path, "test")) for node in graph.graph.nodes]


def test_what_is_reached_is_a_share_of_what_removing_the_operators_saves():
    made = row([10.0, 10.0], [7.0, 7.0], [6.0, 6.0], [6.0, 6.0])
    assert made.reached("fused") == pytest.approx(0.75)
    assert made.reached("joined") == pytest.approx(1.0)
    assert made.speedup("fused") == pytest.approx(10 / 7)
    assert row([10.0], [9.9], [9.9], [9.95]).reached("fused") is None


def test_a_network_without_its_norm_hands_the_input_on(tmp_path):
    net = equivalent_forms.PowMeanNorm()
    stock = export_mindir(net, Tensor(X), path=tmp_path / "stock")
    assert ablate_mindir(stock, tmp_path / "ablated.mindir") == 1
    np.testing.assert_array_equal(load(tmp_path / "ablated.mindir")(Tensor(X)).asnumpy(), X)


def test_what_only_a_removed_operator_used_is_still_calculated(tmp_path):
    """Both projections in front of a SwiGLU, though the result of one is handed on alone."""
    net = equivalent_forms.LlamaStyleMLP()
    stock = export_mindir(net, Tensor(X), path=tmp_path / "stock")
    assert ablate_mindir(stock, tmp_path / "ablated.mindir") == 1
    assert kinds(tmp_path / "ablated.mindir").count("MatMul") == kinds(stock).count("MatMul") == 3
    assert "SiLU" not in kinds(tmp_path / "ablated.mindir")
    gate, up = net.gate_proj(Tensor(X)), net.up_proj(Tensor(X))
    result = load(tmp_path / "ablated.mindir")(Tensor(X)).asnumpy()
    # Which of the two is handed on is the pattern's choice. The products are the same ones.
    assert any(np.array_equal(result, net.down_proj(handed_on).asnumpy()) for handed_on in (gate, up))


def test_ablated_files_stay_in_their_folder(tmp_path):
    (tmp_path / "other").mkdir()
    with pytest.raises(ValueError, match="must be in the folder of"):
        ablate_mindir(tmp_path / "stock.mindir", tmp_path / "other" / "ablated.mindir")


def test_functions_do_nothing_within_the_block_only():
    gamma = Tensor(np.full(HIDDEN, 2, np.float32))
    before = ops.rms_norm
    with without_operators():
        np.testing.assert_array_equal(ops.rms_norm(Tensor(X), gamma, 1e-6)[0].asnumpy(), X)
        np.testing.assert_array_equal(ops.silu_mul(Tensor(X), Tensor(X)).asnumpy(), 2 * X)
        assert ops.swiglu(Tensor(X)).shape == (*X.shape[:-1], HIDDEN // 2)
    assert ops.rms_norm is before


def test_every_network_says_what_it_needs_and_has_a_tiny_size():
    assert "llama" in target.names()
    for name in target.names():
        client = target.client(name)
        assert client.LABEL
        assert "tiny" in client.SIZES
    with pytest.raises(ValueError, match="llama has the sizes tiny, small"):
        target.build("llama", "huge", "float32")


def test_a_phase_is_measured_in_all_variants():
    rows = []
    task = Task(Machine(), SHORT, 1000, memory=False)
    measure.measure(
        "llama", "tiny", "float32", lambda name: name == "decode after 4", task, lambda _: None, rows.append
    )
    (made,) = rows
    assert set(made.series) == set(variants.VARIANTS)
    assert made.rounds == 2
    assert all(len(series.rounds) == 2 for series in made.series.values())


def test_without_time_there_is_one_round_and_nothing_else():
    rows = []
    task = Task(Machine(), SHORT, 0, memory=True, profile=True)
    measure.measure("llama", "tiny", "float32", lambda name: name == "prefill 1x8", task, lambda _: None, rows.append)
    (made,) = rows
    assert [len(series.rounds) for series in made.series.values()] == [1, 1, 1, 1]
    assert not any(series.memory or series.profile for series in made.series.values())
    assert made.omitted == ["memory", "profile"]


def test_what_there_was_no_time_for_is_named(clock, monkeypatch):
    made = row([1.0], [1.0], [1.0], [1.0])
    monkeypatch.setattr(measure, "child", lambda task, **given: clock(6) or given)
    run = measure._Run(Task(Machine(), SHORT, 10), Budget(10, 1), lambda _: None, lambda _: None)
    found = dict(run._children(made, "memory", {name: {"mindir": name} for name in variants.VARIANTS}))
    assert found == {
        "stock": {"mindir": "stock", "seconds": "2.5"},
        "fused": {"mindir": "fused", "seconds": str(4 / 3)},
    }
    assert made.omitted == ["memory of fused (O3), without them"]


@pytest.fixture
def clock(monkeypatch):
    """Time that passes when the test says so: `clock(seconds)`."""
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return lambda seconds: now.__setitem__(0, now[0] + seconds)


def test_time_is_shared_out_evenly_to_what_is_still_to_come(clock):
    budget = Budget(120, 3)
    budget.begin()
    assert budget.left() == 40
    clock(10)  # 30 are left over
    budget.begin()
    assert budget.left() == 55
    budget.add(7)  # spent waiting
    clock(7)
    assert budget.left() == 55
    clock(115)
    assert budget.left() == 0
    budget.begin()
    assert budget.left() == 0


def call(clock, seconds):
    return lambda: clock(seconds)


def test_rounds_end_when_the_time_is_over(clock):
    made = row([], [], [], [])
    budget = Budget(25, 1)
    budget.begin()
    runs = {name: call(clock, 1) for name in variants.VARIANTS}
    # Untimed calls of 0.05 s, and timed ones of 2 s: 12 s a round.
    measure._alternate(
        made, runs, Sampling(rounds=9, timed_seconds=2, untimed_seconds=0.05), (), budget, lambda _: None
    )
    assert made.rounds == 3
    assert made.series["stock"].rounds == [[1, 1]] * 3


def test_a_long_call_needs_no_untimed_one(clock):
    made = row([], [], [], [])
    runs = {name: call(clock, 60) for name in variants.VARIANTS}
    budget = Budget(1, 1)
    measure._alternate(made, runs, Sampling(rounds=9, untimed_seconds=0.05), (), budget, lambda _: None)
    assert made.series["stock"].rounds == [[60]]


def test_a_round_that_was_interrupted_is_none(clock):
    made, turns = row([], [], [], []), []

    def run():
        clock(1)
        turns.append(None)
        if len(turns) == 6:  # the second variant in the second round
            raise KeyboardInterrupt

    sampling = Sampling(rounds=9, timed_seconds=1, untimed_seconds=0)
    with pytest.raises(KeyboardInterrupt):
        measure._alternate(made, dict.fromkeys(variants.VARIANTS, run), sampling, (), Budget(99, 1), lambda _: None)
    assert made.rounds == 1
    assert all(len(series.rounds) == 1 for series in made.series.values())


def test_runs_that_share_a_machine_measure_one_after_the_other(tmp_path):
    with Machine(tmp_path / "lock") as one, (tmp_path / "lock").open("a") as other:
        with one.alone(), pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)


def test_an_interrupted_run_keeps_no_lock(tmp_path):
    with Machine(tmp_path / "lock") as one, (tmp_path / "lock").open("a") as other:
        with pytest.raises(KeyboardInterrupt), one.alone():
            raise KeyboardInterrupt
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_variant_that_differs_is_not_timed():
    made = row([1.0], [1.0], [1.0], [1.0])
    with pytest.raises(ValueError, match=re.escape("net small float32: prefill: fused differs from stock by 1.0e+00")):
        measure._compare(made, {"stock": [Tensor([1.0])], "fused": [Tensor([2.0])]}, 1e-4)
    measure._compare(made, {"stock": [Tensor([1.0])], "ablated": [Tensor([2.0])]}, 1e-4)


def test_a_profile_has_the_median_of_each_node():
    text = "Default/MatMul-op1;HostCpuOps;17,1.0,0 18,9.0,0 19,2.0,0 \nDefault/MatMul-op2;HostCpuOps;17,3.0,0 \n"
    text += "Default/net/Add-op0;HostCpuOps;17,0.5,0 \n"
    assert by_operator(text) == {"MatMul": (pytest.approx(0.005), 2), "Add": (pytest.approx(0.0005), 1)}


def test_report(tmp_path):
    made = row([0.010, 0.011], [0.007, 0.007], [0.006, 0.006], [0.005, 0.005])
    for series in made.series.values():
        series.memory = {"before": 2**20, "peak": 3 * 2**20}
        series.profile = {"MatMul": (0.002, 4.0)}
    text = report.markdown([made], MACHINE)
    assert "| net small float32: prefill | 10.50 | 1.50 | 1.75 | 2.10 | 1.67 to 1.83 | 2 | 64 % | 82 % |" in text
    assert "| MatMul | 2.00 (4) |" in text
    assert "2 → 2" in text
    assert "Not measured" not in text
    assert "\nNot measured: other small float32, last.\n" in report.markdown(
        [made], MACHINE, ["other small float32", "last"]
    )
    times = "times as fast: fused (O2) 1.50, fused (O3) 1.75, without them 2.10 (rounds: 2)"
    assert report.line(made) == f"net small float32: prefill: 10.50 ms stock; {times}"
    stored = json.loads(json.dumps(report.as_dict([made], MACHINE, ["other small float32"])))
    assert stored["missing"] == ["other small float32"]
    assert stored["rows"][0]["rounds"] == 2
    assert stored["rows"][0]["variants"]["joined"]["speedup"] == pytest.approx(1.75)
    slower = row([10.0, 11.0], [17.0, 16.0], [8.0, 8.0], [7.0, 7.0])
    slower.network, slower.phase = "UNet2DModel (mindone.diffusers)", "its GroupNorm + SiLU 2x320x64x64"
    with drawn() as figures:
        plots.bars([made, slower], MACHINE, tmp_path / "bars.png")
    check_picture(figures[0])
    assert (tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def command(monkeypatch):
    """The command. The variables that it sets come back afterwards."""
    monkeypatch.setattr("os.sched_setaffinity", lambda *_: None)
    for name in ("OMP_NUM_THREADS", "GLOG_v"):
        monkeypatch.setenv(name, os.environ.get(name, "2"))
    return lambda *arguments: CliRunner().invoke(main, ["bench-networks", *map(str, arguments)])


def test_command_refuses_what_it_does_not_know(command):
    result = command("--networks", "nonet")
    assert result.exit_code == 2
    assert "must be of llama, mindcv_vit" in result.output
    assert command("--own-threads", "0").exit_code == 2
    assert command("--seconds", "-1").exit_code == 2


def ctrl_c():
    raise KeyboardInterrupt


def sigterm():
    signal.raise_signal(signal.SIGTERM)


def swallowed():
    """As in MindSpore's compiler, which makes another error of it."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise RuntimeError("the graph could not be compiled") from None


@pytest.fixture
def measured(monkeypatch):
    """Instead of measuring: made-up times of two phases of each network. The second in float16 ends as `how` does."""

    def install(how):
        def fake(name, size, dtype, wanted, task, tell, keep):
            for phase in ("prefill", "decode"):
                if (dtype, phase) == ("float16", "decode"):
                    how()
                made = row([0.010], [0.007], [0.006], [0.005])
                made.network, made.size, made.dtype, made.phase = name, size, dtype, phase
                keep(made)

        monkeypatch.setattr(measure, "measure", fake)

    return install


@pytest.mark.parametrize("how", [ctrl_c, sigterm, swallowed])
def test_what_was_measured_before_an_interruption_is_kept(command, measured, tmp_path, how):
    measured(how)
    usual = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    outputs = ["--json", tmp_path / "n.json", "--markdown", tmp_path / "n.md", "--plot", tmp_path / "n.png"]
    done = command("--networks", "llama", "--dtypes", "float32,bfloat16,float16", "--sizes", "tiny,small", *outputs)
    assert done.exit_code == 130, done.output
    missing = ["llama tiny float16 (but prefill)", "llama small float32", "llama small bfloat16", "llama small float16"]
    assert f"interrupted: missing are {'; '.join(missing)}" in " ".join(done.output.split())
    stored = json.loads((tmp_path / "n.json").read_text())
    assert [(made["dtype"], made["phase"]) for made in stored["rows"]] == [
        ("float32", "prefill"), ("float32", "decode"), ("bfloat16", "prefill"), ("bfloat16", "decode"),
        ("float16", "prefill"),
    ]  # fmt: skip
    assert stored["missing"] == missing
    assert f"Not measured: {', '.join(missing)}." in (tmp_path / "n.md").read_text()
    assert (tmp_path / "n.png").read_bytes().startswith(b"\x89PNG")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == usual


def test_an_interruption_before_the_first_result(command, monkeypatch):
    monkeypatch.setattr(measure, "measure", lambda *_: sigterm())
    done = command("--networks", "llama", "--sizes", "tiny")
    assert done.exit_code == 130
    assert done.output.rstrip().endswith("interrupted: missing are llama tiny float32")


def test_a_network_that_fails_is_named_and_the_others_are_measured(command, measured, tmp_path):
    def fails():
        raise ValueError("no kernel for\nthat")

    measured(fails)
    done = command(
        "--networks", "llama", "--dtypes", "float32,float16", "--sizes", "tiny", "--json", tmp_path / "n.json"
    )
    assert done.exit_code == 0, done.output
    assert "skipped: llama tiny float16 (no kernel for)" in done.output
    assert "interrupted" not in done.output
    stored = json.loads((tmp_path / "n.json").read_text())
    assert [made["phase"] for made in stored["rows"]] == ["prefill", "decode", "prefill"]
    assert stored["missing"] == ["llama tiny float16 (no kernel for)"]


def test_a_network_that_is_not_installed_is_skipped(command, monkeypatch):
    monkeypatch.setattr(target.client("mindcv_vit"), "NEEDS", ("no_such_package",))
    result = command("--networks", "mindcv_vit")
    assert result.exit_code == 1
    assert "skipped: ViT (mindcv) (no_such_package not installed)" in result.output


@pytest.fixture(autouse=True)
def _graph_mode():
    mode = ms.get_context("mode")
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    ms.set_context(mode=mode)
