"""What build.sh says before it does anything."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "build.sh"
pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="needs the source tree")


def build(*arguments, **environment):
    return subprocess.run(
        ["bash", SCRIPT, *arguments], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def test_an_unknown_command_is_named():
    done = build("tset")
    assert done.returncode == 2
    assert done.stderr == "build.sh: there is no command 'tset'; bash build.sh --help lists them\n"
    assert build().stderr.startswith("Usage: ")


@pytest.mark.parametrize(
    "command", ["bench", "check", "compile", "demo", "host", "portable", "sanitize", "test", "wheel"]
)
def test_the_compiler_is_looked_for_first(command):
    done = build(command, CXX="no-such-compiler")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "there is no no-such-compiler. Install it with: apt-get install g++" in done.stderr


def test_the_disk_is_looked_at_first(tmp_path):
    (tmp_path / "df").write_text("#!/bin/sh\necho head\necho /dev/x 100000000 0 1048576 99% /\n")
    (tmp_path / "df").chmod(0o755)
    done = build("host", PATH=f"{tmp_path}:{os.environ['PATH']}", CXX="sh")
    assert done.returncode == 1
    assert "3 GiB of disk space are needed" in done.stderr
    assert "1 are free" in done.stderr


@pytest.mark.parametrize("command", [["host"], ["demo", "--train"], ["demo", "--model", "x"]], ids=" ".join)
def test_ctrl_c_has_one_line_and_its_code(tmp_path, command):
    """While pip runs, or the demo, here a program of Python's that waits, and would answer by a traceback."""
    slow = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(60)"
    installed = "" if command == ["host"] else "[ $1 = -m ] && exit 0\n"
    (tmp_path / "python").write_text(
        f"#!/bin/sh\n[ $1 = - ] && exit 0\n{installed}exec {sys.executable} -c '{slow}' $0.began\n"
    )
    (tmp_path / "python").chmod(0o755)
    (tmp_path / "bin").symlink_to(tmp_path)
    process = subprocess.Popen(
        ["env", "--default-signal=INT", "bash", SCRIPT, *command],  # tests in the background inherit that it is ignored
        env={**os.environ, "VIRTUAL_ENV": str(tmp_path), "CXX": "sh"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not (tmp_path / "python.began").exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    lines = process.communicate(timeout=30)[1].splitlines()
    # bash has a line of its own where the signal and the end of its child come at once.
    assert [line for line in lines if "wait_for: No record of process" not in line] == ["build.sh: interrupted"]
    assert process.returncode == 130


def test_an_environment_that_was_interrupted_is_made_again(tmp_path):
    """venv writes its Python first and pip last."""
    tree = tmp_path / "tree"
    (tree / ".venv/bin").mkdir(parents=True)
    (tree / "build.sh").write_bytes(SCRIPT.read_bytes())
    calls = tmp_path / "calls"
    for python in (tmp_path / "python3", tree / ".venv/bin/python"):
        python.write_text(f"#!/bin/sh\n[ $1 = - ] || echo {python.name} $@ >> {calls}\n")
        python.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "CONDA_PREFIX")}
    environment |= {"PYTHON": str(tmp_path / "python3"), "CXX": "sh"}
    subprocess.run(["bash", tree / "build.sh", "host"], env=environment, capture_output=True, check=False)
    assert calls.read_text().startswith(f"python3 -m venv {tree}/.venv\npython -m pip install ")
