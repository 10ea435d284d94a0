"""Computes element-wise operators, and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ms_ascend_ops.device.operators.memory import Array
from ms_ascend_ops.device.operators.special import erf, erfc, erfinv

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805
_SQRT_2_OVER_PI = 0.7978845608028654
_GELU_CUBE = 0.044715


def add(self: Array, other: Any, alpha: Any = 1) -> Array:
    return _plus(self, other if alpha == 1 else np.multiply(other, alpha))


def sub(self: Array, other: Any, alpha: Any = 1) -> Array:
    return self - (other if alpha == 1 else np.multiply(other, alpha))


def rsub(self: Any, other: Any, alpha: Any = 1) -> Array:
    return other - (self if alpha == 1 else np.multiply(self, alpha))


def add_relu(self: Array, other: Array, alpha: Any) -> Array:
    return np.maximum(add(self, other, alpha), 0)


def _plus(one: Any, other: Any) -> Array:
    return np.asarray(one + other)


def div_mod(self: Array, other: Any, mode: int) -> Array:
    """Divide. Mode 0: the quotient, 1: rounded towards zero, 2: towards minus infinity."""
    if mode == 0:
        return np.true_divide(self, other)
    if mode == 2:
        return floor_divide(self, other)
    if np.result_type(self, other).kind in "iu":
        return self // other + ((self % other != 0) & ((self < 0) != (np.asarray(other) < 0)))
    return np.trunc(self / other)


def floor_divide(self: Any, other: Any) -> Array:
    return np.floor_divide(self, other)


def power(self: Any, exponent: Any) -> Array:
    if np.result_type(self, exponent).kind in "iu" and np.min(exponent, initial=0) < 0:
        return np.power(np.asarray(self, np.float64), exponent)
    return np.power(self, exponent)


def addcmul(self: Array, tensor1: Array, tensor2: Array, value: Any) -> Array:
    return self + value * tensor1 * tensor2


def addcdiv(self: Array, tensor1: Array, tensor2: Array, value: Any) -> Array:
    return self + value * tensor1 / tensor2


def lerp(self: Array, end: Array, weight: Any) -> Array:
    return self + weight * (end - self)


def clamp(self: Array, smallest: Any, largest: Any) -> Array:
    return np.clip(self, smallest, largest) if smallest is not None or largest is not None else self


def clamp_min(self: Array, smallest: Any) -> Array:
    return np.maximum(self, smallest)


def clamp_max(self: Array, largest: Any) -> Array:
    return np.minimum(self, largest)


def where(condition: Array, self: Array, other: Array) -> Array:
    return np.where(condition.astype(bool), self, other)


def xlogy(self: Any, other: Any) -> Array:
    self, other = np.broadcast_arrays(self, other)
    return np.where((self == 0) & ~np.isnan(other), 0, self * np.log(np.where(self == 0, 1, other)))


def round_decimals(self: Array, decimals: int = 0) -> Array:
    return np.round(self, decimals)


def nan_to_num(self: Array, nan: float, posinf: float, neginf: float) -> Array:
    return np.nan_to_num(self, nan=nan, posinf=posinf, neginf=neginf)


def is_close(self: Array, other: Array, rtol: float, atol: float, equal_nan: bool) -> Array:
    return np.isclose(self, other, rtol, atol, equal_nan)


def equal(self: Array, other: Array) -> bool:
    return np.array_equal(self, other)


def sigmoid(self: Array) -> Array:
    return 0.5 * (1 + np.tanh(0.5 * self))


def sigmoid_backward(grad: Array, output: Array) -> Array:
    return grad * output * (1 - output)


def tanh_backward(grad: Array, output: Array) -> Array:
    return grad * (1 - output * output)


def silu(self: Array) -> Array:
    return self * sigmoid(self)


def silu_backward(grad: Array, self: Array) -> Array:
    gate = sigmoid(self)
    return grad * gate * (1 + self * (1 - gate))


def mish(self: Array) -> Array:
    return self * np.tanh(np.logaddexp(0, self))


def mish_backward(grad: Array, self: Array) -> Array:
    inner = np.tanh(np.logaddexp(0, self))
    return grad * (inner + self * (1 - inner * inner) * sigmoid(self))


def gelu(self: Array) -> Array:
    return 0.5 * self * (1 + erf(self * np.sqrt(0.5)))


def gelu_tanh(self: Array) -> Array:
    return 0.5 * self * (1 + np.tanh(_SQRT_2_OVER_PI * (self + _GELU_CUBE * self**3)))


def gelu_backward(grad: Array, self: Array) -> Array:
    density = np.exp(-0.5 * self * self) / np.sqrt(2 * np.pi)
    return grad * (0.5 * (1 + erf(self * np.sqrt(0.5))) + self * density)


def gelu_tanh_backward(grad: Array, self: Array) -> Array:
    inner = np.tanh(_SQRT_2_OVER_PI * (self + _GELU_CUBE * self**3))
    slope = _SQRT_2_OVER_PI * (1 + 3 * _GELU_CUBE * self * self)
    return grad * (0.5 * (1 + inner) + 0.5 * self * (1 - inner * inner) * slope)


def gelu_v2(self: Array, approximate: int) -> Array:
    return gelu_tanh(self) if approximate else gelu(self)


def gelu_backward_v2(grad: Array, self: Array, approximate: str) -> Array:
    return gelu_tanh_backward(grad, self) if approximate == "tanh" else gelu_backward(grad, self)


def threshold(self: Array, limit: Any, value: Any) -> Array:
    return np.where(self > limit, self, value)


def threshold_backward(grad: Array, self: Array, limit: Any) -> Array:
    return np.where(self > limit, grad, 0)


def leaky_relu(self: Array, slope: Any) -> Array:
    return np.where(self > 0, self, self * slope)


def leaky_relu_backward(grad: Array, self: Array, slope: Any, _is_result: bool) -> Array:
    return np.where(self > 0, grad, grad * slope)


def elu(self: Array, alpha: Any, scale: Any, input_scale: Any) -> Array:
    return scale * np.where(self > 0, self, alpha * np.expm1(input_scale * self))


def elu_backward(grad: Array, alpha: Any, scale: Any, input_scale: Any, is_result: bool, given: Array) -> Array:
    negative = input_scale * (given + alpha * scale if is_result else scale * alpha * np.exp(input_scale * given))
    return grad * np.where(given > 0, scale, negative)


def celu(self: Array, alpha: Any) -> Array:
    return np.where(self > 0, self, alpha * np.expm1(self / alpha))


def selu(self: Array) -> Array:
    return elu(self, _SELU_ALPHA, _SELU_SCALE, 1)


def selu_backward(grad: Array, result: Array) -> Array:
    return elu_backward(grad, _SELU_ALPHA, _SELU_SCALE, 1, True, result)


def softplus(self: Array, beta: Any, limit: Any) -> Array:
    return np.where(self * beta > limit, self, np.logaddexp(0, self * beta) / beta)


def softplus_backward(grad: Array, self: Array, beta: Any, limit: Any) -> Array:
    return np.where(self * beta > limit, grad, grad * sigmoid(self * beta))


def hardtanh_backward(grad: Array, self: Array, smallest: Any, largest: Any) -> Array:
    return np.where((self > smallest) & (self < largest), grad, 0)


def hardsigmoid(self: Array) -> Array:
    return np.clip(self / 6 + 0.5, 0, 1)


def hardsigmoid_backward(grad: Array, self: Array) -> Array:
    return np.where(np.abs(self) < 3, grad / 6, 0)


def hardswish(self: Array) -> Array:
    return self * hardsigmoid(self)


def hardswish_backward(grad: Array, self: Array) -> Array:
    return grad * np.where(self < -3, 0, np.where(self <= 3, self / 3 + 0.5, 1))


def hardshrink(self: Array, lambd: Any) -> Array:
    return np.where(np.abs(self) > lambd, self, 0)


def hardshrink_backward(grad: Array, self: Array, lambd: Any) -> Array:
    return np.where(np.abs(self) > lambd, grad, 0)


def softshrink(self: Array, lambd: Any) -> Array:
    return np.sign(self) * np.maximum(np.abs(self) - lambd, 0)


def log_sigmoid_forward(self: Array) -> tuple[Array, None]:
    """Compute log_sigmoid.

    The second output is a buffer of CANN's own for the gradient, which takes the input again.
    """
    return log_sigmoid(self), None


def log_sigmoid(self: Array) -> Array:
    return -np.logaddexp(0, -self)


def log_sigmoid_backward(grad: Array, self: Array, _buffer: Array | None) -> Array:
    return grad * sigmoid(-self)


def prelu(self: Array, weight: Array) -> Array:
    return np.where(self > 0, self, self * _by_channel(weight, self.ndim))


def prelu_backward(grad: Array, self: Array, weight: Array) -> tuple[Array, Array]:
    by_weight = np.where(self > 0, 0, grad * self)
    axes = tuple(axis for axis in range(self.ndim) if weight.size == 1 or axis != min(1, self.ndim - 1))
    return np.where(self > 0, grad, grad * _by_channel(weight, self.ndim)), by_weight.sum(axes).reshape(weight.shape)


def _by_channel(weight: Array, rank: int) -> Array:
    return weight.reshape(-1, *[1] * (rank - 2)) if weight.size > 1 and rank > 1 else weight


def polar(length: Array, angle: Array) -> Array:
    return length * np.exp(1j * angle)


# By the names that the table has.
OPERATORS: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "bitwise_and": np.bitwise_and,
    "bitwise_not": np.invert,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "ceil": np.ceil,
    "copy_into": lambda _self, source: source,
    "cos": np.cos,
    "cosh": np.cosh,
    "div": np.true_divide,
    "eq": np.equal,
    "erf": erf,
    "erfc": erfc,
    "erfinv": erfinv,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "floor": np.floor,
    "fmod": np.fmod,
    "frac": lambda self: self - np.trunc(self),
    "gcd": np.gcd,
    "ge": np.greater_equal,
    "gt": np.greater,
    "is_finite": np.isfinite,
    "is_inf": np.isinf,
    "is_neg_inf": np.isneginf,
    "is_pos_inf": np.isposinf,
    "le": np.less_equal,
    "left_shift": np.left_shift,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "log_add_exp": np.logaddexp,
    "log_add_exp2": np.logaddexp2,
    "logical_and": np.logical_and,
    "logical_not": np.logical_not,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "lt": np.less,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "mul": np.multiply,
    "ne": np.not_equal,
    "neg": np.negative,
    "reciprocal": lambda self: 1 / self,
    "rint": np.rint,
    "relu": lambda self: np.maximum(self, 0),
    "remainder": np.remainder,
    "rsqrt": lambda self: 1 / np.sqrt(self),
    "sign": np.sign,
    "signbit": np.signbit,
    "sin": np.sin,
    "sinc": np.sinc,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}
