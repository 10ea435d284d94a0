"""Whether a convolution is faster as our operator than as MindSpore's, on this machine and for its size.

Both are run on random numbers, once for each convolution of another size, in turn until the shorter time is clear.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from mindspore import Tensor, ops
from ms_ascend_ops.export.graphs.graph import Node
from ms_ascend_ops.export.graphs.modes import pynative, quiet
from ms_ascend_ops.export.graphs.probe import settle
from ms_ascend_ops.export.matching.find import Found

from ms_ascend_ops import loop_compiler
from ms_ascend_ops.library import native
from ms_ascend_ops.ops.conv2d import conv2d

__all__ = ["slower"]

_PLAIN = 2_000_000  # products up to which a convolution takes no time that matters
_GROUPED = 100_000  # of one with groups, or with few channels, of which MindSpore may make more
_ROUNDS = 5
_FEWEST = 3  # also on a machine that is busy
_CLEAR = 3.0  # one is so much faster that a second look needs no time
_MOST_S = 1.0  # for one convolution

_known: dict[Any, str] = {}
_slow: dict[Any, str] = {}  # of convolutions, whatever is behind them


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
    convolution = x.shape[1:], weight.shape, repr(sorted(alone.items()))
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
    shapes = [(1, *x.shape[1:]), weight.shape, *([weight.shape[:1]] if biased else [])]
    tensors = [Tensor(random.standard_normal(shape).astype(np.float32)) for shape in shapes]
    with quiet(), pynative():
        try:
            _stock(tensors, settings).asnumpy()
        except Exception:  # it does not run here
            settle()
            return ""
        ours, stock = _times(lambda: _ours(tensors, settings), lambda: _stock(tensors, settings))
    if ours <= stock * _MARGIN:
        return ""
    return f"on this machine MindSpore's takes {1e3 * stock:.2g} ms and the operator {1e3 * ours:.2g} ms"


_CHANNELS = 8
_MARGIN = 0.95  # what is as fast within the noise stays


def _ours(tensors: list[Tensor], settings: dict[str, Any]) -> Tensor:
    x, weight, *bias = tensors
    return conv2d(x, weight, bias[0] if bias else None, **settings)


def _stock(tensors: list[Tensor], settings: dict[str, Any]) -> Tensor:
    x, weight, *bias = tensors
    padding = settings["padding"]
    mode = padding if isinstance(padding, str) else "pad"
    primitive = ops.Conv2D(
        weight.shape[0], weight.shape[2:], 1, mode, 0 if mode != "pad" else tuple(padding), tuple(settings["stride"]),
        tuple(settings["dilation"]), settings["groups"],
    )  # fmt: skip
    y = primitive(x, weight)
    y = ops.bias_add(y, bias[0]) if bias else y
    activation = {"relu": ops.relu, "silu": ops.silu, "gelu": ops.gelu, "gelu_tanh": ops.gelu}.get(
        settings["activation"]
    )
    return activation(y) if activation else y


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
