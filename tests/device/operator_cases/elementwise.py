"""Operators whose elements do not meet each other."""

import math

import numpy as np

from tests.device.calls import Scalar
from tests.device.operator_cases import gradients

_each = np.vectorize
_erf, _erfc = _each(math.erf, otypes=[float]), _each(math.erfc, otypes=[float])
SHAPE = (3, 5)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _gelu(x):
    return x / 2 * (1 + _erf(x / math.sqrt(2)))


def _gelu_tanh(x):
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _elu(x, alpha=1.25, scale=1.5, inner=0.75):
    return scale * np.where(x > 0, x, alpha * (np.exp(inner * x) - 1))


def _selu(x):
    return _elu(x, 1.6732632423543772, 1.0507009873554805, 1)


def _softplus(x, beta=1.5):
    return np.log(1 + np.exp(beta * x)) / beta


def _hardswish(x):
    return x * np.clip(x + 3, 0, 6) / 6


_ANY = {
    "Abs": np.abs, "Asinh": np.arcsinh, "Atan": np.arctan, "Ceil": np.ceil, "Cos": np.cos, "Cosh": np.cosh, "Erf": _erf,
    "Erfc": _erfc, "Exp": np.exp, "Exp2": np.exp2, "Expm1": np.expm1, "Floor": np.floor, "Frac": lambda x: np.fmod(x, 1),
    "Gelu": _gelu_tanh, "Hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6, "Hardswish": _hardswish,
    "IsFinite": np.isfinite, "IsInf": np.isinf, "IsNegInf": np.isneginf, "IsPosInf": np.isposinf,
    "LogSigmoid": lambda x: np.log(_sigmoid(x)), "Mish": lambda x: x * np.tanh(_softplus(x, 1)),
    "Neg": lambda x: -x, "Reciprocal": lambda x: 1 / x, "Relu": lambda x: x * (x > 0), "Selu": _selu,
    "Round": np.rint, "Sigmoid": _sigmoid, "Sign": np.sign, "Signbit": lambda x: x < 0, "Silu": lambda x: x * _sigmoid(x), "Sin": np.sin,
    "Sinc": lambda x: np.sin(np.pi * x) / (np.pi * x), "Sinh": np.sinh, "Tan": np.tan, "Tanh": np.tanh, "Trunc": np.trunc,
}  # fmt: skip
_POSITIVE = {
    "Log": np.log, "Log10": np.log10, "Log1p": np.log1p, "Log2": np.log2, "Rsqrt": lambda x: x**-0.5, "Sqrt": np.sqrt,
}  # fmt: skip
_WITHIN_ONE = {"Acos": np.arccos, "Asin": np.arcsin, "Atanh": np.arctanh}
_COMPARISONS = {"Eq": np.equal, "Ne": np.not_equal, "Ge": np.greater_equal, "Gt": np.greater, "Le": np.less_equal}
_COMPARISONS["Lt"] = np.less
_BITS = {"And": np.bitwise_and, "Or": np.bitwise_or, "Xor": np.bitwise_xor}


def _floor_mod(x, y):
    return x - np.floor(x / y) * y


def _unary():
    cases = {name: lambda draw, f=f: ([x := draw(*SHAPE)], [f(x)]) for name, f in _ANY.items()}
    cases |= {name: lambda draw, f=f: ([x := draw.positive(*SHAPE)], [f(x)]) for name, f in _POSITIVE.items()}
    cases |= {
        name: lambda draw, f=f: ([x := draw(*SHAPE, low=-0.9, high=0.9)], [f(x)]) for name, f in _WITHIN_ONE.items()
    }
    cases["Acosh"] = lambda draw: ([x := draw(*SHAPE, low=1.1, high=4)], [np.arccosh(x)])
    cases["Erfinv"] = _erfinv
    return cases


def _erfinv(draw):
    x = draw(*SHAPE, low=-0.9, high=0.9)
    low, high = np.full(SHAPE, -3.0), np.full(SHAPE, 3.0)
    for _ in range(80):
        middle = (low + high) / 2
        below = _erf(middle) < x
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return [x], [low]


