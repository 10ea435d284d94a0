import json
import os
import signal

import pytest
from click.testing import CliRunner
from ms_ascend_ops.benchmarks import harness
from ms_ascend_ops.benchmarks.providers import PROVIDERS

from ms_ascend_ops.__main__ import main
from ms_ascend_ops.commands.bench import MEASURED
from ms_ascend_ops.library import native
from tests.pictures import check_picture, drawn


def test_an_unknown_operator_is_named():
    result = CliRunner().invoke(main, ["bench", "--ops", "nothing"])
    assert result.exit_code == 2
    assert "got nothing" in result.output


def test_help_names_every_provider():
    assert list(MEASURED) == [name for name, provider in PROVIDERS.items() if not provider.is_copy]


@pytest.fixture
def bench(monkeypatch):
    """The command on one small case. It sets variables and the number of threads, which come back afterwards."""
    for name in ("OMP_NUM_THREADS", "GLOG_v"):
        monkeypatch.setenv(name, os.environ.get(name, "2"))
    fixed = ["bench", "--quick", "--ops", "silu_mul", "--dtypes", "float32", "--providers", "library"]
    yield lambda *arguments: CliRunner().invoke(main, [*fixed, *map(str, arguments)])
    native().set_thread_num(0)


def test_compare_and_gate(bench, tmp_path):
    """Against runs with impossible times, so that the outcome does not depend on the machine."""
    path = tmp_path / "new.json"
    with drawn() as figures:
        done = bench("--shapes", "3x33", "--json", path, "--plot", tmp_path / "b.png", "--roofline", tmp_path / "r.png")
    assert done.exit_code == 0, done.output
    assert len(figures) == 2
    check_picture(figures[0])  # of the roofline it depends on the machine where words stand
    assert (tmp_path / "b.png").stat().st_size > 1000
    assert (tmp_path / "r.png").stat().st_size > 1000
    run = json.loads(path.read_text())
    for time, code, message in [
        (1e9, 0, "gate: nothing is slower by more than 10% (1 compared)"),
        (1e-9, 1, "Error: slower by more than 10%:\n  silu_mul float32 3x33: ours, direct takes"),
    ]:
        run["cases"][0]["providers"]["library"]["median_us"] = time
        path.write_text(json.dumps(run))
        done = bench("--shapes", "3x33", "--compare", path, "--gate")
        assert done.exit_code == code, done.output
        assert "Against the old run" in done.output
        assert message in done.output


def test_a_gate_without_common_cases_fails(bench, tmp_path):
    path = tmp_path / "new.json"
    bench("--shapes", "3x33", "--json", path)
    done = bench("--shapes", "3x34", "--compare", path, "--gate")
    assert done.exit_code == 1
    assert "the old run has none of these cases" in done.output


def test_a_gate_with_nothing_to_compare_fails(bench):
    done = bench("--shapes", "3x34", "--gate")
    assert done.exit_code == 1
    assert "nothing to compare with" in done.output


def test_an_old_run_that_is_none(bench, tmp_path):
    path = tmp_path / "old.json"
    assert bench("--compare", path).exit_code == 2  # missing
    path.write_text("{}")
    done = bench("--compare", path)
    assert done.exit_code == 1
    assert "is no result of `bench --json`" in " ".join(done.output.split())


def test_markdown_has_a_row_for_each_case(bench, tmp_path):
    path = tmp_path / "ratios.md"
    done = bench("--shapes", "3x33,1x8", "--markdown", path)
    assert done.exit_code == 0, done.output
    rows = [line for line in path.read_text().splitlines() if line.startswith("| silu_mul ")]
    assert [row.split("|")[1:3] for row in rows] == [[" silu_mul 3x33 ", " float32 "], [" silu_mul 1x8 ", " float32 "]]


def ctrl_c():
    raise KeyboardInterrupt


def sigterm():
    signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize("how", [ctrl_c, sigterm])
def test_what_was_measured_before_an_interruption_is_kept(bench, tmp_path, monkeypatch, how):
    measure, calls, usual = harness.measure, [], signal.getsignal(signal.SIGTERM)

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            how()
        return measure(*arguments)

    monkeypatch.setattr(harness, "measure", interrupted)
    path = tmp_path / "some.json"
    done = bench("--shapes", "3x33,1x8", "--json", path)
    assert done.exit_code == 130, done.output
    assert "interrupted: 1 of 2 cases were measured" in done.output
    assert len(json.loads(path.read_text())["cases"]) == 1
    assert signal.getsignal(signal.SIGTERM) is usual


@pytest.mark.parametrize("how", [ctrl_c, sigterm])
def test_an_interruption_before_the_first_result(bench, monkeypatch, how):
    monkeypatch.setattr(harness, "measure", lambda *_: how())
    done = bench("--shapes", "3x33")
    assert done.exit_code == 130, done.output
    assert done.output.endswith("interrupted\n")


def test_calls(bench):
    done = bench("--calls")
    assert done.exit_code == 0, done.output
    assert "first call" in done.output
    assert [mode for mode in ("PyNative", "gradient", "graph") if mode not in done.output] == []
