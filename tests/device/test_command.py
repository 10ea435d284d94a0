"""The command `emulate`: its options, what it hands on to a program, and what it says of bad input."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ms_ascend_ops.commands.emulate import emulate
from ms_ascend_ops.device import stubs
from ms_ascend_ops.device.environment import HOME, parse_bytes
from ms_ascend_ops.profiler import record

ROOT = Path(__file__).parents[2]
SHOW = "import os, sys; print(sys.argv, os.path.realpath(os.environ['ASCEND_HOME_PATH'] + '/lib64'))"


def start(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(ROOT)} | variables
    return subprocess.run(
        [sys.executable, "-m", "ms_ascend_ops", "emulate", *map(str, arguments)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("options", "status", "text"),
    [
        (["--chip", "ascend1", "-c", "1"], 1, "there is no chip 'ascend1'; the chips are ascend910_93, ascend910b1"),
        (["--chip", "/nowhere.yaml", "-c", "1"], 1, "there is no chip description /nowhere.yaml"),
        (["--memory", "8PiB", "-c", "1"], 1, "a size must be like 8GiB, 512MiB or a number of bytes, got '8PiB'"),
        (["--memory", "9999TiB", "-c", "1"], 1, "1 x 10238976 GiB of device memory are requested, but this machine"),
        (["--memory", "1KiB", "-c", "1"], 1, "a device has at least 1 MiB of memory, 1024 bytes are requested"),
        (["--devices", "17", "-c", "1"], 2, "17 is not in the range 1<=x<=16"),
        (["--check", "--trace", "a.json", "-c", "1"], 2, "--check and --trace exclude each other"),
        (["--trace", "/nowhere/a.json", "-c", "1"], 2, "--trace /nowhere/a.json: there is no folder /nowhere"),
        (["nowhere.py"], 2, "there is no nowhere.py"),
        (["-m"], 2, "-m needs an argument"),
        (["--chips", "ascend910b1", "-c", "1"], 2, "No such option"),
        ([], 2, "a SCRIPT, -m MODULE or -c CODE is missing"),
    ],
)
def test_bad_input_is_told(options, status, text):
    done = CliRunner().invoke(emulate, options)
    assert done.exit_code == status, done.output
    assert text in done.output


@pytest.mark.parametrize(
    ("text", "size"), [("8GiB", 8 << 30), ("512m", 512 << 20), ("1.5 GB", 3 << 29), ("1048576", 1 << 20), ("7B", 7)]
)
def test_sizes(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "0.1", "1e3", "nan", "GiB", "1 2", "8GiBB"])
def test_what_is_no_size(text):
    with pytest.raises(ValueError, match="a size must be like 8GiB"):
        parse_bytes(text)


@pytest.mark.parametrize(("option", "build"), [(["--check"], "checked"), (["--trace", "a.json"], "traced")])
def test_an_observed_build_needs_sources(monkeypatch, option, build):
    monkeypatch.delenv("MS_ASCEND_OPS_TRACED_LIBRARY", raising=False)
    monkeypatch.setattr(record, "source_tree", lambda: None)
    done = CliRunner().invoke(emulate, [*option, "-c", "1"])
    assert done.exit_code == 1
    assert done.output.startswith(f"Error: {option[0]} needs the {build} build of the kernels")
    assert done.output.count("\n") == 1


def test_programs_get_their_arguments_and_their_status_counts(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(f"{SHOW}; sys.exit(7)")
    (tmp_path / "module_of_test.py").write_text(f"{SHOW}; raise SystemExit('ended')")
    rest = ["--chip", "x", "-c", "", "-m"]
    for options, argv0, status in (
        (["--chip", "ascend910b4", script], str(script), 7),
        (["-m", "module_of_test"], str(tmp_path / "module_of_test.py"), 1),
        (["--memory=1GiB", "-c", SHOW], "-c", 0),
    ):
        done = start(*options, *rest, PYTHONPATH=f"{ROOT}:{tmp_path}")
        assert done.returncode == status, done.stderr
        assert done.stdout == f"{[argv0, *rest]} {HOME}/lib64\n"
        assert done.stderr.startswith("ms_ascend_ops: emulated Ascend910B")
        assert "times are not an NPU's" in done.stderr.splitlines()[0]


def test_nothing_is_left_or_set_that_nobody_asked_for(tmp_path):
    """This process becomes the program: what it makes for itself would stay."""
    done = start("-c", "import os; print(os.environ.get('MS_OM_PATH'))", TMPDIR=str(tmp_path))
    assert done.stdout == f"{os.environ.get('MS_OM_PATH')}\n"
    assert not list(tmp_path.iterdir())


def test_a_signal_that_ends_a_program_is_its_status():
    assert start("-c", "import os; os.kill(os.getpid(), 15)").returncode == -15


def test_a_start_says_one_line():
    code = "import mindspore as ms; ms.set_device('Ascend'); print(ms.Tensor([1.0]) + 1)"
    done = start("-c", code)
    assert done.stdout == "[2.]\n"
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "emulated Ascend910B2" in done.stderr


def test_environment_for_a_shell():
    options = ["--chip", "ascend910b4", "--devices", "2", "--memory", "64MiB", "--print-environment"]
    printed = start(*options).stdout.splitlines()
    found = dict(shlex.split(line)[1].split("=", 1) for line in printed)
    assert all(line.startswith("export ") for line in printed)
    assert Path(found["ASCEND_HOME_PATH"], "lib64").samefile(HOME / "lib64")
    assert found["MS_ASCEND_EMULATED_DEVICES"] == "2"
    assert found["MS_ASCEND_EMULATED_MEMORY"] == str(64 << 20)
    assert "soc=Ascend910B4;" in found["MS_ASCEND_EMULATED_CHIP"]
    assert f"{found['ASCEND_HOME_PATH']}/lib64" in found["LD_LIBRARY_PATH"].split(":")
    # There it changes nothing to ask again, and other options replace those from before.
    again = start(*options, **found).stdout
    assert again == ""
    assert "export MS_ASCEND_EMULATED_DEVICES=1" in start("--print-environment", **found).stdout


def test_another_cann_is_told_and_left_out(tmp_path):
    home = tmp_path / "ascend-toolkit"
    (home / "lib64").mkdir(parents=True)
    (home / "lib64/libascendcl.so").touch()
    (home / "python/site-packages").mkdir(parents=True)
    other = tmp_path / "other"
    other.mkdir()
    show = "import os; print(*(os.environ.get(name) for name in ('LD_LIBRARY_PATH', 'PYTHONPATH', 'TOOLCHAIN_HOME')))"
    done = start(
        *("-c", show),
        LD_LIBRARY_PATH=f"{home}/lib64:{other}",
        PYTHONPATH=f"{home}/python/site-packages:{ROOT}",
        ASCEND_HOME_PATH=str(home),
        TOOLCHAIN_HOME=f"{home}/toolkit",
    )
    assert done.returncode == 0, done.stderr
    assert f"the CANN in {home} is not used" in done.stderr
    libraries, python_path, toolchain = done.stdout.split()
    assert str(home) not in libraries + python_path
    assert libraries.endswith(f":{other}")
    assert python_path.endswith(f":{ROOT}")
    assert toolchain == "None"


def test_libraries_that_a_client_is_linked_with_and_nobody_brings(tmp_path):
    """As the plugins of MindSpore 2.7 and 2.8; not those of the system, nor what kernels of others want."""
    there, gone = tmp_path / "libascendcl.so", tmp_path / "liberror_manager.so"
    for library in (there, gone):
        stubs._compile("", [], library)
    client, kernels = tmp_path / "libmindspore_ascend.so", tmp_path / "ascend" / "libmindspore_atb.so"
    kernels.parent.mkdir()
    for library in (client, kernels):
        linked = ["-Wl,--no-as-needed", str(there), str(gone), "-o", str(library)]
        subprocess.run(
            ["g++", "-x", "c++", "-shared", "-fPIC", "-", "-x", "none", *linked], input="", text=True, check=True
        )
    assert stubs.missing_libraries([client, kernels], [], [there]) == ["liberror_manager.so"]
    assert stubs.missing_libraries([client], [gone], [there]) == stubs.missing_libraries([kernels], [], []) == []


@pytest.mark.parametrize(("code", "failure"), [
    ("def set_device(name): pass", ""),
    ("def set_device(name): raise RuntimeError('Unsupported.\\nLoad dynamic library: libm.so.2 failed. mmGetTid')",
     "Load dynamic library: libm.so.2 failed. mmGetTid"),
    ("raise SystemError('no module')", "SystemError: no module"),
])  # fmt: skip
def test_a_plugin_that_does_not_load(tmp_path, code, failure):
    """MindSpore says nothing before a program asks for the device. It is asked once for a folder of stubs."""
    (tmp_path / "mindspore.py").write_text(code)
    environment = {"LD_LIBRARY_PATH": f"{tmp_path}:/elsewhere", "PYTHONPATH": str(tmp_path)}
    assert stubs.plugin_failure(environment) == failure
    (tmp_path / "mindspore.py").write_text("raise SystemExit(1)")
    assert stubs.plugin_failure(environment) == failure


FUNCTIONS = {
    "aclmdlLoadFromFile": "models of ATC (.om)",
    "acltdtReceiveTensor": "dataset_sink_mode=False",
    "HcclCommResume": "this function of HCCL",
    "aclnnNobodyHasThis": "docs/emulated_device.md lists those that it has",
    "rtModelExecute": "takes code that was compiled for an NPU",
}


def test_a_function_that_is_not_there_says_what_to_use(tmp_path):
    """A stub names itself, the library and function that called it, and what to use instead; it returns an error."""
    library = HOME / "lib64/libascendcl.so"
    stubs._compile(stubs._source(FUNCTIONS), [library], tmp_path / stubs.LIBRARY)
    # The call is no tail call, so that its caller has a frame.
    calls = "".join(f"long {name}(); long call_{name}() {{ return {name}() + 0; }}\n" for name in FUNCTIONS)
    client = tmp_path / "libclient.so"
    command = ["g++", "-x", "c++", "-O0", "-shared", "-fPIC", "-", "-o", str(client)]
    subprocess.run(command, input=f'extern "C" {{\n{calls}}}', text=True, check=True)
    program = f"""
import ctypes
acl = ctypes.CDLL({str(library)!r}, ctypes.RTLD_GLOBAL)
ctypes.CDLL({str(tmp_path / stubs.LIBRARY)!r}, ctypes.RTLD_GLOBAL)
client = ctypes.CDLL({str(client)!r})
acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
for name in {list(FUNCTIONS)}:
    print(getattr(client, "call_" + name)(), acl.aclGetRecentErrMsg().decode())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(FUNCTIONS)
    for (name, instead), line in zip(FUNCTIONS.items(), lines, strict=True):
        assert line.startswith(
            f"200001 emulated device: it does not have {name} (called by libclient.so in call_{name})"
        ), line
        assert instead in line
