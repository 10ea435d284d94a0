"""Measure whether a convolution is faster as our operator than as MindSpore's, on this machine and for its size.

Both are run on random numbers, once for each convolution of another size, in turn until the shorter time is clear, in
the modes in which the network may run: a graph spares MindSpore's more than it spares ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from ms_ascend_ops.export.graphs.graph import Node
from ms_ascend_ops.export.graphs.modes import graph_mode, pynative, quiet
from ms_ascend_ops.export.graphs.probe import synchronize
from ms_ascend_ops.export.matching.find import Found

from ms_ascend_ops import loop_compiler
from ms_ascend_ops.library import native
from ms_ascend_ops.ops.conv2d import conv2d

__all__ = ["GRAPH", "PYNATIVE", "running", "slower"]

_PLAIN = 2_000_000  # products up to which a convolution takes no time that matters
_GROUPED = 100_000  # of one with groups, or with few channels, of which MindSpore may make more
_ROUNDS = 5
_FEWEST = 3  # also on a machine that is busy
_CLEAR = 3.0  # one is so much faster that a second look needs no time
_MOST_S = 1.0  # for one convolution

PYNATIVE, GRAPH = "in PyNative", "in a graph"
_modes: ContextVar[tuple[str, ...]] = ContextVar("modes", default=(PYNATIVE, GRAPH))

_known: dict[Any, str] = {}
_slow: dict[Any, str] = {}  # of convolutions, whatever is behind them


@contextmanager
def running(*modes: str) -> Iterator[None]:
    """Within the block, a convolution must be faster in these modes."""
    token = _modes.set(modes)
    try:
        yield
    finally:
        _modes.reset(token)


def slower(found: Found) -> str:
    """Why a convolution must stay, if it is faster as it is; nothing of what is none, and where it does not matter."""
    if found.fused.op != "conv2d":
        return ""
    x, weight = found.inputs[:2]
    settings = found.fused.keywords or {}
    if x.shape is None or weight.shape is None or min(*x.shape[1:], *weight.shape) < 1:
        return ""  # sizes that are open
    # A batch, and the dtype, change nothing: all of them have to do the same.
    alone = {name: value for name, value in settings.items() if name != "activation"}
    convolution = _modes.get(), x.shape[1:], weight.shape, repr(sorted(alone.items()))
    key = *convolution, settings["activation"], len(found.inputs)
    if convolution in _slow:  # larger places are looked at first: what is slower with them is slower without
        return _slow[convolution]
    if key not in _known:
        _known[key] = _judged(x, weight, settings, len(found.inputs) > 2)
        if _known[key]:
            _slow[convolution] = _known[key]
    return _known[key]


def _judged(x: Node, weight: Node, settings: dict[str, Any], biased: bool) -> str:
    assert x.shape is not None
    assert weight.shape is not None
    few = settings["groups"] > 1 or weight.shape[1] < _CHANNELS
    stride = settings["stride"]
    products = int(np.prod(weight.shape)) * x.shape[2] * x.shape[3] // (stride[0] * stride[1])
    if products < (_GROUPED if few else _PLAIN):
        return ""
    random = np.random.default_rng(0)
    tensors = [random.standard_normal(shape).astype(np.float32) for shape in (weight.shape, weight.shape[:1])]
    data = [Parameter(Tensor(tensor)) for tensor in tensors[: 2 if biased else 1]]
    ours, stock = _Ours(data, settings), _Stock(data, settings)
    image = Tensor(random.standard_normal((1, *x.shape[1:])).astype(np.float32))
    for mode in _modes.get():
        with quiet(), graph_mode() if mode == GRAPH else pynative():
            if not (_runs(stock, image) and _runs(ours, image)):
                continue
            ours_s, stock_s = _times(lambda: ours(image), lambda: stock(image))
        if ours_s > stock_s * _MARGIN:
            times = f"MindSpore's takes {1e3 * stock_s:.2g} ms and the operator {1e3 * ours_s:.2g} ms"
            return f"on this machine {times}, {mode}"
    return ""


_CHANNELS = 8
_MARGIN = 0.95  # what is as fast within the noise stays


def _runs(convolution: nn.Cell, image: Tensor) -> bool:
    try:
        convolution(image).asnumpy()
    except Exception:
        synchronize()
        return False
    return True


class _Ours(nn.Cell):  # type: ignore[misc]
    def __init__(self, data: list[Parameter], settings: dict[str, Any]) -> None:
        super().__init__()
        self.weight, self.bias = data if len(data) > 1 else (*data, None)
        self.settings = settings

    def construct(self, x: Tensor) -> Tensor:
        return conv2d(x, self.weight, self.bias, **self.settings)


class _Stock(nn.Cell):  # type: ignore[misc]
    def __init__(self, data: list[Parameter], settings: dict[str, Any]) -> None:
        super().__init__()
        self.weight, self.bias = data if len(data) > 1 else (*data, None)
        padding = settings["padding"]
        mode = padding if isinstance(padding, str) else "pad"
        shape = self.weight.shape
        self.convolution = ops.Conv2D(
            shape[0], shape[2:], 1, mode, 0 if mode != "pad" else tuple(padding), tuple(settings["stride"]),
            tuple(settings["dilation"]), settings["groups"],
        )  # fmt: skip
        activations = {"relu": ops.relu, "silu": ops.silu, "gelu": ops.gelu, "gelu_tanh": ops.gelu}
        self.activation = activations.get(settings["activation"])

    def construct(self, x: Tensor) -> Tensor:
        y = self.convolution(x, self.weight)
        if self.bias is not None:
            y = ops.bias_add(y, self.bias)
        return y if self.activation is None else self.activation(y)


def _times(ours: Callable[[], Tensor], stock: Callable[[], Tensor]) -> tuple[float, float]:
    """The shortest seconds of each, of the process and of the clock: whichever of them is worse for ours."""
    start = time.perf_counter()
    functions = (ours, stock)
    ours().asnumpy()
    loop_compiler.wait(native(), _MOST_S)
    best = [[float("inf")] * 2 for _ in functions]
    for number in range(_ROUNDS + 1):
        for function, shortest in zip(functions, best, strict=True):
            wall, cpu = time.perf_counter(), time.process_time()
            function().asnumpy()
            if number or function is stock:  # the first time of ours is that of its memory
                shortest[0] = min(shortest[0], time.perf_counter() - wall)
                shortest[1] = min(shortest[1], time.process_time() - cpu)
        late = number >= _FEWEST and time.perf_counter() - start > _MOST_S
        if number and (late or best[1][0] > _CLEAR * best[0][0] or best[0][0] > _CLEAR * best[1][0]):
            break
    return max(zip(*best, strict=True), key=lambda pair: pair[0] / max(pair[1], 1e-9))
