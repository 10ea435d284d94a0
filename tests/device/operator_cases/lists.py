"""Operators on lists of tensors: what the operator of one tensor gives, for each of them; and the loss scale."""

import numpy as np

from tests.device.calls import Scalar
from tests.device.operator_cases import elementwise

SHAPES = ((3, 5), (4,))
_ONE = ("Abs", "Acos", "Asin", "Atan", "Cos", "Cosh", "Erf", "Erfc", "Exp", "Expm1", "Log", "Log10", "Log1p", "Log2")
_ONE += ("Neg", "Reciprocal", "Sigmoid", "Sign", "Sin", "Sinh", "Sqrt", "Tan", "Tanh")
_TWO = {
    "Div": np.divide, "Maximum": np.maximum, "Minimum": np.minimum, "Mul": np.multiply, "Pow": np.power,
}  # fmt: skip
_WITH_FACTOR = {"Add": lambda x, y, a=1: x + a * y, "Sub": lambda x, y, a=1: x - a * y}
_THREE = {"Addcdiv": lambda x, y, z, a: x + a * y / z, "Addcmul": lambda x, y, z, a: x + a * y * z}


def _unary(name):
    def made(draw):
        pairs = [elementwise.CASES[f"aclnn{name}"](draw) for _ in SHAPES]
        return [[x for (x,), _ in pairs]], [[y for _, (y,) in pairs]]

    return made


def _lists(function, count, *more):
    """`more`: an entry for all tensors, or a list of one for each; a number stands for what is given as a Scalar."""

    def made(draw):
        lists = [[draw.positive(*shape) for shape in SHAPES] for _ in range(count)]
        each = [one if isinstance(one, list) else [one] * len(SHAPES) for one in more]
        given = [one if isinstance(one, (list, np.ndarray)) else Scalar(one) for one in more]
        return [*lists, *given], [[function(*members) for members in zip(*lists, *each, strict=True)]]

    return made


def _cases():
    alpha, several = np.array([1.5], np.float32), [0.5, 2.0]
    cases = {name: _unary(name) for name in _ONE}
    cases["Copy"] = lambda draw: ([x := [draw(*shape) for shape in SHAPES]], [x])
    for name, function in _WITH_FACTOR.items():
        cases |= {f"{name}List": _lists(function, 2, alpha), f"{name}ListV2": _lists(function, 2, 1.5)}
    cases |= {f"{name}List": _lists(function, 2) for name, function in _TWO.items()}
    for count, functions in ((1, _TWO | _WITH_FACTOR), (3, _THREE)):
        for name, function in functions.items():
            cases[f"{name}Scalar"] = _lists(function, count, alpha)
            cases[f"{name}ScalarV2"] = _lists(function, count, 1.5)
            factors = np.array(several, np.float32) if count == 3 else several
            cases[f"{name}ScalarList"] = _each_its_own(function, count, factors)
    cases["LerpList"] = _lists(lambda x, y, w: x * (1 - w) + y * w, 3)
    cases["LerpScalar"] = _lists(lambda x, y, w: x * (1 - w) + y * w, 2, 0.25)
    cases["PowScalarAndTensor"] = lambda draw: (
        [Scalar(2.5), x := [draw(*s) for s in SHAPES]],
        [[2.5**one for one in x]],
    )
    cases["Norm"] = lambda draw: ([x := [draw(*s) for s in SHAPES], Scalar(2)], [[np.sum(one**2) ** 0.5 for one in x]])
    cases["ZeroInplace"] = lambda draw: ([[draw(*s) for s in SHAPES]], [[np.zeros(s) for s in SHAPES]])
    cases["NonFiniteCheckAndUnscale"] = _unscale
    return cases


def _each_its_own(function, count, factors):
    def made(draw):
        lists = [[draw.positive(*shape) for shape in SHAPES] for _ in range(count)]
        return [*lists, factors], [
            [function(*one) for one in zip(*lists, factors.tolist() if count == 3 else factors, strict=True)]
        ]

    return made


def _unscale(draw):
    grads = [draw(*shape) for shape in SHAPES]
    found, scale = np.zeros(1, np.float32), np.array([0.25], np.float32)
    return [grads, found, scale], [[0.25 * grad for grad in grads], found]


def _loss_scale(draw):
    scale, tracker, found = np.array([8], np.float32), np.array([4], np.int32), np.zeros(1, np.float32)
    return [scale, tracker, found, 2.0, 0.5, 5], [np.array([16], np.float32), np.array([0], np.int32)]


CASES = {f"aclnnForeach{name}": case for name, case in _cases().items()} | {"aclnnAmpUpdateScale": _loss_scale}
