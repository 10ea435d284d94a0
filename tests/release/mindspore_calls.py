"""Some calls of an installation with MindSpore. Run in an empty folder, which gets block.mindir."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn

import ms_ascend_ops
from ms_ascend_ops import RMSNorm, SwiGLU, export_mindir, load, ops, optimize

values = np.random.default_rng(0).normal(size=(2, 8, 64)).astype(np.float32)
x = Tensor(values)
exact = values / np.sqrt(np.mean(values.astype(np.float64) ** 2, axis=-1, keepdims=True) + 1e-6)
net = RMSNorm(64)
assert np.allclose(net(x).asnumpy(), exact, atol=1e-5)
gradient = ms.grad(lambda x: ops.rms_norm(x, net.weight)[0].sum())(x).asnumpy()
mean = np.mean(values.astype(np.float64) ** 2, axis=-1, keepdims=True) + 1e-6
expected = (1 - exact * exact.mean(axis=-1, keepdims=True)) / np.sqrt(mean)
assert np.allclose(gradient, expected, atol=1e-5)


class Block(nn.Cell):
    def __init__(self):
        super().__init__()
        self.norm, self.act = RMSNorm(64), SwiGLU()

    def construct(self, x):
        return self.act(self.norm(x))


class Stock(nn.Cell):
    def construct(self, gate, up):
        return ms.ops.silu(gate) * up


path = export_mindir(Block(), x, path="block", dynamic={0: (0, 1)})
y = load(path)(values[:1])
assert y.shape == (1, 8, 32)
assert np.allclose(y.asnumpy(), Block()(x[:1]).asnumpy(), atol=1e-6)
assert [entry.pattern for entry in optimize(Stock(), verify=[x, x]).replaced] == ["SwiGLU"]
export_mindir(Stock(), x, x, path="stock")
print(f"calls agree: {ms_ascend_ops.__file__}")
