"""Measure whether a convolution is faster as our operator than as MindSpore's, on this machine and for its size.

Both are run on random numbers, once for each convolution of another size, in turn until the shorter time is clear, in
the modes in which the network may run: a graph spares MindSpore's more than it spares ours. An NPU is asked by its
events. Those of an emulated device tell what is predicted for an NPU with --trace only: without, convolutions are
replaced unmeasured, so that what an NPU may run is tried.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from ms_ascend_ops.export.graphs.modes import graph_mode, pynative, quiet
from ms_ascend_ops.export.graphs.probe import synchronize
from ms_ascend_ops.export.matching.find import Found

from ms_ascend_ops import loop_compiler
from ms_ascend_ops.library import native
from ms_ascend_ops.mindspore_versions import device_target
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
    """Require, within the block, a convolution to be faster in these modes."""
    token = _modes.set(modes)
    try:
        yield
    finally:
        _modes.reset(token)


def slower(found: Found) -> str:
    """Say why a place must stay, if it is faster as it is; nothing where nobody knows, or where it does not matter."""
    on_npu = device_target() == "Ascend"
    if on_npu and found.row.name == "linear layer":
        return "an NPU has a product of its own, and nothing is fused with this one"
    if found.fused.op not in ("conv2d", "conv2d_batch_norm") and not (on_npu and found.fused.op == "conv2d_group_norm"):
        return ""
    if on_npu and not _tells_time():
        return ""
    x, weight = found.inputs[:2]
    keywords = found.fused.keywords or {}
    settings = {name: keywords[name] for name in ("stride", "padding", "dilation", "groups", "data_format")}
    # Only the convolution is timed: a group norm behind it is ours in either case, and a batch norm costs the operator
    # next to nothing.
    activation = keywords["activation"] if found.fused.op == "conv2d" else "none"
    if x.shape is None or weight.shape is None or min(*x.shape[1:], *weight.shape) < 1:
        return ""  # sizes that are open
    # On a CPU neither batch nor dtype changes the choice: all of them have to agree.
    image = (max(1, x.shape[0]), *x.shape[1:]) if on_npu else (1, *x.shape[1:])
    dtype = x.dtype if on_npu else "float32"
    convolution = _modes.get(), image, dtype, weight.shape, repr(sorted(settings.items()))
    biased = len(found.inputs) > 2
    key = *convolution, activation, biased
    if convolution in _slow:  # larger places are looked at first: what is slower with them is slower without
        return _slow[convolution]
    if key not in _known:
        _known[key] = _judged(image, weight.shape, dtype, {**settings, "activation": activation}, biased)
        if _known[key]:
            _slow[convolution] = _known[key]
    return _known[key]


def _tells_time() -> bool:
    emulated = bool(os.environ.get("MS_ASCEND_EMULATED_CHIP"))
    return not emulated or bool(os.environ.get("MS_ASCEND_EMULATED_TRACE"))


def _judged(image: tuple[int, ...], weight: tuple[int, ...], dtype: str, settings: dict[str, Any], biased: bool) -> str:
    few = settings["groups"] > 1 or weight[1] < _CHANNELS
    stride = settings["stride"]
    products = int(np.prod(weight)) * image[2] * image[3] // (stride[0] * stride[1])
    on_npu = device_target() == "Ascend"
    if not on_npu and products < (_GROUPED if few else _PLAIN):
        return ""
    random = np.random.default_rng(0)
    shapes = [image, weight, *([weight[:1]] if biased else [])]
    x, *data = (Tensor(random.standard_normal(shape).astype(np.float32)).astype(getattr(ms, dtype)) for shape in shapes)
    parameters = [Parameter(values) for values in data]
    ours, stock = _Ours(parameters, settings), _Stock(parameters, settings)
    measure = _times_of_device if on_npu else _times
    for mode in (PYNATIVE,) if on_npu else _modes.get():
        with quiet(), graph_mode() if mode == GRAPH else pynative():
            if not (_runs(stock, x) and _runs(ours, x)):
                continue
            ours_s, stock_s = measure(lambda: ours(x), lambda: stock(x))
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
    """Return the shortest seconds of each, of the process and of the clock: whichever of them is worse for ours."""
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


def _times_of_device(ours: Callable[[], Tensor], stock: Callable[[], Tensor]) -> tuple[float, float]:
    """Return the seconds that each takes on an NPU, which have run once before."""
    found = []
    for function in (ours, stock):
        begin, end = (ms.runtime.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(_FEWEST):
            function()
        end.record()
        ms.runtime.synchronize()
        found.append(begin.elapsed_time(end) / 1e3 / _FEWEST)
    return found[0], found[1]
