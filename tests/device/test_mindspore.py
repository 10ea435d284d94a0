"""MindSpore's own Ascend backend on an emulated device: one process runs all of it (on_mindspore.py)."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ms_ascend_ops import registry
from tests.device import stock_operators

ROOT = Path(__file__).parents[2]
EMULATE = [sys.executable, "-m", "ms_ascend_ops", "emulate"]


def emulate(*arguments, folder, **variables):
    """What a program printed on an emulated device; it has to end with 0."""
    environment = os.environ | {"GLOG_v": "4", "PYTHONPATH": str(ROOT)} | variables
    command = [*EMULATE, *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


@pytest.fixture(scope="module")
def found(tmp_path_factory, request):
    """What the program found, by the name of the check."""
    folder = tmp_path_factory.mktemp("mindspore")
    file, thorough = folder / "found.json", request.config.getoption("--cases") == "all"
    done = emulate("-m", "tests.device.on_mindspore", file, *["--thorough"] * thorough, folder=folder)
    assert {path.name for path in folder.iterdir()} == {file.name, "found.pickle"}, "something is left in the folder"
    results = dict(json.loads(line) for line in file.read_text().splitlines()) | {"stderr": done.stderr}
    return results | {"stock": pickle.loads(file.with_suffix(".pickle").read_bytes())}


@pytest.mark.parametrize("name", registry.names())
def test_an_operator_runs(found, name):
    """To the bits of the host library, forward and gradient; in graphs, of dynamic shapes and of files the same."""
    results = {check: result for check, result in found.items() if check.split()[0].split("-")[0] == name}
    modes = {check.split()[1] for check in results}
    assert "pynative" in modes
    assert len(modes) > 1
    for check, result in results.items():
        assert result == "ok", check


def test_operators_of_mindspore_give_what_they_give_on_a_cpu(found):
    wrong = []
    for expression, expected in stock_operators.results():
        assert isinstance(expected, list), f"{expression}: {expected}"
        given = found["stock"][expression]
        if not isinstance(given, list) or len(given) != len(expected):
            wrong.append(f"{expression}: {given}")
            continue
        for one, other in zip(given, expected, strict=True):
            tolerance = 2e-3 if one.dtype == np.float16 else 1e-2 if "bf" in expression else 2e-5
            same = one.dtype == other.dtype and one.shape == other.shape
            if not same or not np.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True):
                wrong.append(f"{expression}:\n{one}\nbut on a CPU\n{other}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["layers", "refused", "in order"])
def test_a_step_of_training_an_error_and_the_order_of_calls(found, name):
    assert found[name] == "ok"


def test_what_is_not_emulated_is_told(found):
    assert found["not emulated"] == "ok"
    assert found["unknown operator"] == "ok"
    assert "it does not have CANN's operator CustLgamma (called by libmindspore_ops_ascend.so): run" in found["stderr"]


def test_substitution_finds_what_it_finds_on_a_cpu(found):
    assert found["substitution"] == "ok"
