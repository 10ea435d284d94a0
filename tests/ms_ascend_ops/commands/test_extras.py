"""Each command in an environment that has what `pip install .` brings and nothing else."""

import importlib.metadata
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


def required():
    """The distributions that ms_ascend_ops needs without an extra, by name, itself included."""
    found = {}
    waiting = ["ms_ascend_ops"]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # of an optional feature of another package
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


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_without_any_extra(command, python, folder, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    arguments = [python, "-m", "ms_ascend_ops", command, *ARGUMENTS[command]]
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    if command in extras.EXTRA_OF:
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        assert re.match(rf"Error: {command} needs [\w, ]+: pip install 'ms_ascend_ops\[\w+\]'\n", done.stderr)
    elif command == "new":
        assert done.returncode == 2, done.stderr
        assert "is no source tree of ms_ascend_ops" in " ".join(done.stderr.split())
    else:
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout
        assert done.stderr == ""  # no warning of MindSpore's either
    if command == "doctor":
        assert "bench does not run without matplotlib, ml_dtypes, rich" in done.stdout
        assert "profile does not run without" in done.stdout
        names = ("bench", "onnx", "certify", "debug", "llm", "profile", "serve")
        advice = "; ".join(f"pip install 'ms_ascend_ops[{extra}]'" for extra in names)
        assert f"-> {advice}" in " ".join(done.stdout.split())  # lines are wrapped


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
    for text in importlib.metadata.requires("ms_ascend_ops"):
        need = Requirement(text)
        for extra, names in declared.items():
            if need.marker and not need.marker.evaluate({"extra": ""}) and need.marker.evaluate({"extra": extra}):
                names.add(need.name.replace("-", "_"))
    assert {extra: tuple(sorted(names)) for extra, names in declared.items()} == extras.PACKAGES


def test_the_readme_names_every_extra():
    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    for command in extras.EXTRA_OF:
        assert extras.advice(command) in readme


def test_cmake_of_the_system_is_enough(monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    monkeypatch.setattr(extras.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert extras.missing("profile") == ["matplotlib", "pybind11", "rich"]
    monkeypatch.setattr(extras.shutil, "which", lambda name: None)
    assert extras.missing("profile") == ["cmake", "matplotlib", "pybind11", "rich"]
    assert extras.missing("explain") == []
