import fcntl
import json
import re

import mindspore as ms
import numpy as np
import pytest
from click.testing import CliRunner
from mindspore import Tensor
from ms_ascend_ops.benchmarks.harness import Effort
from ms_ascend_ops.benchmarks.networks import measure, plots, report, subject, variants
from ms_ascend_ops.benchmarks.networks.ablation import ablate_mindir, without_operators
from ms_ascend_ops.benchmarks.networks.measure import Machine, Row, Series
from ms_ascend_ops.benchmarks.networks.worker import by_operator
from ms_ascend_ops.export.mindir_graph import graphs_of
from ms_ascend_ops.export.model import read_model

from ms_ascend_ops import export_mindir, load, ops
from ms_ascend_ops.__main__ import main
from tests.export import spellings

HIDDEN = spellings.HIDDEN
SHORT = Effort(rounds=2, turn_seconds=0, settle_seconds=0)
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


def test_ratios_are_those_of_the_rounds():
    assert row([10.0, 12.0], [5.0, 8.0], [1.0, 1.0], [1.0, 1.0]).ratios("fused") == [2.0, 1.5]


def test_a_network_without_its_norm_hands_the_input_on(tmp_path):
    net = spellings.PowMeanNorm()
    stock = export_mindir(net, Tensor(X), path=tmp_path / "stock")
    assert ablate_mindir(stock, tmp_path / "ablated.mindir") == 1
    np.testing.assert_array_equal(load(tmp_path / "ablated.mindir")(Tensor(X)).asnumpy(), X)


def test_what_only_a_removed_operator_used_is_still_calculated(tmp_path):
    """Both projections in front of a SwiGLU, though the result of one is handed on alone."""
    net = spellings.LlamaStyleMLP()
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
    assert "llama" in subject.names()
    for name in subject.names():
        client = subject.client(name)
        assert client.LABEL
        assert "tiny" in client.SIZES
    with pytest.raises(ValueError, match="llama has the sizes tiny, small"):
        subject.build("llama", "huge", "float32")


def test_a_phase_is_measured_in_all_variants():
    (made,) = measure.measure(
        "llama",
        "tiny",
        "float32",
        lambda name: name == "decode after 4",
        SHORT,
        lambda _: None,
        machine=Machine(),
        memory=False,
    )
    assert set(made.series) == set(variants.VARIANTS)
    assert all(len(series.rounds) == 2 for series in made.series.values())


def test_runs_that_share_a_machine_measure_one_after_the_other(tmp_path):
    with Machine(tmp_path / "lock") as one, (tmp_path / "lock").open("a") as other:
        with one.alone(), pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)


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
    assert "| net small float32: prefill | 10.50 | 1.50 | 1.75 | 2.10 | 1.67 to 1.83 | 64 % | 82 % |" in text
    assert "| MatMul | 2.00 (4) |" in text
    assert "2 → 2" in text
    stored = json.loads(json.dumps(report.as_dict([made], MACHINE)))
    assert stored["rows"][0]["variants"]["joined"]["speedup"] == pytest.approx(1.75)
    plots.bars([made], MACHINE, tmp_path / "bars.png")
    assert (tmp_path / "bars.png").read_bytes().startswith(b"\x89PNG")


def test_command_refuses_what_it_does_not_know(monkeypatch):
    monkeypatch.setattr("os.sched_setaffinity", lambda *_: None)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    result = CliRunner().invoke(main, ["bench-networks", "--networks", "nonet"])
    assert result.exit_code == 2
    assert "must be of llama, mindcv_vit" in result.output
    result = CliRunner().invoke(main, ["bench-networks", "--own-threads", "0"])
    assert result.exit_code == 2


def test_a_network_that_is_not_installed_is_skipped(monkeypatch):
    monkeypatch.setattr("os.sched_setaffinity", lambda *_: None)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setattr(subject.client("mindcv_vit"), "NEEDS", ("no_such_package",))
    result = CliRunner().invoke(main, ["bench-networks", "--networks", "mindcv_vit"])
    assert result.exit_code == 1
    assert "skipped: ViT (mindcv) (no_such_package not installed)" in result.output


@pytest.fixture(autouse=True)
def _graph_mode():
    mode = ms.get_context("mode")
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    ms.set_context(mode=mode)
