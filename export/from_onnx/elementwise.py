"""Writes operators that compute each element by itself, or of two."""

from __future__ import annotations

import numpy as np
from ms_ascend_ops.export.from_onnx.graph import Graph
from ms_ascend_ops.export.from_onnx.node import DTYPES, Node, Writer

__all__ = ["OPERATORS"]


def _call(text: str) -> Writer:
    """Write a call: `x` stands for the first input, `y` for the second."""
    return lambda n: text.format(x=n[0], y=n[1] if n.has(1) else "")


def _folded(text: str) -> Writer:
    """Write an operator of any number of inputs, two by two."""

    def write(n: Node) -> str:
        first, *rest = n.inputs
        for other in rest:
            first = text.format(x=first, y=other)
        return first

    return write


def _div(n: Node) -> str:
    if "int" in n.dtype(0):
        return f"_quotient({n[0]}, {n[1]})"
    function = "ops.div" if _is_never_zero(n.graph, n.names[1]) else "_divided"
    return f"{function}({n[0]}, {n[1]})"


# Networks divide by the results of these: patterns know ops.div, and none of these is -0.0 but by underflow.
_DIVISORS = {"Exp", "ReduceL1", "ReduceL2", "ReduceSum", "ReduceSumSquare", "Sigmoid", "Softmax", "Softplus", "Sqrt"}


def _is_never_zero(graph: Graph, name: str) -> bool:
    """Tell whether a divisor is a constant without zeros, a value with one added, or a sum or root of a norm."""
    if name in graph.constants:
        return bool(np.all(graph.constants[name]))
    node = next((node for node in graph.nodes if name in node.output), None)
    if node is None:
        return False
    if node.op_type in ("Add", "Clip", "Max"):
        return any(other in graph.constants and np.all(graph.constants[other]) for other in node.input if other)
    if node.op_type in ("Cast", "Expand", "Identity", "Reshape", "Transpose", "Unsqueeze"):
        return _is_never_zero(graph, node.input[0])
    return node.op_type in _DIVISORS


def _mod(n: Node) -> str:
    if "float" in n.dtype(0):
        n.wants(fmod=(1,))
    return f"ops.{'fmod' if n.attribute('fmod', 0) else 'floor_mod'}({n[0]}, {n[1]})"


def _pow(n: Node) -> str:
    """Write a power, which has the dtype of its base."""
    base, exponent = n.dtype(0), n.dtype(1)
    if base == exponent:
        return f"ops.pow({n[0]}, {n[1]})"
    if "int" in base and "int" not in exponent:
        wide = "float64" if "64" in base + exponent else "float32"
        return f"ops.trunc(ops.pow({n[0]}.astype(ms.{wide}), {n[1]}.astype(ms.{wide}))).astype(ms.{base})"
    return f"ops.pow({n[0]}, {n[1]}.astype(ms.{base}))"


def _dropout(n: Node) -> str:
    n.only_output()
    if n.has(2) and n.constant(2).item():
        raise n.refuse("training_mode must be False")
    return n[0]


def _mean(n: Node) -> str:
    return f"ops.div({_folded('ops.add({x}, {y})')(n)}, {float(len(n.inputs))})"


def _cast(n: Node) -> str:
    to = n.attribute("to") if n.node.op_type == "Cast" else n.graph.dtype(n.names[1])
    if to not in DTYPES:
        raise n.refuse(f"the dtype with number {to} is not supported")
    if "float" in DTYPES[to] or "float" not in n.dtype(0):
        return f"{n[0]}.astype(ms.{DTYPES[to]})"
    if DTYPES[to] == "bool_":
        return f"ops.ne({n[0]}, 0)"
    return f"ops.trunc({n[0]}).astype(ms.{DTYPES[to]})"


def _clip(n: Node) -> str:
    bounds = [n.attribute("min"), n.attribute("max")]
    result = n[0]
    for index, function in ((1, "maximum"), (2, "minimum")):
        bound = n[index] if n.has(index) else None
        if bound is None and bounds[index - 1] is not None:
            bound = n.scalar(bounds[index - 1])
        if bound is not None:
            result = f"{_name(n, function)}({result}, {bound})"
    return result


