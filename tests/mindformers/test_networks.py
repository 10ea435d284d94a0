"""MindFormers' networks on a CPU and on the emulated device, as examples/mindformers shows them.

They need MindFormers, PyTorch and transformers.

Each runs in a process of its own: MindFormers keeps its settings for the life of a process.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.clients
pytest.importorskip("mindformers")

EXAMPLES = Path(__file__).parents[2] / "examples" / "mindformers"
NETWORKS = ["llama", "qwen2", "qwen3", "qwen3_moe", "glm4"]


def run(*arguments, module=()):
    command = [sys.executable, *module, *map(str, arguments)]
    done = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def on_cpu(*arguments):
    return run(*arguments, module=("-m", "ms_ascend_ops", "run"))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    made = {}

    def make(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name)
            run("networks.py", name, made[name])
        return made[name]

    return make


@pytest.mark.parametrize("mode", ["graph", "pynative"])
@pytest.mark.parametrize("name", [*NETWORKS, "deepseek_v3"])
def test_generates_what_transformers_does(checkpoint, name, mode):
    assert on_cpu("generate.py", name, checkpoint(name), mode).count("as transformers") == 2


@pytest.mark.parametrize("name", [*NETWORKS, "deepseek_v3"])
def test_generates_what_transformers_does_on_the_device(checkpoint, name):
    """By the operators that an NPU runs: nothing of Python is replaced."""
    text = run("generate.py", name, checkpoint(name), "graph", module=("-m", "ms_ascend_ops", "emulate"))
    assert text.count("as transformers") == 2


def losses(checkpoint, name, *kind, device="run"):
    """With MindFormers' Trainer; the script fails where they are not those of PyTorch."""
    text = run("trainer.py", name, checkpoint(name), *kind, module=("-m", "ms_ascend_ops", device))
    return json.loads(next(line for line in text.splitlines() if "losses:" in line).partition("losses:")[2])


@pytest.mark.parametrize("name", ["llama", "qwen3", "deepseek_v3"])
def test_trains_as_pytorch_does_on_the_device(checkpoint, name):
    assert len(losses(checkpoint, name, device="emulate")) == 20


@pytest.mark.parametrize("name", [*NETWORKS, "deepseek_v3"])
def test_trains_as_pytorch_does(checkpoint, name):
    values = losses(checkpoint, name)
    assert len(values) == 20
    assert values[-1] < values[3]
    if name == "llama":  # the only network that stock MindSpore trains on a CPU
        np.testing.assert_allclose(values, losses(checkpoint, name, "stock"), rtol=2e-5)


@pytest.mark.parametrize("name", ["qwen3", "qwen3_moe"])
def test_trains_as_pytorch_does_to_rounding_without_float16(checkpoint, name):
    """MindFormers rounds queries, keys and values to float16: what is left without that is the rounding of float32."""
    expected = json.loads((checkpoint(name) / "losses.json").read_text())
    np.testing.assert_allclose(losses(checkpoint, name, "float32"), expected, rtol=2e-6)


@pytest.mark.parametrize("name", NETWORKS)
def test_prefill_and_decode_are_exported(checkpoint, name):
    assert "SwiGLU" in on_cpu("export.py", name, checkpoint(name))
    assert run("check.py", checkpoint(name)).count("logits within") == 4


def test_every_place_of_llama_is_replaced():
    text = run("substitute.py")
    assert "25 of 25 places in the network" in text
    assert "25 of 25 places in its MindIR" in text
