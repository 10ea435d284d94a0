"""The lines of docs/training.md run, and give what they are said to give."""

import importlib.util
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs/training.md"


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """All blocks, in their order, as one module: MindSpore reads the sources of cells and functions."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"(<!-- in two processes -->\n)?^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    path = tmp_path_factory.mktemp("page") / "training_page.py"
    path.write_text("\n".join(block for comment, block in blocks if not comment), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    before = ms.get_context("mode")
    try:
        spec.loader.exec_module(module)
    finally:
        ms.set_context(mode=before)
        del sys.modules[path.stem]
    return vars(module)


def test_it_learns(names):
    assert names["losses"][2] < names["losses"][1] < names["losses"][0]


def test_parts_of_a_batch_add_up(names):
    for one, other in zip(names["accumulated"], names["whole"], strict=True):
        largest = np.abs(other.asnumpy()).max()
        np.testing.assert_allclose(one.asnumpy(), other.asnumpy(), rtol=0, atol=2e-6 * largest)  # sums of 8 float32


def test_half_precision_is_near(names):
    assert names["half_loss"].dtype == ms.float32
    np.testing.assert_allclose(float(names["half_loss"]), float(names["full_loss"]), rtol=1e-2)  # 10 bits, two layers
    assert all(np.isfinite(gradient.asnumpy()).all() for gradient in names["half_gradients"])


def test_recomputing_changes_nothing(names):
    (loss, gradients), (same_loss, same_gradients) = names["results"]
    assert float(loss) == float(same_loss)
    for one, other in zip(gradients, same_gradients, strict=True):
        assert one.asnumpy().tobytes() == other.asnumpy().tobytes()


TWO_PROCESSES = """
_, whole = gradients_of(x, y)
optimizer = nn.AdamWeightDecay(net.trainable_params(), learning_rate=1e-3)
before = [parameter.asnumpy().copy() for parameter in net.trainable_params()]
{block}
whole, gradients = ([gradient.asnumpy() for gradient in found] for found in (whole, gradients))
np.savez(f"{{rank}}.npz", loss.asnumpy(), *gradients)
np.savez("whole.npz", *whole)
assert size == 2
assert all((old != new.asnumpy()).any() for old, new in zip(before, net.trainable_params()))
"""


def test_two_processes_have_the_gradient_of_one(tmp_path):
    """By msrun, as the page says. Both have half of the batch, and the gradient of all of it."""
    text = PAGE.read_text(encoding="utf-8")
    first = re.search(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[1].partition("\noptimizer = ")
    (block,) = re.findall(r"<!-- in two processes -->\n```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "train.py").write_text(first[0] + TWO_PROCESSES.format(block=block), encoding="utf-8")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    run = [
        sys.executable,
        "-m",
        "mindspore.parallel.cluster.run",
        "--worker_num=2",
        "--local_worker_num=2",
        "--join=True",
    ]
    run += [f"--master_port={port}", "--log_dir=log", "python", "train.py"]
    paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": paths, "GLOG_v": "3", "MS_ASCEND_OPS_NUM_THREADS": "1"}
    done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
    logs = "".join(path.read_text()[-2000:] for path in (tmp_path / "log").glob("worker_*.log"))
    assert done.returncode == 0, done.stderr[-2000:] + logs
    (loss, *first), (other_loss, *second) = (np.load(tmp_path / f"{rank}.npz").values() for rank in (0, 1))
    assert loss != other_loss  # of different halves
    for one, other, expected in zip(first, second, np.load(tmp_path / "whole.npz").values(), strict=True):
        assert one.tobytes() == other.tobytes()
        # Sums of 8 rows, in another order: some ULP of float32.
        np.testing.assert_allclose(one, expected, rtol=0, atol=2e-6 * np.abs(expected).max())
