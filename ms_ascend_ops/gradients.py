"""Holds what the bprops of operators share.

Gradients of inputs that are seldom needed are composed of stock operators. In a graph they cost nothing where they
are not used: MindSpore eliminates dead nodes. In PyNative a bprop computes all that it returns, so it asks first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mindspore as ms
from mindspore import Tensor, ops

from ms_ascend_ops.custom import kernel
from ms_ascend_ops.mindspore_versions import ones_like, zeros_like

__all__ = [
    "as_dtype",
    "as_rows",
    "gradient_of_activation",
    "needs_gradient",
    "or_zeros",
    "reshaped",
    "size_of",
    "sum_to_shape_of",
]


RELU6_LIMIT, HARD_SWISH_EDGE = 6.0, 3.0


class _NeedsGradient(ops.PrimitiveWithInfer):  # type: ignore[misc]
    """Says whether the gradient of a tensor may be wanted: in a graph always, a constant of it."""

    def __init__(self) -> None:
        super().__init__("needs_gradient")
        self.set_const_prim(True)
        self.add_prim_attr("constexpr_prim", True)

    def __call__(self, tensor: Tensor) -> bool:
        # Where MindSpore does not tell, zeros would be wrong, and a sum too many is only slow.
        return bool(getattr(tensor, "_requires_grad", True))

    def __infer__(self, tensor: dict[str, Any]) -> dict[str, Any]:
        return {"dtype": None, "shape": None, "value": True}

    def __deepcopy__(self, memo: dict[int, Any]) -> _NeedsGradient:
        return self


needs_gradient = _NeedsGradient()


class _Size(ops.PrimitiveWithInfer):  # type: ignore[misc]
    """Returns how many elements a tensor has: a constant of a graph, -1 where the graph is for any number of them."""

    def __init__(self) -> None:
        super().__init__("size_of")
        self.set_const_prim(True)
        self.add_prim_attr("constexpr_prim", True)

    def __call__(self, tensor: Tensor) -> int:
        return math.prod(tensor.shape)  # MindNLP makes a method of `size`

    def __infer__(self, tensor: dict[str, Any]) -> dict[str, Any]:
        sizes = tuple(tensor["shape"])
        size = -1 if any(size < 0 for size in sizes) else math.prod(sizes)
        return {"dtype": None, "shape": None, "value": size}

    def __deepcopy__(self, memo: dict[int, Any]) -> _Size:
        return self


size_of = _Size()


def or_zeros(result: Tensor, summed: Tensor) -> Tensor:
    """The result of a sum or product over elements of `summed`, or zeros if there are none.

    Stock operators of a CPU do not write their output then: it holds what was in memory before.
    """
    size = size_of(summed)
    if size > 0:
        return result
    if size == 0:
        return zeros_like(result)
    return ops.where(ops.prod(ops.TensorShape()(summed)) > 0, result, zeros_like(result))


def _broadcast_product(tensor: Tensor, factor: Tensor) -> Tensor:
    return (ops.broadcast_to(tensor, ops.shape(factor)) * factor).sum()


# MindSpore 2.10 reduces over no axis at all where it is given the axes of DynamicBroadcastGradientArgs and a dim is
# unknown; its own gradient of a broadcast is right there, too.
_broadcast_gradient = ms.grad(_broadcast_product, 0)


def sum_to_shape_of(values: Tensor, tensor: Tensor) -> Tensor:
    """The sums of float32 `values` over the dims in which `tensor` was broadcast to their shape, in its dtype."""
    sums = _broadcast_gradient(zeros_like(tensor).astype(ms.float32), values)
    return or_zeros(sums, values).astype(tensor.dtype)


def reshaped(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Stock MindSpore does not reshape bfloat16 in graphs on a CPU."""
    if tensor.dtype == ms.bfloat16:
        return tensor.astype(ms.float32).reshape(shape).astype(ms.bfloat16)
    return tensor.reshape(shape)


def as_dtype(tensor: Tensor, dtype: Any) -> Tensor:
    """A cast to the dtype that a tensor has already takes PyNative half a millisecond, too."""
    return tensor if tensor.dtype == dtype else tensor.astype(dtype)


def as_rows(tensor: Tensor) -> Tensor:
    """Reshape to one matrix."""
    if tensor.ndim == 2:
        return tensor
    rows = _rows(tensor.shape) if size_of(tensor) == 0 else -1  # which may be any number, of rows without elements
    return reshaped(tensor, (rows, tensor.shape[-1]))


@ms.constexpr  # type: ignore[untyped-decorator]
def _rows(shape: tuple[int, ...]) -> int:
    return math.prod(shape[:-1])


def gradient_of_activation(activation: str, before: Callable[..., Any]) -> Callable[..., Any]:
    """(x, weight, bias, out, dout) -> the gradient of what `activation` was applied to.

    `before(x, weight, bias)` computes that again where the output does not tell: keeping it would take as much memory
    as the output.
    """
    if activation == "none":
        return _same
    if activation == "relu":
        return _of_relu
    if activation == "relu6":
        return _of_relu6
    if activation == "hard_swish":

        def through_hard_swish(x, weight, bias, out, dout):  # type: ignore[no-untyped-def]
            return _of_hard_swish(before(x, weight, bias), dout)

        return through_hard_swish
    if activation == "silu":
        of_silu = kernel("silu_mul_grad")

        def through_silu(x, weight, bias, out, dout):  # type: ignore[no-untyped-def]
            z = before(x, weight, bias)
            return of_silu(dout, z, as_dtype(ones_like(as_dtype(z, ms.float32)), z.dtype))[0]

        return through_silu
    if activation not in ("gelu", "gelu_tanh"):
        raise ValueError(f"there is no activation {activation!r}")
    of_gelu = kernel("gelu_grad", approximate="tanh" if activation == "gelu_tanh" else "none")

    def through_gelu(x, weight, bias, out, dout):  # type: ignore[no-untyped-def]
        return of_gelu(dout, before(x, weight, bias))

    return through_gelu


def _same(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor, dout: Tensor) -> Tensor:
    return dout


def _of_relu(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor, dout: Tensor) -> Tensor:
    # In float32: stock operators have no bfloat16 here.
    passes = ops.select(as_dtype(out, ms.float32) > 0, 1.0, 0.0)
    return as_dtype(as_dtype(dout, ms.float32) * passes, dout.dtype)


def _of_relu6(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor, dout: Tensor) -> Tensor:
    wide = as_dtype(out, ms.float32)
    passes = ops.select(ops.logical_and(wide > 0, wide < RELU6_LIMIT), 1.0, 0.0)
    return as_dtype(as_dtype(dout, ms.float32) * passes, dout.dtype)


def _of_hard_swish(z: Tensor, dout: Tensor) -> Tensor:
    """x * relu6(x + 3) / 6 has the slope x / 3 + 1 / 2 between -3 and 3; 0 before that and 1 behind it."""
    wide = as_dtype(z, ms.float32)
    slope = ops.select(wide < HARD_SWISH_EDGE, wide / 3 + 0.5, 1.0)
    slope = ops.select(wide > -HARD_SWISH_EDGE, slope, 0.0)
    return as_dtype(as_dtype(dout, ms.float32) * slope, dout.dtype)