def _binary():
    def pair(draw):
        return draw(2, 3, 5), draw(3, 1)

    def case(function, second=None):
        def made(draw):
            x, y = pair(draw)
            y = y if second is None else second(draw)
            return [x, y], [function(x, y)]

        return made

    def scalar(function, value=0.75):
        return lambda draw: ([x := draw(*SHAPE), Scalar(value)], [function(x, value)])

    def positive(draw):
        return draw.positive(3, 1)

    cases = {
        "Atan2": case(np.arctan2),
        "Div": case(lambda x, y: x / y),
        "Maximum": case(lambda x, y: np.where(x > y, x, y)),
        "Minimum": case(lambda x, y: np.where(x < y, x, y)),
        "Mul": case(lambda x, y: x * y),
        "LogAddExp": case(lambda x, y: np.log(np.exp(x) + np.exp(y))),
        "LogAddExp2": case(lambda x, y: np.log2(2**x + 2**y)),
        "FloorDivide": case(lambda x, y: np.floor(x / y)),
        "FmodTensor": case(np.fmod),
        "RemainderTensorTensor": case(_floor_mod, positive),
        "XLogYTensor": case(lambda x, y: x * np.log(y), positive),
        "Divs": scalar(lambda x, y: x / y),
        "Muls": scalar(lambda x, y: x * y),
        "FloorDivides": scalar(lambda x, y: np.floor(x / y)),
        "FmodScalar": scalar(np.fmod),
        "RemainderTensorScalar": scalar(_floor_mod),
        "PowTensorScalar": lambda draw: ([x := draw.positive(*SHAPE), Scalar(2.5)], [x**2.5]),
        "PowScalarTensor": lambda draw: ([Scalar(2.5), x := draw(*SHAPE)], [2.5**x]),
        "PowTensorTensor": lambda draw: ([x := draw.positive(*SHAPE), y := draw(5)], [x**y]),
        "RemainderScalarTensor": lambda draw: ([Scalar(2.5), x := draw.positive(*SHAPE)], [_floor_mod(2.5, x)]),
        "XLogYScalarOther": lambda draw: ([x := draw(*SHAPE), Scalar(2.5)], [x * np.log(2.5)]),
        "XLogYScalarSelf": lambda draw: ([Scalar(2.5), x := draw.positive(*SHAPE)], [2.5 * np.log(x)]),
        "Polar": lambda draw: ([x := draw.positive(*SHAPE), y := draw(*SHAPE)], [_polar(x, y)]),
        "LogicalAnd": case(lambda x, y: (x != 0) & (y != 0)),
        "LogicalOr": case(lambda x, y: (x != 0) | (y != 0)),
        "LogicalXor": case(lambda x, y: (x != 0) ^ (y != 0)),
        "Gcd": lambda draw: ([x := draw.integers(60, 4, low=1), y := draw.integers(60, 4, low=1)], [_each(math.gcd)(x, y)]),
        "LeftShift": lambda draw: ([x := draw.integers(9, 4), y := draw.integers(5, 4)], [x * 2**y]),
        "BitwiseNot": lambda draw: ([x := draw.integers(9, 4)], [-1 - x]),
    }  # fmt: skip
    cases["LogicalNot"] = _logical_not
    for name, sign in (("Add", 1), ("Sub", -1)):
        cases[name] = lambda draw, s=sign: ([x := draw(2, 3, 5), y := draw(3, 1), Scalar(1.5)], [x + s * 1.5 * y])
        cases[f"{name}s"] = lambda draw, s=sign: ([x := draw(*SHAPE), Scalar(0.75), Scalar(1.5)], [x + s * 1.5 * 0.75])
    cases["Rsub"] = lambda draw: ([x := draw(2, 3, 5), y := draw(3, 1), Scalar(1.5)], [y - 1.5 * x])
    cases["Rsubs"] = lambda draw: ([x := draw(*SHAPE), Scalar(0.75), Scalar(1.5)], [0.75 - 1.5 * x])
    cases["AddRelu"] = lambda draw: ([x := draw(2, 3, 5), y := draw(3, 1), Scalar(1.5)], [np.clip(x + 1.5 * y, 0, 99)])
    cases["DivMod"] = lambda draw: ([x := draw(2, 3, 5), y := draw(3, 1), 1], [np.trunc(x / y)])
    cases["DivMods"] = lambda draw: ([x := draw(*SHAPE), Scalar(0.75), 1], [np.trunc(x / 0.75)])
    for name, function in _COMPARISONS.items():
        cases[f"{name}Tensor"] = lambda draw, f=function: (
            [x := np.round(draw(4, 6)), y := np.round(draw(6))],
            [f(x, y)],
        )
        cases[f"{name}Scalar"] = lambda draw, f=function: ([x := np.round(draw(4, 6)), Scalar(1.0)], [f(x, 1)])
    for name, function in _BITS.items():
        cases[f"Bitwise{name}Tensor"] = lambda draw, f=function: (
            [x := draw.integers(99, 4, 3), y := draw.integers(99, 3)],
            [f(x, y)],
        )
        cases[f"Bitwise{name}Scalar"] = lambda draw, f=function: (
            [x := draw.integers(99, 4), Scalar(37, "int64")],
            [f(x, 37)],
        )
    return cases


