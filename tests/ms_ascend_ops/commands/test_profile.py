import json
from itertools import pairwise

import pytest
from click.testing import CliRunner

from ms_ascend_ops.commands.profile import profile
from ms_ascend_ops.profiler import record
from tests.pictures import check_picture, drawn

RMS_NORM = ("rms_norm", "--shape", "480,1024", "--dtype", "bfloat16")


def run(*arguments):
    return CliRunner().invoke(profile, [str(argument) for argument in arguments])


@pytest.fixture(scope="module", autouse=True)
def _traced(recorder):
    """Build the library once."""


def test_says_that_it_predicts_and_what_bounds_the_kernel():
    result = run(*RMS_NORM)
    assert result.exit_code == 0, result.output
    for text in ("nothing was measured", "predicted time", "HBM bound", "bounded by", "Unified Buffer", "vector lanes"):
        assert text in result.output
    assert "rows.h:" in result.output  # where its instructions stand


def test_writes_a_trace_a_picture_and_figures(tmp_path):
    files = {"--json": "p.json", "--trace": "t.json", "--png": "p.png"}
    with drawn() as figures:
        result = run(*RMS_NORM, *[part for option, name in files.items() for part in (option, tmp_path / name)])
    assert result.exit_code == 0, result.output
    check_picture(figures[0])
    saved = json.loads((tmp_path / "p.json").read_text())["case"]
    assert saved["predicted"] is True
    assert saved["us"] > saved["kernel_us"] > saved["bound_us"] > 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    bars = [event for event in events if event["ph"] == "X"]
    assert max(bar["ts"] + bar["dur"] for bar in bars) <= saved["kernel_us"] * 1.001
    assert {bar["name"] for bar in bars} >= {"Mul", "WholeReduceSum", "DataCopyPad", "issue"}
    for pipe in {(bar["pid"], bar["tid"]) for bar in bars}:  # a pipe does one thing at a time
        mine = sorted((bar["ts"], bar["dur"]) for bar in bars if (bar["pid"], bar["tid"]) == pipe)
        assert all(a + d <= b + 1e-6 for (a, d), (b, _) in pairwise(mine))
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_files_have_names_of_their_own(tmp_path):
    assert run(*RMS_NORM, "--trace", "--png").exit_code == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        "rms_norm_480x1024_bfloat16_ascend910b2_trace.json",
        "rms_norm_480x1024_bfloat16_ascend910b2.png",
    }


def test_compares_with_settings_operators_and_saved_results(tmp_path):
    assert run(*RMS_NORM, "--json", tmp_path / "before.json").exit_code == 0
    result = run(
        *RMS_NORM, "--compare", "cores=4", "--compare", "silu_mul", "--compare", tmp_path / "before.json",
        "--json", tmp_path / "after.json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    after = json.loads((tmp_path / "after.json").read_text())
    few, other, saved = after["compared"]
    assert few["kernel_us"] > 4 * after["case"]["kernel_us"]
    assert other["kernel"] == "silu_mul"
    assert saved["us"] == after["case"]["us"]


def test_sweeps(tmp_path):
    result = run(*RMS_NORM, "--sweep", "buffers=1,2", "--sweep", "tileRows=1,4", "--json", tmp_path / "p.json")
    assert result.exit_code == 0, result.output
    assert "the model finds" in result.output
    attempts = json.loads((tmp_path / "p.json").read_text())["sweep"]
    assert len(attempts) == 4
    assert "buffers=2" in attempts[0]["changes"]


def test_lists_chips_and_assumptions():
    result = run("--chips")
    assert result.exit_code == 0
    assert "ascend910b4" in result.output
    assert "what the model assumes" in result.output


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("rms_norm",), 2, "name an operator and give its --shape"),
        (("rms_norm", "--shape", "4x-1"), 2, "must be of the form 2048,4096"),
        (("rmsnorm", "--shape", "4,8"), 1, "there is no operator 'rmsnorm'; did you mean rms_norm"),
        (("rms_norm", "--shape", "4,8", "--chip", "ascend910b9"), 1, "there is no chip 'ascend910b9'; the chips are"),
        (("swiglu", "--shape", "4,7"), 1, "must be even"),
        (("rms_norm", "--shape", "4,8", "--attr", "eps=1"), 1, "there is no attribute eps; it has epsilon, scheme"),
        (("rms_norm", "--shape", "4,8", "--attr", "epsilon=small"), 1, "epsilon must be a float, got 'small'"),
        (("rms_norm", "--shape", "4,8", "--tiling", "tileRows"), 2, "must be of the form NAME=VALUE"),
        (("rms_norm", "--shape", "4,8", "--sweep", "tileRows=a"), 2, "must be of the form tileRows=1,2,4"),
        (("rms_norm", "--shape", "4,8", "--compare", "nowhere.json"), 1, "nowhere.json"),
    ],
)
def test_errors_say_what_is_wrong(arguments, code, message):
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert message in result.output


def test_an_installed_package_says_what_to_do(monkeypatch):
    monkeypatch.delenv("MS_ASCEND_OPS_TRACED_LIBRARY")
    monkeypatch.setattr(record, "source_tree", lambda: None)
    result = run(*RMS_NORM)
    assert result.exit_code == 2
    assert "Clone the repository at version" in result.output
    assert "`pip install -e '.[profile]'`" in result.output


def test_a_library_that_is_named_but_missing(monkeypatch):
    monkeypatch.setenv("MS_ASCEND_OPS_TRACED_LIBRARY", "/nowhere.so")
    result = run(*RMS_NORM)
    assert result.exit_code == 1
    assert "names /nowhere.so, which is no file" in result.output
