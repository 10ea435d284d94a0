"""Small networks as files, and what they compute, in float64."""

import shutil

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from ms_ascend_ops import RMSNorm, bundle, export_mindir

SIZE = 8


class Block(nn.Cell):
    """x + norm(x) W + y, and x in float16."""

    def __init__(self, seed):
        super().__init__()
        self.norm = RMSNorm(SIZE)
        self.dense = nn.Dense(SIZE, SIZE, has_bias=False)
        self.dense.weight.set_data(Tensor(weight(seed)))

    def construct(self, x, y):
        return x + self.dense(self.norm(x)) + y, ops.cast(x, ms.float16)


class Mixed(nn.Cell):
    """Rows less their mean over axis 0: they depend on each other."""

    def construct(self, x):
        return x - x.mean(axis=0, keep_dims=True)


class Identity(nn.Cell):
    def construct(self, x, n, flag):
        return x * 1, n + 1, ops.logical_not(flag)


def weight(seed):
    return np.random.default_rng(seed).standard_normal((SIZE, SIZE)).astype(np.float32)


def expected(x, y, seed=1):
    x, y = x.astype(np.float64), y.astype(np.float64)
    norm = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
    return x + norm @ weight(seed).T.astype(np.float64) + y


def write(folder):
    """block takes any sizes; second is a bundle, with other weights."""
    x = Tensor(np.ones((2, 3, SIZE), np.float32))
    both = {0: (0, 1), 1: (0, 1)}
    files = {
        "block": export_mindir(Block(1), x, x, path=folder / "block", dynamic=both),
        "mixed": export_mindir(Mixed(), x, path=folder / "mixed", dynamic={0: (0,)}),
        "identity": export_mindir(
            Identity(), Tensor(np.ones((2, 2)), ms.bfloat16), Tensor([1, 1, 1], ms.int32), Tensor([True, True]),
            path=folder / "identity",
        ),
    }  # fmt: skip
    second = export_mindir(Block(2), x, x, path=folder / "second", dynamic=both)
    return files | {"second": bundle(second, folder / "second")}


def add_version(root, name, version, file):
    folder = root / name / str(version)
    folder.mkdir(parents=True)
    shutil.copyfile(file, folder / file.name)
