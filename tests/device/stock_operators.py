"""Operators and gradients of MindSpore's own, as expressions of a few tensors, for its CPU and for the emulated device.

Their arguments pass MindSpore's Ascend backend, CANN's interface and ms_ascend_ops/device/operators. What MindSpore's
CPU does not have, or has undefined, is not here: tests/device/test_operators.py has independent values of all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, mint, nn, ops

from ms_ascend_ops.mindspore_versions import has_fault

EXPRESSIONS = """
x - v; 2 - x; 3 / p; p ** y; x // p; x % p; x * s; i / j; i // j; i % j; l // 2; i + x; h + x; bf * bf; x >= one; i == 3
m & n; m ^ n; ~m; i & j; x[:, 1:5:2]; x[::2, ::3]; x[..., -1]; x[m]; x[idx, idx]; x[None, :, 1]; x[:, idx]; x.T @ y
x.astype(ms.float16); l.astype(ms.int32); x.repeat_interleave(2, 0); x.fill_diagonal(0.5); mint.add(x, y, alpha=2)
mint.sub(x, y, alpha=0.5); mint.div(x, p, rounding_mode='floor'); mint.fmod(x, p); mint.log1p(p); mint.rsqrt(p)
mint.atanh(u); mint.erfinv(u); mint.sinc(x); mint.round(x); mint.clamp(x, -0.5, 0.5); mint.lerp(x, y, 0.3)
mint.where(m, x, y); mint.masked_select(x, m); mint.isinf(x / (y * 0)); mint.isclose(x, x + 1e-9); mint.xlogy(x, p)
mint.sum(x, 1, keepdim=True); mint.sum(h, 1); mint.mean(x, 1); mint.prod(x, 1); mint.max(x, 1); mint.min(x, 0)
mint.amax(x, 1); mint.any(m, 0); mint.cumprod(x, 1); mint.cummax(x, 1); mint.nonzero(m); mint.triu(x, 1)
mint.matmul(v, x.T); mint.bmm(t, t2); mint.cdist(x, y); mint.cat((x, y), 1); mint.split(x, [1, 5], 1)
mint.chunk(x, 3, 1); mint.permute(t, (2, 0, 1)) + 0; mint.reshape(t.transpose(0, 2, 1), (4, 6)); mint.tile(x, (2, 1))
mint.flip(x, (0, 1)); mint.meshgrid(v, b, indexing='ij'); mint.gather(x, 0, gi); mint.scatter(x, 0, gi, 1.5)
mint.narrow(x, 1, 2, 3) + 0; mint.eye(3, 4); F.silu(x); F.softplus(x); F.hardswish(x); F.softshrink(x); F.glu(x)
F.prelu(c, v[:4].abs()); F.softmax(x, dim=1); F.linear(x, w, b); F.group_norm(c, 2, v[:4], v[1:5])
F.interpolate(c, scale_factor=2.0, mode='nearest'); F.smooth_l1_loss(x, y, beta=0.5)
F.binary_cross_entropy(mint.sigmoid(x), m.astype(ms.float32)); ops.gather_nd(x, gi[:, :2] % 4)
ops.scatter_nd(idx.view(4, 1), x, (4, 6)); ops.one_hot(lab, 6, Tensor(1.0), Tensor(0.0))
ops.unsorted_segment_sum(x, seg, 3); ops.UnsortedSegmentMax()(x, seg, 3); ops.UnsortedSegmentMin()(x, seg, 3)
ops.UnsortedSegmentProd()(x, seg, 3); ops.strided_slice(x, (0, 1), (4, 5), (2, 2)); ops.bias_add(x, v)
ops.LayerNorm(1, 1)(x, v, v)[0]; ops.SoftmaxCrossEntropyWithLogits()(x, F.softmax(y, dim=1)); ops.argmax(x, 1)
ops.ArgMaxWithValue(1)(x); ops.clip_by_value(x, -1, 1); ops.isnan(x / (x * 0)); ops.Pad(((1, 1), (0, 2)))(x)
ops.DepthToSpace(2)(c); ops.SpaceToDepth(2)(c); ops.tensor_scatter_sub(x, idx.view(4, 1), y); ops.ReverseV2((1,))(x)
ops.ScatterUpdate()(ms.Parameter(x.copy()), lab % 4, y); ops.ScatterAdd()(ms.Parameter(x.copy()), lab % 4, y)
ops.ScatterSub()(ms.Parameter(x.copy()), lab % 4, y); ops.Diag()(v); ops.DiagPart()(sq)
ops.Softplus()(x); ops.SeLU()(x); ops.Mish()(x); ops.Inv()(p); ops.MatrixInverse()(sq); ops.LogSoftmax()(x)
ops.NLLLoss()(x, lab, v.abs()); ops.BCEWithLogitsLoss()(x, y, p, p); nn.BatchNorm2d(4).set_train()(c)
nn.MaxPool2d(2, 2)(c); nn.AvgPool2d(2, 2)(c); nn.AdaptiveAvgPool2d(3)(c); nn.CrossEntropyLoss()(x, lab)
nn.Conv2d(4, 6, 3, 2, pad_mode='pad', padding=1, weight_init=k)(c); nn.Dense(6, 5, weight_init=w, bias_init=b)(x)
"""

GRADIENTS = """
mint.div(x, p) * mint.exp(y); mint.matmul(x, w.T); mint.bmm(t, t2); F.silu(x); F.softmax(x, dim=1) * y
F.group_norm(c, 2, v[:4], v[1:5]) * c; F.linear(x, w, b) ** 2; F.smooth_l1_loss(x, y); mint.gather(x, 0, gi) * y
F.interpolate(c, scale_factor=2.0, mode='nearest') ** 2; mint.cat((x, y * x), 1) ** 2; mint.where(m, x, y) * x
mint.mean(x, 1) ** 2; mint.max(x, 1)[0]; mint.tanh(x) * mint.sigmoid(y); mint.pow(p, y); mint.prod(x, 1)
mint.clamp(x, -0.5, 0.5) * y; mint.split(x, 2, 1)[1] ** 2; x[:, 1:5:2] ** 2; x[idx] * y; F.hardswish(x) * y
"""

# What a MindSpore without a kernel on a CPU gives instead: the fault, and an expression of the same values.
WITHOUT_KERNEL = {
    "bf * bf": ("bfloat16 on a CPU", "bf.astype(ms.float32) * bf.astype(ms.float32)"),
    "F.softplus(x)": ("SoftplusExt on a CPU", "ops.Softplus()(x)"),
}


def results() -> Iterator[tuple[str, list[Any] | str]]:
    """Of every expression on the device of the process: the arrays, or what was raised."""
    for expression in _each(EXPRESSIONS):
        fault, other = WITHOUT_KERNEL.get(expression, ("", expression))
        text = other if fault and has_fault(fault) else expression
        yield expression, _tried(lambda text=text: eval(text, _tensors()))
    for expression in _each(GRADIENTS):
        yield f"gradient of {expression}", _tried(lambda text=expression: _gradients(text))


def _each(text: str) -> list[str]:
    return [one.strip() for one in re.split("[;\n]", text.strip())]


def _tensors() -> dict[str, Any]:
    random = np.random.default_rng(3)

    def normal(*shape: int) -> Tensor:
        return Tensor(random.normal(size=shape).astype(np.float32))

    def integers(low: int, high: int, dtype: Any, shape: tuple[int, ...] = (4, 6)) -> Tensor:
        return Tensor(random.integers(low, high, shape).astype(dtype))

    square = random.normal(size=(4, 4))
    names = {"x": normal(4, 6), "y": normal(4, 6), "v": normal(6), "w": normal(5, 6), "b": normal(5)}
    names |= {"c": normal(2, 4, 8, 8), "k": normal(6, 4, 3, 3), "t": normal(2, 3, 4), "t2": normal(2, 4, 5)}
    names |= {"p": Tensor(random.uniform(0.5, 2, (4, 6)).astype(np.float32)), "one": normal(1, 6)}
    names |= {"u": Tensor(random.uniform(-0.9, 0.9, (4, 6)).astype(np.float32)), "s": Tensor(np.float32(1.5))}
    names |= {"m": integers(0, 2, bool), "n": integers(0, 2, bool), "gi": integers(0, 4, np.int64)}
    names |= {"i": integers(-9, 9, np.int32), "j": integers(1, 5, np.int32), "l": integers(-9, 9, np.int64)}
    names |= {"idx": Tensor(np.array([2, 0, 3, 1])), "lab": Tensor(np.array([1, 5, 0, 3], np.int32))}
    names |= {"seg": Tensor(np.array([0, 1, 0, 2], np.int32)), "h": names["x"].astype(ms.float16)}
    names |= {"bf": names["x"].astype(ms.bfloat16), "sq": Tensor((square @ square.T + np.eye(4)).astype(np.float32))}
    return names | {"F": mint.nn.functional, "Tensor": Tensor, "mint": mint, "ms": ms, "nn": nn, "ops": ops}


def _gradients(expression: str) -> Any:
    tensors = _tensors()
    names = [name for name in ("x", "y", "p", "v", "w", "b", "c", "t", "t2") if re.search(rf"\b{name}\b", expression)]

    def total(*some: Tensor) -> Tensor:
        return eval(expression, tensors | dict(zip(names, some, strict=True))).sum()

    return ms.grad(total, tuple(range(len(names))))(*[tensors[name] for name in names])


def _tried(compute: Any) -> list[Any] | str:
    try:
        return [_array(one) for one in _flat(compute())]
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _flat(result: Any) -> list[Tensor]:
    return [one for part in result for one in _flat(part)] if isinstance(result, (tuple, list)) else [result]


def _array(tensor: Tensor) -> Any:
    return (tensor.astype(ms.float32) if tensor.dtype == ms.bfloat16 else tensor).asnumpy()