def _logical_not(draw):
    x = draw.booleans(*SHAPE)
    return [x], [x == False]  # noqa: E712


def _polar(length, angle):
    return (length * np.cos(angle) + 1j * length * np.sin(angle)).astype(np.complex64)


def _several():
    def three(draw):
        return draw(3, 5), draw(5), draw.positive(3, 1)

    def lerp(draw):
        x, y, w = three(draw)
        return [x, y, w], [x * (1 - w) + y * w]

    def where(draw):
        condition, x, y = draw.booleans(3, 1), draw(3, 5), draw(5)
        return [condition, x, y], [x * condition + y * ~condition]

    def prelu(draw):
        x, weight = draw(2, 3, 4), draw(3)
        return [x, weight], [np.where(x > 0, x, x * weight[:, None])]

    def clip(draw):
        x = draw(*SHAPE)
        return [x, Scalar(-0.5), Scalar(0.75)], [np.minimum(np.maximum(x, -0.5), 0.75)]

    def threshold(draw):
        x = draw(*SHAPE)
        return [x, Scalar(0.25), Scalar(-3.0)], [x * (x > 0.25) - 3 * (x <= 0.25)]

    def close(draw):
        x = draw(*SHAPE)
        y = x + np.where(draw.booleans(*SHAPE), 1, 0)
        return [x, y, 1e-3, 1e-3, False], [abs(x - y) <= 1e-3 + 1e-3 * abs(y)]

    return {
        "Addcmul": lambda draw: ([*(t := three(draw)), Scalar(0.5)], [t[0] + 0.5 * t[1] * t[2]]),
        "Addcdiv": lambda draw: ([*(t := three(draw)), Scalar(0.5)], [t[0] + 0.5 * t[1] / t[2]]),
        "Lerp": lerp,
        "Lerps": lambda draw: ([x := draw(3, 5), y := draw(5), Scalar(0.25)], [x * 0.75 + y * 0.25]),
        "SWhere": where,
        "SelectV2": where,
        "Clamp": clip,
        "Hardtanh": clip,
        "Celu": lambda draw: ([x := draw(*SHAPE), Scalar(1.5)], [_elu(x, 1.5, 1, 1 / 1.5)]),
        "ClampMax": lambda draw: ([x := draw(*SHAPE), Scalar(0.5)], [np.where(x > 0.5, 0.5, x)]),
        "ClampMaxTensor": lambda draw: ([x := draw(*SHAPE), y := draw(5)], [np.where(x > y, y, x)]),
        "ClampMinTensor": lambda draw: ([x := draw(*SHAPE), y := draw(5)], [np.where(x < y, y, x)]),
        "ClampMin": lambda draw: ([x := draw(*SHAPE), Scalar(0.5)], [np.where(x < 0.5, 0.5, x)]),
        "ClampTensor": lambda draw: ([x := draw(3, 5), y := draw(5) - 1, z := y + 1.5], [np.minimum(np.maximum(x, y), z)]),
        "Equal": lambda draw: ([x := draw(*SHAPE), x.copy()], [np.array([True])]),
        "IsClose": close,
        "NanToNum": lambda draw: ([np.array([np.nan, np.inf, -np.inf, 1.5]), 1.0, 2.0, -3.0], [np.array([1.0, 2.0, -3.0, 1.5])]),
        "RoundDecimals": lambda draw: ([x := draw(*SHAPE, low=-50, high=50), 0], [np.rint(x)]),
        "GeluV2": lambda draw: ([x := draw(*SHAPE), 0], [_gelu(x)]),
        "Threshold": threshold,
        "LeakyRelu": lambda draw: ([x := draw(*SHAPE), Scalar(0.25)], [np.maximum(x, 0) + 0.25 * np.minimum(x, 0)]),
        "Elu": lambda draw: ([x := draw(*SHAPE), Scalar(1.25), Scalar(1.5), Scalar(0.75)], [_elu(x)]),
        "Softplus": lambda draw: ([x := draw(*SHAPE), Scalar(1.5), Scalar(20.0)], [_softplus(x)]),
        "Hardshrink": lambda draw: ([x := draw(*SHAPE), Scalar(0.5)], [x * (abs(x) > 0.5)]),
        "Softshrink": lambda draw: ([x := draw(*SHAPE), Scalar(0.5)], [x - np.clip(x, -0.5, 0.5)]),
        "LogSigmoidForward": lambda draw: ([x := draw(*SHAPE)], [np.log(_sigmoid(x)), None]),
        "Prelu": prelu,
        "Copy": lambda draw: ([draw(2, 5), x := draw(5)], [np.stack([x, x])]),
        "Cast": lambda draw: ([x := draw(*SHAPE, low=-50, high=50)], [np.trunc(x).astype(np.int32)]),
    }  # fmt: skip


