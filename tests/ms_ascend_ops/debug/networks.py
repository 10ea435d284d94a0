"""Networks that agree, and ones that do not."""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from ms_ascend_ops import RMSNorm, SwiGLU


class StockNorm(nn.Cell):
    def __init__(self, size, epsilon=1e-6):
        super().__init__()
        self.weight = Parameter(Tensor(np.ones(size, np.float32)), name="weight")
        self.epsilon = epsilon

    def construct(self, x):
        return x * ops.rsqrt((x * x).mean(-1, keep_dims=True) + self.epsilon) * self.weight


class StockGate(nn.Cell):
    def construct(self, x):
        gate, up = ops.chunk(x, 2, -1)
        return gate * ops.sigmoid(gate) * up


class Block(nn.Cell):
    def __init__(self, size, fused, epsilon=1e-6, scale=1.0):
        super().__init__()
        self.norm = RMSNorm(size) if fused else StockNorm(size, epsilon)
        self.up = nn.Dense(size, 4 * size, has_bias=False)
        self.act = SwiGLU() if fused else StockGate()
        self.down = nn.Dense(2 * size, size, has_bias=False)
        self.scale = scale

    def construct(self, x):
        return x + self.down(self.act(self.up(self.norm(x)))) * self.scale


class Network(nn.Cell):
    def __init__(self, fused=False, wrong=None, scale=1.0, blocks=4, size=16):
        super().__init__()
        self.blocks = nn.CellList([Block(size, fused, 1e-1 if i == wrong else 1e-6, scale) for i in range(blocks)])
        rng = np.random.default_rng(0)
        for parameter in self.get_parameters():
            if "norm" not in parameter.name:
                parameter.set_data(Tensor(rng.standard_normal(parameter.shape).astype(np.float32) / 4))

    def construct(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def stock():
    return Network()


def fused():
    return Network(fused=True)


def wrong():
    return Network(wrong=2)


def large():
    return Network(scale=6e4)


def inputs():
    return [Tensor(np.random.default_rng(1).standard_normal((3, 5, 16)).astype(np.float32), ms.float32)]
