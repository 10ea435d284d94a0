"""MindFormers' networks on a CPU, as examples/mindformers shows them: needs MindFormers, PyTorch and transformers.

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
@pytest.mark.parametrize("name", NETWORKS)
def test_generates_what_transformers_does(checkpoint, name, mode):
    assert on_cpu("generate.py", name, checkpoint(name), mode).count("as transformers") == 2


@pytest.mark.parametrize("script", ["finetune.py", "trainer.py"])
def test_trains_as_the_stock_network(checkpoint, script):
    curves = []
    for kind in ("npu", "stock"):
        line = next(t for t in on_cpu(script, kind, checkpoint("llama")).splitlines() if "losses:" in t)
        curves.append(json.loads(line.partition("losses:")[2]))
    assert len(curves[0]) == 20
    assert curves[0][-1] < curves[0][3]
    np.testing.assert_allclose(*curves, rtol=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_prefill_and_decode_are_exported(checkpoint, name):
    assert "SwiGLU" in on_cpu("export.py", name, checkpoint(name))
    assert run("check.py", checkpoint(name)).count("logits within") == 4


def test_every_place_of_llama_is_replaced():
    text = run("substitute.py")
    assert "25 of 25 places in the network" in text
    assert "25 of 25 places in its MindIR" in text