def _gradient_cases():
    def backward(function, *more, result=False):
        """`result`: the second input is that of the forward function."""

        def made(draw):
            dy, x = draw(*SHAPE), draw(*SHAPE)
            if result:  # rounded first: the gradient is that at the place where the result is this one
                y = draw(*SHAPE, low=0.1, high=0.9)
                return [dy, y, *more], [dy * function(y)]
            return [dy, x, *more], [gradients(function, [x], dy)[0]]

        return made

    def elu(draw):
        dy, x = draw(*SHAPE), draw(*SHAPE)
        return [dy, Scalar(1.25), Scalar(1.5), Scalar(0.75), False, x], gradients(_elu, [x], dy)

    def prelu(draw):
        dy, x, weight = draw(2, 3, 4), draw(2, 3, 4), draw(3)
        return [dy, x, weight], gradients(lambda x, w: np.where(x > 0, x, x * w[:, None]), [x, weight], dy)

    return {
        "SigmoidBackward": backward(lambda y: y * (1 - y), result=True),
        "TanhBackward": backward(lambda y: 1 - y**2, result=True),
        "SeluBackward": backward(lambda y: np.full(SHAPE, 1.0507009873554805), result=True),
        "SiluBackward": backward(_ANY["Silu"]),
        "MishBackward": backward(_ANY["Mish"]),
        "GeluBackward": backward(_gelu_tanh),
        "GeluBackwardV2": backward(_gelu, "none"),
        "ThresholdBackward": backward(lambda x: np.where(x > 0.25, x, 0.25), Scalar(0.25)),
        "LeakyReluBackward": backward(lambda x: np.where(x > 0, x, 0.25 * x), Scalar(0.25), False),
        "EluBackward": elu,
        "SoftplusBackward": backward(_softplus, Scalar(1.5), Scalar(20.0)),
        "HardtanhBackward": backward(lambda x: np.clip(x, -0.5, 0.75), Scalar(-0.5), Scalar(0.75)),
        "HardsigmoidBackward": backward(lambda x: np.clip(x + 3, 0, 6) / 6),
        "HardswishBackward": backward(_hardswish),
        "HardshrinkBackward": backward(lambda x: x * (abs(x) > 0.5), Scalar(0.5)),
        "SoftshrinkBackward": backward(lambda x: x - np.clip(x, -0.5, 0.5), Scalar(0.5)),
        "LogSigmoidBackward": backward(lambda x: np.log(_sigmoid(x)), None),
        "PreluBackward": prelu,
    }


_FORWARD = _unary() | _binary() | _several()
# A function that changes its first tensor has the same inputs.
_NAMED = _FORWARD | {f"Inplace{name}": case for name, case in _FORWARD.items()} | _gradient_cases()
CASES = {f"aclnn{name}": case for name, case in _NAMED.items()}