# MindSpore's own take the other number where one is NaN.
_EXTREMES = {"maximum": "_maximum", "minimum": "_minimum"}


def _name(n: Node, function: str) -> str:
    return _EXTREMES[function] if "float" in n.dtype(0) else f"ops.{function}"


def _extreme(function: str) -> Writer:
    """Write an operator of any number of inputs."""

    def write(n: Node) -> str:
        return _folded(f"{_name(n, function)}({{x}}, {{y}})")(n)

    return write


def _gelu(n: Node) -> str:
    n.wants(approximate=("none", "tanh"))
    return f"ops.gelu({n[0]}, approximate={n.attribute('approximate', 'none')!r})"


def _leaky_relu(n: Node) -> str:
    return f"ops.where({n[0]} > 0, {n[0]}, {n[0]} * {n.scalar(n.attribute('alpha', 0.01))})"


def _elu(n: Node) -> str:
    alpha, gamma = n.attribute("alpha", 1.0), 1.0
    if n.node.op_type == "Selu":
        alpha, gamma = n.attribute("alpha", 1.67326319217681884765625), n.attribute("gamma", 1.05070102214813232421875)
    grown = f"ops.exp(_minimum({n[0]}, 0.0)) - 1.0"
    return f"ops.where({n[0]} > 0, {n[0]}, ({grown}) * {n.scalar(alpha)}) * {n.scalar(gamma)}"


def _hard_sigmoid(n: Node) -> str:
    alpha, beta = n.scalar(n.attribute("alpha", 0.2)), n.scalar(n.attribute("beta", 0.5))
    return f"_minimum(_maximum({n[0]} * {alpha} + {beta}, 0.0), 1.0)"


OPERATORS: dict[str, Writer] = {
    **{
        name: _call(f"ops.{function}({{x}})")
        for name, function in {
            "Abs": "abs",
            "Ceil": "ceil",
            "Cos": "cos",
            "Erf": "erf",
            "Exp": "exp",
            "Floor": "floor",
            "IsNaN": "isnan",
            "Log": "log",
            "Neg": "neg",
            "Not": "logical_not",
            "Reciprocal": "reciprocal",
            "Relu": "relu",
            "Round": "round",
            "Sigmoid": "sigmoid",
            "Sign": "sign",
            "Sin": "sin",
            "Sqrt": "sqrt",
            "Tanh": "tanh",
        }.items()
    },
    **{
        name: _call(f"ops.{function}({{x}}, {{y}})")
        for name, function in {
            "Add": "add",
            "And": "logical_and",
            "Equal": "equal",
            "Greater": "greater",
            "GreaterOrEqual": "ge",
            "Less": "less",
            "LessOrEqual": "le",
            "MatMul": "matmul",
            "Mul": "mul",
            "Or": "logical_or",
            "Sub": "sub",
            "Xor": "logical_xor",
        }.items()
    },
    "Cast": _cast,
    "CastLike": _cast,
    "Clip": _clip,
    "Div": _div,
    "Dropout": _dropout,
    "Elu": _elu,
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": lambda n: f"{n[0]} * _minimum(_maximum({n[0]} * {1 / 6!r} + 0.5, 0.0), 1.0)",
    "Identity": _call("{x}"),
    "LeakyRelu": _leaky_relu,
    "Max": _extreme("maximum"),
    "Mean": _mean,
    "Mish": _call("ops.mul({x}, ops.tanh(_softplus({x})))"),
    "Min": _extreme("minimum"),
    "Mod": _mod,
    "PRelu": lambda n: f"ops.where({n[0]} > 0, {n[0]}, {n[0]} * {n[1]})",
    "Pow": _pow,
    "Selu": _elu,
    "Softplus": _call("_softplus({x})"),
    "Softsign": lambda n: f"ops.div({n[0]}, 1.0 + ops.abs({n[0]}))",
    "Sum": _folded("ops.add({x}, {y})"),
    "Where": lambda n: f"ops.where({n[0]}, {n[1]}, {n[2]})",
}
