"""Each command in an environment that has what `pip install .` brings and nothing else."""

import importlib.metadata
import json
import os
import re
import subprocess
import venv
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from mindspore import Tensor
from packaging.requirements import Requirement

from ms_ascend_ops import RMSNorm, export_mindir, extras
from ms_ascend_ops.__main__ import COMMANDS, main

# What each command is tried with, in a folder that holds network.mindir and script.py. Those with an extra say so
# before they look at anything.
ARGUMENTS = {
    "bench": [],
    "bench-networks": [],
    "bundle": ["network.mindir", "--output", "bundled.msbundle"],
    "convert": ["network.mindir"],
    "certify": ["rms_norm"],
    "debug": ["compare", "network.mindir", "network.mindir", "--inputs", "2x8", "--page", "compared.html"],
    "doctor": [],
    "emulate": ["--print-environment"],
    "explain": ["rms_norm", "--shape", "4,64"],
    "infer": ["network.mindir", "--shape", "2,8"],
    "llm": ["generate", "network.mindir", "--prompt", "Hello"],
    "new": ["my_op", "--into", "."],
    "operators": [],
    "optimize": ["network.mindir", "--output", "optimized.mindir"],
    "profile": ["rms_norm", "--shape", "4,64"],
    "run": ["script.py"],
    "serve": ["network.mindir"],
}


def installed(name):
    """The distribution that was installed, not the .egg-info of an earlier build in the tree, which is found first."""
    found = list(importlib.metadata.distributions(name=name))
    return next((one for one in found if one.read_text("RECORD") is not None), found[0] if found else None)


def required():
    """The distributions that ms_ascend_ops needs without an extra, by name, itself included."""
    found = {}
    waiting = ["ms_ascend_ops"]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        if (distribution := installed(name)) is None:
            continue  # of an optional feature of another package
        found[name] = distribution
        needs = map(Requirement, found[name].requires or ())
        waiting += [need.name for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    return found


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The Python of such an environment, of links to the files of this one."""
    folder = tmp_path_factory.mktemp("plain")
    venv.create(folder, with_pip=False, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    for distribution in required().values():
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            link = packages / top
            if not link.exists():
                link.symlink_to(Path(distribution.locate_file(top)))
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("commands")
    export_mindir(RMSNorm(8), Tensor(np.ones((2, 8), np.float32)), path=path / "network")
    (path / "script.py").write_text("print('run')\n")
    return path


def test_there_is_no_extra_here(python):
    names = sorted({name for packages in extras.PACKAGES.values() for name in packages})
    code = f"from importlib.util import find_spec; print([name for name in {names} if find_spec(name)])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# They say how MindSpore runs, which is for a process in which nothing ran before.
FIRST = ("infer", "run")
# The others one after the other: MindSpore is imported once. What they write is taken from the file descriptors, as
# MindSpore writes there, too.
RUN_ALL = """
import json, os, sys
from ms_ascend_ops.__main__ import main

results = {}
for command, arguments in json.loads(sys.argv[1]).items():
    streams = [open(f"{command}.{stream}", "w+") for stream in ("out", "err")]
    saved = [os.dup(1), os.dup(2)]
    for stream, descriptor in zip(streams, (1, 2)):
        os.dup2(stream.fileno(), descriptor)
    try:
        main([command, *arguments], prog_name="python -m ms_ascend_ops")
        status = 0
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        import traceback
        traceback.print_exc()
        status = 1
    sys.stdout.flush(), sys.stderr.flush()
    for descriptor, old in zip((1, 2), saved):
        os.dup2(old, descriptor)
    results[command] = [status, *(open(stream.name).read() for stream in streams)]
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def results(python, folder):
    """Of each command: status, what it wrote to stdout, to stderr."""
    results = {}
    for commands in ([c for c in sorted(COMMANDS) if c not in FIRST], *([c] for c in FIRST)):
        done = subprocess.run(
            [python, "-c", RUN_ALL, json.dumps({command: ARGUMENTS[command] for command in commands})],
            cwd=folder, env=os.environ | {"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        results |= json.loads(done.stdout)
    return results


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_without_any_extra(command, results):
    status, stdout, stderr = results[command]
    assert "Traceback" not in stderr
    if command in extras.EXTRA_OF:
        assert status == 2
        assert stdout == ""
        assert stderr.count("\n") == 1
        assert re.match(rf"Error: {command} needs [\w, ]+: pip install 'ms_ascend_ops\[\w+\]'\n", stderr)
    elif command == "new":
        assert status == 2, stderr
        assert "is no source tree of ms_ascend_ops" in " ".join(stderr.split())
    else:
        assert status == 0, stdout + stderr
        assert stdout
        assert stderr == ""  # no warning of MindSpore's either
    if command == "doctor":
        # A line a command, each within a terminal.
        assert re.search(r"^ *(-- +commands +)?bench +needs matplotlib, ml_dtypes, rich$", stdout, re.MULTILINE)
        assert re.search(r"^ +profile +needs \w", stdout, re.MULTILINE)
        assert max(map(len, stdout.splitlines())) <= 80
        names = ("bench", "onnx", "certify", "debug", "llm", "profile", "serve")
        lines = [line.removeprefix("-> ") for line in map(str.strip, stdout.splitlines())]
        assert [f"pip install 'ms_ascend_ops[{extra}]'" in lines for extra in names] == [True] * len(names)


def test_serving_says_what_it_needs(python):
    done = subprocess.run([python, "-c", "import ms_ascend_ops.serving"], capture_output=True, text=True, check=False)
    names = ", ".join(extras.PACKAGES["serve"])
    expected = f"ImportError: ms_ascend_ops.serving needs {names}: pip install 'ms_ascend_ops[serve]'"
    assert done.stderr.splitlines()[-1] == expected


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_needs_no_extra(command, monkeypatch):
    monkeypatch.setattr(extras, "missing", lambda command: ["rich"])
    result = CliRunner().invoke(main, [command, "--help"])
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_the_packages_are_those_of_pyproject():
    declared = {extra: set() for extra in extras.PACKAGES}
    for text in installed("ms_ascend_ops").requires:
        need = Requirement(text)
        for extra, names in declared.items():
            if need.marker and not need.marker.evaluate({"extra": ""}) and need.marker.evaluate({"extra": extra}):
                names.add(need.name.replace("-", "_"))
    assert {extra: tuple(sorted(names)) for extra, names in declared.items()} == extras.PACKAGES


def test_the_guide_names_every_extra():
    guide = (Path(__file__).parents[3] / "docs/guide.md").read_text(encoding="utf-8")
    for command in extras.EXTRA_OF:
        assert extras.advice(command) in guide


def test_cmake_of_the_system_is_enough(monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    monkeypatch.setattr(extras.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert extras.missing("profile") == ["matplotlib", "pybind11", "rich"]
    monkeypatch.setattr(extras.shutil, "which", lambda name: None)
    assert extras.missing("profile") == ["cmake", "matplotlib", "pybind11", "rich"]
    assert extras.missing("explain") == []
