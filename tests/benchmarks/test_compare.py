import copy
import json

import pytest
from ms_ascend_ops.benchmarks.compare import LEAST_BYTES, against_peers, changes, changes_table, differences, read

MACHINE = {"cpu": "a CPU", "threads": 2, "versions": {}}


def run(size=LEAST_BYTES, **times):
    """One case; times in microseconds by provider, None where there is none."""
    providers = {name: {"reason": "-"} if time is None else {"median_us": time} for name, time in times.items()}
    return {"machine": dict(MACHINE), "cases": [{"name": "add float32 2x8", "bytes": size, "providers": providers}]}


def test_changes_are_those_of_our_times_in_both_runs():
    old = run(library=100.0, mindspore=None, pynative=50.0, torch=10.0)
    new = run(library=120.0, mindspore=70.0, pynative=50.0, torch=99.0)
    pairs = changes(old, new)
    assert [(pair.provider, pair.ratio) for pair in pairs] == [("library", 1.2), ("pynative", 1.0)]
    assert [pair.slower(0.1) for pair in pairs] == [True, False]
    assert not pairs[0].slower(0.25)
    assert str(pairs[0]) == ("add float32 2x8: ours, direct takes 120.0 us, 1.20 times the 100.0 us of the old run")


def test_other_cases_are_not_compared():
    new = run(library=1.0)
    old = copy.deepcopy(new)
    old["cases"][0]["name"] = "add float32 4x8"
    assert changes(old, new) == []


def test_the_table_has_the_slowest_change_first():
    old, new = run(library=100.0, pynative=50.0), run(library=80.0, pynative=60.0)
    table = changes_table(changes(old, new), 0.1)
    assert list(table.columns[1].cells) == ["ours, PyNative", "ours, direct"]
    assert list(table.columns[-1].cells) == ["slower", "faster"]


def test_against_peers_compares_calls_of_the_same_kind():
    times = {"library": 100.0, "mindspore": 300.0, "stock": 250.0, "torch": 95.0, "torch_compile": 60.0, "onnx": 50.0}
    assert [(pair.provider, pair.than) for pair in against_peers(run(**times)) if pair.slower(0.1)] == [
        ("mindspore", "stock MindSpore"),
        ("library", "ONNX Runtime"),
    ]


def test_a_case_of_few_bytes_may_be_slower():
    assert not list(against_peers(run(size=LEAST_BYTES - 1, library=100.0, torch=1.0)))


def test_providers_that_were_not_measured_do_not_count():
    assert not list(against_peers(run(library=100.0, torch=None, stock=1.0)))


def test_another_machine_is_named():
    new = run(library=1.0)
    new["machine"]["threads"] = 4
    assert differences(run(library=1.0), new) == ["the old run has threads 2, this one 4: times are hardly comparable"]


@pytest.mark.parametrize("text", ["nothing", "[]", "{}", json.dumps({"cases": [{}], "machine": MACHINE})])
def test_a_file_that_is_no_run(tmp_path, text):
    path = tmp_path / "old.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="is no result of `bench --json`"):
        read(path)


def test_reads_what_the_command_writes(tmp_path):
    path = tmp_path / "old.json"
    path.write_text(json.dumps(run(library=1.0)))
    assert read(path) == run(library=1.0)
