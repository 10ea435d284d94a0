"""Certificates: of an operator that keeps the rules, and of ones that do not."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from ms_ascend_ops.samples.cases import Case

from ms_ascend_ops.__main__ import main
from ms_ascend_ops.certificate import accuracy, behaviour, evidence
from ms_ascend_ops.certificate.certificate import PARTS, OfOperator, certify
from ms_ascend_ops.certificate.finding import RULES, Finding
from ms_ascend_ops.certificate.page import _cell, write_page
from ms_ascend_ops.mindspore_versions import has_fault
from tests.browser import check_in_browser
from tests.pages import check_page

ROOT = Path(__file__).resolve().parents[3]
QUICK = ["--quick", "--without", "checks,mutations,speed,prediction"]


def run(*arguments):
    return CliRunner().invoke(main, ["certify", *arguments], catch_exceptions=False)


def test_an_operator_that_keeps_the_rules(tmp_path):
    done = run("rms_norm", *QUICK, "--json", str(tmp_path / "c.json"), "--page", str(tmp_path / "c.html"))
    assert done.exit_code == 0, done.output
    content = json.loads((tmp_path / "c.json").read_text())
    assert content["verdict"] == "accepted in part"
    assert re.search(r"^rms_norm +accepted in part: \d+ passed", done.output)
    assert done.output.endswith("accepted in part (left out: checks, mutations, speed, prediction)\n")
    assert content["left_out"] == ["checks", "mutations", "speed", "prediction"]
    (one,) = content["operators"]
    assert one["accepted"]
    assert one["dtypes"] == ["float16", "bfloat16", "float32"]
    judged = {finding["rule"] for finding in one["findings"] if finding["result"] == "passed"}
    assert judged == {"tolerance", "relative", "stock", "determinism", "inputs", "special"}
    assert content["library"]
    assert one["hashes"]["kernel"] != one["hashes"]["reference"]
    # Of the gradient, too, and in every dtype.
    cases = [finding["case"] for finding in one["findings"] if finding["rule"] == "tolerance"]
    assert {case.split()[-1] for case in cases} == {"y", "dx", "dgamma"}
    page = check_page(tmp_path / "c.html")
    assert page.count("svg") >= 1
    assert page.count("table") >= 7
    # Two bars for each dtype that stock operators have.
    assert page.count("rect") >= (4 if has_fault("bfloat16 on a CPU") else 6)
    check_in_browser(tmp_path / "c.html", tables=7, plots=1, search="bfloat16")


class _Wrong:
    """The library, with a fault in what it writes."""

    def __init__(self, fault):
        self.fault, self.real = fault, accuracy.native()

    def __getattr__(self, name):
        return getattr(self.real, name)

    def launch(self, kernel, inputs, outputs, attributes):
        self.real.launch(kernel, inputs, outputs, attributes)
        self.fault(outputs[0])


def _scaled(output):
    output *= output.dtype.type(1.05)


def _lost_element(output):
    if output.size:
        output.flat[-1] = np.nan


def _noisy(output):
    output += np.random.default_rng().normal(0, 1e-6, output.shape).astype(output.dtype)


@pytest.mark.parametrize(
    ("fault", "rule"), [(_scaled, "relative"), (_lost_element, "tolerance"), (_noisy, "determinism")]
)
def test_a_seeded_fault_is_not_accepted(tmp_path, monkeypatch, fault, rule):
    wrong = _Wrong(fault)
    monkeypatch.setattr(accuracy, "native", lambda: wrong)
    done = run("silu_mul", *QUICK, "--json", str(tmp_path / "c.json"), "--page", str(tmp_path / "c.html"))
    assert done.exit_code == 1
    assert f"FAILED {rule}" in done.output
    assert "not accepted" in done.output
    (one,) = json.loads((tmp_path / "c.json").read_text())["operators"]
    assert not one["accepted"]
    assert "not accepted" in check_page(tmp_path / "c.html").words


def test_a_wrong_error_is_found():
    def says_nothing():
        raise ValueError("bad shape")

    def crashes():
        raise RuntimeError("silu_mul: internal error")

    wanted = (ValueError,)
    assert behaviour._refusal("silu_mul", "", wanted, says_nothing).passed is False
    assert behaviour._refusal("silu_mul", "", wanted, crashes).passed is False
    assert behaviour._refusal("silu_mul", "", wanted, lambda: None).passed is False


def test_special_values_that_get_lost_are_found(monkeypatch):
    wrong = _Wrong(lambda output: np.nan_to_num(output, copy=False))
    monkeypatch.setattr(accuracy, "native", lambda: wrong)
    findings = list(behaviour.special_values(Case("silu_mul", False, (3, 33), "float32")))
    assert any(finding.passed is False for finding in findings)


def test_every_rule_belongs_to_a_part():
    assert [rule for rules in PARTS.values() for rule in rules] == list(RULES)


def test_a_comparison_of_numpy_counts_as_any_other():
    given = [np.True_, np.False_, None, True]
    findings = [Finding("stock", "silu_mul float32 3x33: y", passed, "") for passed in given]
    one = OfOperator("silu_mul", "", 1, [], {}, findings=findings)
    assert not one.passed
    assert len(one.failed) == 1
    assert one.counts == {"passed": 2, "FAILED": 1, "not judged": 1}
    assert _cell(one, "stock") == {"kind": "failed", "text": "1 of 4 failed"}


def test_names_are_checked():
    assert "there is no operator 'rms'" in run("rms", *QUICK).output
    assert "a part must be of" in run("rms_norm", "--without", "weather").output
    with pytest.raises(ValueError, match="there is no operator"):
        certify(["rms"], ROOT, [], [])


# What `build.sh check` and its mutations say, without building.


def test_checks_are_kept_for_the_sources(tmp_path, monkeypatch):
    root = tmp_path
    (root / "tests/kernels").mkdir(parents=True)
    (root / "tests/kernels/test_add.py").write_text("")
    hashes = ["first"]
    monkeypatch.setattr(evidence, "source_hash", lambda root, name: hashes[0])

    def build(command, cwd, **_):
        assert command[:3] == ["bash", "build.sh", "check"]
        report = next(part.partition("=")[2] for part in command if part.startswith("--junitxml"))
        Path(report).write_text('<testsuites><testsuite tests="7" failures="1" errors="0" skipped="2"/></testsuites>')
        return SimpleNamespace(returncode=1, stdout="breaks the rule ub-capacity", stderr="")

    monkeypatch.setattr(evidence.subprocess, "run", build)
    tell = [].append
    (before,) = evidence.checks(root, "add", False, tell)
    assert (before.passed, before.text) == (None, "not run for these sources: certify --run checks")
    (now,) = evidence.checks(root, "add", True, tell)
    assert now.passed is False
    assert now.text.startswith("4 passed, 1 failed, 2 skipped")
    assert "ub-capacity" in now.text
    (kept,) = evidence.checks(root, "add", False, tell)
    assert kept.text == now.text
    hashes[0] = "second"
    (changed,) = evidence.checks(root, "add", False, tell)
    assert changed.passed is None


def test_mutations_are_those_of_the_operator(tmp_path, monkeypatch):
    (tmp_path / "tests/kernels/checked").mkdir(parents=True)
    entries = [{"bug": "no tail", "op": "add"}, {"bug": "wrong sign", "op": "add"}, {"bug": "other", "op": "gelu"}]
    (tmp_path / "tests/kernels/checked/mutations.yaml").write_text(json.dumps({"mutations": entries}))
    monkeypatch.setattr(evidence, "source_hash", lambda root, name: "0")
    said = (
        "caught  value              add/add_kernel.h: no tail\nMISSED  nothing            add/add_kernel.h: wrong sign"
    )
    said += " (expected value)\ncaught  value              gelu/gelu_kernel.h: other\n"
    monkeypatch.setattr(
        evidence.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=1, stdout=said, stderr="")
    )
    findings = list(evidence.mutations(tmp_path, "add", True, [].append))
    assert [(finding.passed, finding.text) for finding in findings] == [(True, "by value"), (False, "by nothing")]
    (none,) = evidence.mutations(tmp_path, "silu_mul", True, [].append)
    assert none.passed is None


def test_a_page_escapes_what_it_shows(tmp_path):
    found = certify(["add"], ROOT, list(PARTS), [])
    assert not found.passed, "nothing was judged"
    found.operators[0].findings.append(Finding("tolerance", "<script>alert(1)</script>", False, "a & b < c"))
    write_page(found, tmp_path / "c.html", "a chip")
    page = check_page(tmp_path / "c.html")
    assert page.count("script") == 1
    assert "<script>alert(1)</script>" in page.words
