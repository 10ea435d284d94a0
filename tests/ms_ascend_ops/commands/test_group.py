"""What all commands have in common: near names, `--verbose`, interruptions, and the console scripts."""

import os
import re
import signal
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ms_ascend_ops.__main__ import main
from ms_ascend_ops.commands import group, scripts
from ms_ascend_ops.commands.errors import gone_if_interrupted, reported
from ms_ascend_ops.suggestions import near_files, suggestion

GLOG = "GLOG_v"
MINDSPORE = """The shape of input 'x' must be (2, 8), got (3, 8).

----------------------------------------------------
- C++ Call Stack: (For framework developers)
----------------------------------------------------
mindspore/ops/infer.cc:71 Check"""


@pytest.fixture
def command(monkeypatch):
    """Runs a function as the command `probe` of the whole command line."""

    def run(function, *arguments):
        probe = click.command("probe")(function)
        module = type(sys)("ms_ascend_ops.commands.probe")
        module.probe = probe
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(main._table, "probe", "Tries.")
        return CliRunner().invoke(main, ["probe", *arguments])

    monkeypatch.setenv(GLOG, "4")
    monkeypatch.delenv(group._VERBOSE, raising=False)
    return run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["optimise", "x"], "there is no command 'optimise'; did you mean optimize?"),
        (["bench_networks"], "did you mean bench-networks"),
        (["zzz"], "`main --help` lists them"),
        (["llm", "generte"], "there is no command 'generte'; did you mean generate?"),
        (["explain", "rms_nrm", "--shape", "4,8"], "there is no operator 'rms_nrm'; did you mean rms_norm"),
        (["explain", "rms_norm", "--shpe", "4,8"], "No such option"),
    ],
)
def test_near_names(arguments, message):
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code in (1, 2)
    assert message.replace("'", "") in done.output.replace("'", "")


@pytest.mark.parametrize("command", [["infer"], ["optimize"], ["llm", "generate"], ["llm", "chat"]])
def test_near_files(command, tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"")
    done = CliRunner().invoke(main, [*command, str(tmp_path / "modle.gguf")])
    assert done.exit_code == 2
    assert f"there is no {tmp_path / 'modle.gguf'}; did you mean model.gguf in {tmp_path}?" in done.output


def test_what_is_near():
    assert suggestion("RMS-norm", ["rms_norm", "softmax"]) == "; did you mean rms_norm?"
    assert suggestion("x", ["rms_norm"]) == ""
    assert near_files(Path("/no/such/folder/x")) == ""


def test_ctrl_c_ends_a_command_with_130_and_one_line(command):
    def press():
        os.kill(os.getpid(), signal.SIGINT)

    def swallow():
        """As MindSpore's compiler does."""
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt as error:
            raise RuntimeError("compile failed") from error

    def tell():
        raise KeyboardInterrupt("3 steps are kept")

    before = signal.getsignal(signal.SIGINT)
    assert [command(one).output for one in (press, swallow, tell)] == [
        "interrupted\n", "interrupted\n", "interrupted: 3 steps are kept\n",
    ]  # fmt: skip
    assert command(press).exit_code == 130
    assert signal.getsignal(signal.SIGINT) is before


def test_an_error_is_still_one(command):
    def fail():
        with reported():
            raise ValueError(MINDSPORE)

    done = command(fail)
    assert done.exit_code == 1
    assert done.output == (
        "Error: The shape of input 'x' must be (2, 8), got (3, 8). (--verbose shows all that MindSpore says)\n"
    )
    assert "C++ Call Stack" in command(fail, "--verbose").output


def test_mindspore_is_told_what_to_log(command, monkeypatch):
    levels = []

    def level():
        levels.append(os.environ.get(GLOG))

    monkeypatch.delenv(GLOG)
    command(level)
    monkeypatch.delenv(GLOG)
    command(level, "--verbose")
    monkeypatch.setenv(GLOG, "1")
    command(level)
    assert levels == ["4", "2", "1"]


def test_each_command_has_verbose():
    for name in main.list_commands(None):
        if name not in {*group._THEIR_OWN_LOG, "llm", "debug"}:
            assert any(parameter.name == "verbose" for parameter in main.get_command(None, name).params), name


def test_what_is_half_written_goes(tmp_path):
    path = tmp_path / "model.mindir"

    def interrupted():
        with gone_if_interrupted(path):
            path.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not path.exists()
    path.write_text("of before")
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.exists()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--fusion_level=O3", "net.mindir"], ["--level=O3", "net.mindir"]),
        (["--fusion_level", "O3", "--model", "n.mindir"], ["--level", "O3", "--", "n.mindir"]),
        (["--model=n.mindir", "--save_profile"], ["--save-profile", "--", "n.mindir"]),
        (["-o", "out_dir", "n_1.mindir"], ["-o", "out_dir", "n_1.mindir"]),
    ],
)
def test_arguments_of_tutorials(given, expected):
    assert scripts.arguments_of(given, scripts._LEVEL) == expected


def test_the_scripts_are_there():
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    found = dict(re.findall(r'^(\S+) = "(\S+:\S+)"$', text.partition("[project.scripts]")[2].partition("\n[")[0], re.M))
    assert set(found) == {"ms-ascend-ops", "ms_infer", "ms_optimize"}
    for place in found.values():
        module, _, name = place.partition(":")
        assert callable(getattr(import_module(module), name))
