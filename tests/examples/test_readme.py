"""The examples of the README and of the guide run, in their order."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from click.testing import CliRunner
from mindspore import Tensor

from ms_ascend_ops import RMSNorm, dispatch, export_mindir, monitoring, ops, registry
from ms_ascend_ops.__main__ import main
from tests.acceptance import assert_accurate

ROOT = Path(__file__).parents[2]
README, GUIDE = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/guide.md"))


def blocks(language, text=README):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_families_are_of_operators_that_there_are():
    (table,) = re.findall(r"^\| Family .*?\n\n", README, re.MULTILINE | re.DOTALL)
    named = re.findall(r"`(\w+)`", table)
    assert len(named) == len({*named})
    assert {*named} <= {*registry.names()}  # docs/operators.md has all, the newest, too


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_network_is_exported_and_deployed(folder):
    first = blocks("python")[0]
    assert "class Block" in first
    (folder / "example.py").write_text(first, encoding="utf-8")
    done = subprocess.run([sys.executable, "example.py"], capture_output=True, text=True, check=False)
    assert done.stdout == "(3, 5, 64)\n", done.stderr
    # What the demo leaves there is another network.
    (folder / "demo_output").mkdir()
    export_mindir(RMSNorm(8), Tensor(np.ones((2, 8)), ms.float32), path=folder / "demo_output" / "stock")
    (deploy,) = (block for block in blocks("bash") if "demo_output" in block)
    commands = [shlex.split(line, comments=True) for line in deploy.splitlines()]
    assert [command[:3] for command in commands] == [["python", "-m", "ms_ascend_ops"]] * 4
    for command in commands:
        if command[3:] != ["doctor"]:  # has its own tests
            result = CliRunner().invoke(main, command[3:])
            assert result.exit_code == 0, result.output
    assert (folder / "fused.mindir").is_file()
    assert (folder / "block.msbundle").is_file()


def test_dispatch_and_monitoring(monkeypatch):
    prometheus_client = pytest.importorskip("prometheus_client")
    (code,) = (block for block in blocks("python") if "monitoring" in block)
    started = []
    monkeypatch.setattr(prometheus_client, "start_http_server", lambda port, **_: started.append(port))
    try:
        exec(code, {})
        x = np.ones((2, 3), np.float32)
        for _ in range(30):
            y = ops.silu_mul(Tensor(x), Tensor(x)).asnumpy()
            assert np.allclose(y, x / (1 + np.exp(-1)), rtol=1e-5)
        assert started == [9464]
        assert {one.version for one in dispatch.status("silu_mul")} == {"kernel", "composition", "mine"}
        assert all(one.failures == {} for one in dispatch.status("silu_mul"))
    finally:
        monitoring.stop()
        dispatch.reset()
        dispatch.unregister("silu_mul", "mine")


def test_two_networks_are_compared(folder):
    (line,) = (line for block in blocks("bash") for line in block.splitlines() if "debug compare" in line)
    for name in ("fused", "stock"):
        export_mindir(RMSNorm(8), Tensor(np.ones((2, 8)), ms.float32), path=folder / name)
    result = CliRunner().invoke(main, shlex.split(line, comments=True)[3:])
    assert result.exit_code == 0, result.output
    assert "differs by rounding only" in result.output


def test_kernels_on_numpy_arrays():
    (code,) = (block for block in blocks("python", GUIDE) if "_C.launch" in block)
    names = {}
    exec(code, names)
    x = names["x"].astype(np.float64)
    expected = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
    assert_accurate(names["y"], expected, "float32")
