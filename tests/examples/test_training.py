"""The lines of docs/training.md run, and give what they are said to give."""

import importlib.util
import re
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
    blocks = re.findall(r"(<!-- not run: [^\n]*-->\n)?^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
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
