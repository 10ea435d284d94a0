"""The same bits in MindSpore, PyTorch and ONNX Runtime, and that docs/clients.md says so of every operator."""

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.clients

from tests.dtypes import FLOATS
from tests.onnx.three_clients import CLIENTS, agreement, table
from tests.torch.examples import every_operator, examples


@every_operator
def test_same_bits(example):
    for dtype in FLOATS:
        assert agreement(example, dtype) == dict.fromkeys(CLIENTS, True), dtype


def test_the_table():
    """What the test above finds, if it passes."""
    expected = table({(example, dtype): dict.fromkeys(CLIENTS, True) for example in examples() for dtype in FLOATS})
    assert (Path(__file__).parents[2] / "docs/clients.md").read_text(encoding="utf-8").endswith("\n\n" + expected)
