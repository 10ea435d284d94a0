"""A MindIR with our operators runs in a process that imports MindSpore only."""

import subprocess
import sys

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

from ms_ascend_ops import RMSNorm, SwiGLU
from tests.acceptance import assert_accurate
from tests.modes import graph_mode
from tests.reference import rms_norm, swiglu

RUN = """
import sys
import mindspore as ms
import numpy as np

ms.set_context(mode=ms.GRAPH_MODE)
network = ms.nn.GraphCell(ms.load(sys.argv[1]))
for i in range(2):
    np.save(f"y{i}.npy", network(ms.Tensor(np.load(f"x{i}.npy"))).asnumpy())
assert "ms_ascend_ops" not in sys.modules
"""


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.norm = RMSNorm(8, param_init=Tensor(np.linspace(0.5, 2, 8, dtype=np.float32)))
        self.swiglu = SwiGLU()

    def construct(self, x):
        return self.swiglu(self.norm(x))


@pytest.mark.parametrize("shape", [(3, 8), (None, 8), (None, None)], ids=str)
def test_export(tmp_path, shape):
    network = Network()
    with graph_mode():
        ms.export(
            network,
            Tensor(shape=shape, dtype=ms.float32, init="zeros")
            if None not in shape
            else Tensor(shape=shape, dtype=ms.float32),
            file_name="network",
            file_format="MINDIR",
        )
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(rows, 8)).astype(np.float32) for rows in ((3, 3) if shape[0] else (2, 5))]
    for i, x in enumerate(inputs):
        np.save(f"x{i}.npy", x)
    subprocess.run([sys.executable, "-c", RUN, "network.mindir"], check=True)
    weight = network.norm.weight.asnumpy().astype(np.float64)
    for i, x in enumerate(inputs):
        golden = swiglu.forward(rms_norm.forward(x.astype(np.float64), weight)[0])
        assert_accurate(np.load(f"y{i}.npy"), golden, "float32")
