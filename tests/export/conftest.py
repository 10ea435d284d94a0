"""A network of our operators, and what becomes of it on the way to another machine."""

import numpy as np
import pytest
from mindspore import Tensor, nn
from mindspore.train import serialization

from ms_ascend_ops import export_mindir, optimize
from tests.export import equivalent_forms
from tests.export.equivalent_forms import HIDDEN


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.norm = equivalent_forms.PowMeanNorm()
        self.mlp = equivalent_forms.LlamaStyleMLP()
        self.dropout = nn.Dropout(p=0.5)

    def construct(self, x):
        return self.dropout(x + self.mlp(self.norm(x)))


@pytest.fixture
def values():
    return np.random.default_rng(0).standard_normal((3, 5, HIDDEN)).astype(np.float32)


@pytest.fixture(scope="session")
def network():
    net = Network()
    assert len(optimize(net).replaced) == 2
    return net


@pytest.fixture(scope="session")
def _exported(network, tmp_path_factory):
    x = Tensor(np.zeros((1, 1, HIDDEN), np.float32))
    path = tmp_path_factory.mktemp("exported") / "network.mindir"
    return export_mindir(network, x, path=path, dynamic={0: (0, 1)}).read_bytes()


@pytest.fixture
def file(_exported, tmp_path):
    path = tmp_path / "network.mindir"
    path.write_bytes(_exported)
    return path


@pytest.fixture
def small_limit(monkeypatch):
    """MindSpore writes parameters into files of their own above this number of KB."""
    monkeypatch.setattr(serialization, "TOTAL_SAVE", 0.1)
