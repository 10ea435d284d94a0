"""What build.sh says before it does anything."""

import os
import signal
import subprocess
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


@pytest.mark.parametrize("command", ["bench", "check", "compile", "demo", "host", "portable", "sanitize", "test"])
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


def test_ctrl_c_has_one_line_and_its_code(tmp_path):
    """While pip runs, here a program that waits."""
    (tmp_path / "python").write_text("#!/bin/sh\n[ $1 = - ] && exit 0\ntouch $0.began\nexec sleep 60\n")
    (tmp_path / "python").chmod(0o755)
    (tmp_path / "bin").symlink_to(tmp_path)
    process = subprocess.Popen(
        ["bash", SCRIPT, "host"],
        env={**os.environ, "VIRTUAL_ENV": str(tmp_path), "CXX": "sh"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not (tmp_path / "python.began").exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=30)[1] == "build.sh: interrupted\n"
    assert process.returncode == 130
