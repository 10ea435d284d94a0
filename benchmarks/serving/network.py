"""Makes the network of the load: a normalized gated feed-forward layer, of our operators or of stock ones,
and computes its formula.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["HIDDEN", "expected", "stock_network", "write"]

Array = np.ndarray[Any, Any]

HIDDEN = 256
INNER = 768


def weights() -> dict[str, Array]:
    """Return the weights, which are the same in every process."""
    rng = np.random.default_rng(0)
    shapes = {"gate": (INNER, HIDDEN), "up": (INNER, HIDDEN), "down": (HIDDEN, INNER)}
    made = {name: (rng.standard_normal(shape) / shape[1] ** 0.5).astype(np.float32) for name, shape in shapes.items()}
    return made | {"gamma": (1 + 0.1 * rng.standard_normal(HIDDEN)).astype(np.float32)}


def expected(x: Array) -> Array:
    """Return the expected result: the formula in float64."""
    w = {name: value.astype(np.float64) for name, value in weights().items()}
    x = x.astype(np.float64)
    normed = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * w["gamma"]
    gate = normed @ w["gate"].T
    result: Array = x + (gate / (1 + np.exp(-gate)) * (normed @ w["up"].T)) @ w["down"].T
    return result


def stock_network() -> Any:
    """Make it of MindSpore's operators; input of any batch and length."""
    return _network(fused=False)


def write(path: Path, fused: bool = True) -> Path:
    """Write a MindIR, of our operators or of stock ones."""
    from mindspore import Tensor
    from ms_ascend_ops.export import export_mindir

    x = Tensor(np.ones((2, 3, HIDDEN), np.float32))
    return export_mindir(_network(fused), x, path=path, dynamic={0: (0, 1)})


def _network(fused: bool) -> Any:
    from mindspore import Parameter, Tensor, nn, ops

    from ms_ascend_ops import ops as own

    class FeedForward(nn.Cell):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            w = weights()
            self.gamma = Parameter(Tensor(w.pop("gamma")), name="gamma")
            for name, value in w.items():
                setattr(self, name, nn.Dense(value.shape[1], value.shape[0], has_bias=False))
                getattr(self, name).weight.set_data(Tensor(value))
            self.fused = fused

        def construct(self, x: Tensor) -> Tensor:
            if self.fused:
                normed = own.rms_norm(x, self.gamma)[0]
                return x + self.down(own.silu_mul(self.gate(normed), self.up(normed)))
            normed = x * ops.rsqrt(x.square().mean(-1, keep_dims=True) + 1e-6) * self.gamma
            return x + self.down(ops.silu(self.gate(normed)) * self.up(normed))

    network = FeedForward()
    network.set_train(False)
    return network
