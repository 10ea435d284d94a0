"""Reads MindSpore's primitives in a common form: what a pattern sees of a graph.

`x.pow(2)`, `x * x` and `Square(x)` are one expression, so are `a / sqrt(v)`, `a * rsqrt(v)` and
`a * (1 / sqrt(v))`, and the halves of a tensor however they were taken. An activation commutes with a reshape and a
transpose: it is always behind them here, applied to a value that the graph does not have (`Expr.via`).

A row of `_PRIMITIVES` says what a primitive computes; a name that has no row stays an expression that no pattern knows.
Equivalent forms are put together here, in parts.py, arithmetic.py, convolution.py and rotations.py, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ms_ascend_ops.export.graphs.graph import CALL, CONSTANT, Node
from ms_ascend_ops.export.graphs.sizes import permutation, transposed
from ms_ascend_ops.export.matching.arguments import from_end, rank_of, value_of
from ms_ascend_ops.export.matching.arithmetic import simplified
from ms_ascend_ops.export.matching.convolution import of_mint, of_primitive
from ms_ascend_ops.export.matching.expr import Expr, known_number, number
from ms_ascend_ops.export.matching.parts import PARTS, with_kept_axis
from ms_ascend_ops.export.matching.rotations import rotated_by

__all__ = ["Expressions"]


_Build = Callable[["Expressions", Node, "list[Expr]"], "Expr | None"]


class Expressions:
    """Makes the expressions of a graph's nodes, each once: the same node is the same expression."""

    def __init__(self) -> None:
        self._known: dict[int, Expr] = {}
        self._moved: dict[tuple[int, int], Expr] = {}

    def __call__(self, node: Node) -> Expr:
        stack = [node]
        while stack:  # no recursion: a chain of nodes may be long
            top = stack[-1]
            missing = [i for i in top.inputs if id(i) not in self._known]
            if missing and id(top) not in self._known:
                stack.extend(missing)
                continue
            stack.pop()
            if id(top) not in self._known:
                self._known[id(top)] = self._make(top)
        return self._known[id(node)]

    def behind(self, op: str, expr: Expr, attributes: dict[str, Any], node: Node) -> Expr:
        """Return a reshape or transpose of an expression: of an activation, the activation of what it is applied to."""
        if expr.op in _ACTIVATIONS and len(expr.inputs) == 1:
            return Expr(expr.op, (self._through(op, expr.inputs[0], attributes, node),), expr.attributes, node)
        if expr.op == "mul" and (x := _gate_of_silu(expr)) is not None:
            return _replaced(expr, x, self._through(op, x, attributes, node), node)
        return Expr(op, (expr,), attributes, node)

    def _through(self, op: str, x: Expr, attributes: dict[str, Any], node: Node) -> Expr:
        key = id(x), id(node)
        if key not in self._moved:
            self._moved[key] = Expr(op, (x,), attributes, via=node)
        return self._moved[key]

    def _make(self, node: Node) -> Expr:
        if node.kind == CONSTANT and not node.name and node.attributes.get("filled") is not None:
            return Expr("filled", attributes={"value": node.attributes["filled"]}, node=node)
        if node.kind == CONSTANT:
            return Expr("constant", attributes={"value": node.value}, node=node)
        inputs = [self._known[id(i)] for i in node.inputs]
        build = _PRIMITIVES.get(node.kind) or _PRIMITIVES.get(node.kind.removesuffix("View"))
        try:
            made = build(self, node, inputs) if build else None
        except (IndexError, KeyError, TypeError, ValueError):  # a file is input from outside: texts for numbers, say
            made = None
        if made is None:
            return Expr(node.kind if not node.inputs else f"other:{node.kind}", tuple(inputs), node=node)
        return made


_ACTIVATIONS = frozenset({"silu", "gelu", "relu", "sigmoid"})


def _gate_of_silu(expr: Expr) -> Expr | None:
    """Return x of `x * sigmoid(x)`; None of anything else, and where x is not in the graph."""
    for x, other in (expr.inputs, expr.inputs[::-1]):
        if other.op == "sigmoid" and other.inputs[0] is x and x.node is not None:
            return x
    return None


def _replaced(expr: Expr, old: Expr, new: Expr, node: Node | None = None) -> Expr:
    """Return an expression of `new` in the place of `old`."""
    if expr is old:
        return new
    if expr.op == "constant":
        return expr
    inputs = tuple(_replaced(i, old, new) for i in expr.inputs)
    return Expr(expr.op, inputs, expr.attributes, node)


def _filled(value: float) -> _Build:
    return lambda _, node, inputs: Expr("filled", (), {"value": value}, node)


def _elementwise(op: str) -> _Build:
    return lambda _, node, inputs: Expr(op, tuple(inputs[:1]), node=node)


def _binary(op: str) -> _Build:
    def build(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
        if len(inputs) > 2 and number(inputs[2]) != 1:  # AddExt, SubExt: a + alpha * b
            return None
        return simplified(op, (inputs[0], inputs[1]), node)

    return build


def _pow(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    power = number(inputs[1])
    ops = {2.0: "square", 0.5: "sqrt", -0.5: "rsqrt", 3.0: "cube", -1.0: "reciprocal"}
    return Expr(ops[power], (inputs[0],), node=node) if power in ops else None


def _reciprocal(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    return simplified("div", (known_number(1.0), inputs[0]), node)


def _sqrt(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    value = number(inputs[0])
    if value is not None and value >= 0:
        return Expr("constant", attributes={"value": value**0.5}, node=node)
    return Expr("sqrt", (inputs[0],), node=node)


def _reduction(op: str) -> _Build:
    def build(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
        axes = value_of(node, inputs, 1, "axis")
        rank = rank_of(inputs[0])
        axis = axes if isinstance(axes, (tuple, list)) and len(axes) > 1 else from_end(axes, rank)
        keep = bool(value_of(node, inputs, 2, "keep_dims", False))
        return Expr(op, (inputs[0],), {"axis": axis, "keep_dims": keep}, node)

    return build


def _variance(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    """Read Var(x, axis, correction, keepdim): correction 0 divides by n."""
    return Expr(
        "variance",
        (inputs[0],),
        {
            "axis": from_end(value_of(node, inputs, 1, "axis"), rank_of(inputs[0])),
            "correction": value_of(node, inputs, 2, "correction", 1),
            "keep_dims": bool(value_of(node, inputs, 3, "keep_dims", False)),
        },
        node,
    )


def _cast(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    if node.dtype and node.dtype == inputs[0].dtype:
        return inputs[0]
    return Expr("cast", (inputs[0],), node=node)


def _gelu(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    approximate = "tanh"  # GeLU, and FastGeLU is another primitive
    if node.kind == "GeluExt":
        approximate = {0: "none", 1: "tanh"}.get(choice := value_of(node, inputs, 1, "approximate", 0), choice)
    return Expr("gelu", (inputs[0],), {"approximate": approximate}, node)


def _softmax(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    return Expr(
        "softmax", (inputs[0],), {"axis": from_end(value_of(node, inputs, 1, "axis", -1), rank_of(inputs[0]))}, node
    )


def _layer_norm(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    rank = rank_of(inputs[0])
    if node.kind == "LayerNormExt":  # x, normalized_shape, gamma, beta, epsilon
        axes = len(shape) if isinstance(shape := value_of(node, inputs, 1, "shape"), (tuple, list)) else None
        x, gamma, beta, epsilon = inputs[0], inputs[2], inputs[3], value_of(node, inputs, 4, "epsilon", 1e-5)
    else:  # x, gamma, beta, begin_norm_axis, begin_params_axis, epsilon
        x, gamma, beta = inputs[:3]
        begin = [value_of(node, inputs, 3 + i, name) for i, name in enumerate(("begin_norm_axis", "begin_params_axis"))]
        ends = {from_end(axis, rank) for axis in begin}
        axes = -end if len(ends) == 1 and (end := ends.pop()) is not None else None
        epsilon = value_of(node, inputs, 5, "epsilon", 1e-7)
    if axes is None:
        return None
    return Expr("tuple:layer_norm", (x, gamma, beta), {"axes": axes, "epsilon": float(epsilon)}, node)


def _group_norm(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    groups, epsilon = value_of(node, inputs, 1, "num_groups"), value_of(node, inputs, 4, "eps", 1e-5)
    if not isinstance(groups, int) or len(inputs) < 4:
        return None
    return Expr(
        "tuple:group_norm", (inputs[0], inputs[2], inputs[3]), {"groups": groups, "epsilon": float(epsilon)}, node
    )


def _batch_norm(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    """Read a batch normalization with given statistics: x, gamma, beta, mean, variance."""
    if node.kind == "BatchNormExt":
        training, epsilon, layout = value_of(node, inputs, 5, "training"), value_of(node, inputs, 7, "epsilon"), "NCHW"
    else:
        training, epsilon = value_of(node, inputs, 5, "is_training"), value_of(node, inputs, 6, "epsilon")
        layout = value_of(node, inputs, 8, "data_format", "NCHW")
    if training is not False or not isinstance(epsilon, float) or layout not in ("NCHW", 0):
        return None
    return Expr("tuple:batch_norm", tuple(inputs[:5]), {"epsilon": epsilon}, node)


def _rms_norm(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    epsilon = float(value_of(node, inputs, 2, "epsilon", 1e-6))
    return Expr("tuple:rms_norm", tuple(inputs[:2]), {"epsilon": epsilon, "scheme": "round_then_scale"}, node)


def _add_rms_norm(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    epsilon = float(value_of(node, inputs, 3, "epsilon", 1e-6))
    return Expr("add_rms_norm", tuple(inputs[:3]), {"epsilon": epsilon, "scheme": "round_then_scale"}, node)


def _swiglu(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    return Expr("swiglu", (inputs[0],), {"axis": value_of(node, inputs, 1, "dim", -1)}, node)


def _rotary(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    mode = {0: "half", 1: "interleave"}.get(value_of(node, inputs, 3, "mode", 0), "")
    return Expr("rotary_embedding", tuple(inputs[:3]), {"mode": mode}, node)


def _custom(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    """Read an operator of this package that is in the graph already."""
    from ms_ascend_ops import registry  # noqa: PLC0415  (read only where there is one)

    entries = {registry.signature(name).entry: name for name in registry.names()}
    name = entries.get(str(node.attributes.get("reg_op_name")))
    if name is None:
        return None
    spec = registry.signature(name)
    known = {a.name: node.attributes[a.name] for a in (*spec.attributes, *spec.presence) if a.name in node.attributes}
    several = "tuple:" if len(spec.outputs) > 1 else ""
    # On an NPU the attributes are inputs, too.
    return Expr(f"{several}fused:{name}", tuple(inputs[: len(spec.inputs)]), known, node)


def _expand_dims(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    return with_kept_axis(
        inputs[0], Expr("expand_dims", tuple(inputs[:1]), {"to": value_of(node, inputs, 1, "shape")}, node)
    )


def _dropout(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    """Read Dropout(x, keep_prob) and DropoutExt(x, p, ...); with nothing to drop it is x."""
    given = number(inputs[1]) if len(inputs) > 1 else None
    if given == 0 if node.kind == "DropoutExt" else node.attributes.get("keep_prob", given) == 1:
        return Expr("tuple", (inputs[0], Expr("other:mask")), node=node)
    return Expr("tuple:dropout", tuple(inputs[:1]), node=node)


def _extreme(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    """Read ArgMaxWithValue(x, axis, keep_dims): where the largest is, and that."""
    axis = from_end(value_of(node, inputs, 1, "axis", 0), rank_of(inputs[0]))
    keep = bool(value_of(node, inputs, 2, "keep_dims", False))
    most = Expr("max", tuple(inputs[:1]), {"axis": axis, "keep_dims": keep})
    return Expr("tuple", (Expr("other:place"), most), node=node)


def _reshape(op: str) -> _Build:
    return lambda _, node, inputs: Expr(op, tuple(inputs[:1]), {"to": value_of(node, inputs, 1, "shape")}, node)


def _regrouped(known: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    x = inputs[0]
    if x.op == "stack" and x.attributes["axis"] == -2 and len(x.inputs) == 2 and x.shape and x.shape[-1] > 0:
        joined = (*x.shape[:-2], 2 * x.shape[-1])
        if node.shape == joined:
            return Expr("concat", x.inputs, {"axis": -1}, node)
    made = known.behind("reshape", x, {"to": value_of(node, inputs, 1, "shape")}, node)
    return with_kept_axis(x, made) if made.op == "reshape" and node.shape and node.shape[-1] == 1 else made


def _matmul(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    """Read a product of matrices, of batches of them or not; one with a matrix that rotates pairs is that rotation."""
    flags = transposed(node)
    if flags is None:
        return None
    if not flags[0] and (rotated := rotated_by(inputs[0], inputs[1], flags[1], node)) is not None:
        return rotated
    return Expr("matmul", tuple(inputs[:2]), dict(zip(("transpose_a", "transpose_b"), flags, strict=True)), node)


def _transpose(known: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    order, rank = permutation(node), len(node.shape or ())
    if node.kind.startswith("TransposeExt"):
        axes = [from_end(value_of(node, inputs, i, name), rank) for i, name in ((1, "dim0"), (2, "dim1"))]
        if rank and None not in axes:
            one, other = (axis + rank for axis in axes if axis is not None)
            order = tuple({one: other, other: one}.get(axis, axis) for axis in range(rank))
    return None if order is None else known.behind("transpose", inputs[0], {"order": order}, node)


def _masked_fill(_: Expressions, node: Node, inputs: list[Expr]) -> Expr:
    """Read MaskedFill(x, mask, value) as Select(mask, value, x)."""
    x, mask, value = inputs[:3]
    return Expr("select", (mask, value, x), node=node)


def _linear(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    """Read Dense(x, weight, bias): the weight is transposed."""
    x, weight, *bias = inputs[:3]
    given = [b for b in bias if b.op != "constant" or b.attributes["value"] is not None]
    if not given and (rotated := rotated_by(x, weight, True, node)) is not None:
        return rotated
    return Expr("linear", (x, weight, *given), node=node)


def _call(_: Expressions, node: Node, inputs: list[Expr]) -> Expr | None:
    """Read a layer that was called and not looked into: behind its arguments are weight and bias."""
    op = {"matmul": "linear", "conv2d": "conv2d"}.get(node.attributes.get("layer", ""))
    return None if op is None else Expr(op, tuple(inputs), node.attributes["settings"], node)


_PRIMITIVES: dict[str, _Build] = {
    **dict.fromkeys(("Add", "Adds", "AddExt", "AddScalar"), _binary("add")),
    **dict.fromkeys(("Sub", "Subs", "SubExt", "SubScalar"), _binary("sub")),
    **dict.fromkeys(("Mul", "Muls"), _binary("mul")),
    **dict.fromkeys(("Div", "Divs", "RealDiv"), _binary("div")),
    **dict.fromkeys(("Pow", "PowTensorScalar"), _pow),
    **{name: _elementwise(op) for name, op in (
        ("Square", "square"), ("Rsqrt", "rsqrt"), ("Neg", "neg"), ("Exp", "exp"), ("Tanh", "tanh"), ("Erf", "erf"),
        ("Sigmoid", "sigmoid"), ("SiLU", "silu"), ("ReLU", "relu"),
        ("ReLU6", "relu6"), ("HSwish", "hard_swish"), ("Cos", "cos"), ("Sin", "sin"),
    )},
    "Sqrt": _sqrt,
    **dict.fromkeys(("Reciprocal", "Inv"), _reciprocal),
    **dict.fromkeys(("Dropout", "DropoutExt"), _dropout),
    "ArgMaxWithValue": _extreme,
    **dict.fromkeys(("ReduceMean", "MeanExt"), _reduction("mean")),
    **dict.fromkeys(("ReduceSum", "SumExt"), _reduction("sum")),
    **dict.fromkeys(("ReduceMax", "AmaxExt", "Amax"), _reduction("max")),
    "Var": _variance,
    "Cast": _cast,
    **dict.fromkeys(("GeLU", "GeluExt"), _gelu),
    "Softmax": _softmax,
    **dict.fromkeys(("LayerNorm", "LayerNormExt"), _layer_norm),
    "GroupNorm": _group_norm,
    **dict.fromkeys(("BatchNorm", "BatchNormExt"), _batch_norm),
    "RmsNorm": _rms_norm,
    "AddRmsNorm": _add_rms_norm,
    "Swiglu": _swiglu,
    "RotaryPositionEmbedding": _rotary,
    "Custom": _custom,
    **PARTS,
    **dict.fromkeys(("Reshape", "View"), _regrouped),
    **dict.fromkeys(("ExpandDims", "Unsqueeze"), _expand_dims),
    "BroadcastTo": _reshape("broadcast"),
    **dict.fromkeys(("MatMul", "MatMulExt", "BatchMatMul", "BatchMatMulExt"), _matmul),
    **dict.fromkeys(("Transpose", "TransposeExt"), _transpose),
    "Dense": _linear,
    "Conv2D": lambda _, node, inputs: of_primitive(node, inputs),
    **dict.fromkeys(("Conv2DExt", "Conv2DPadding"), lambda _, node, inputs: of_mint(node, inputs)),
    CALL: _call,
    **dict.fromkeys(("Ones", "OnesLike", "OnesLikeExt"), _filled(1.0)),
    **dict.fromkeys(("Zeros", "ZerosLike", "ZerosLikeExt"), _filled(0.0)),
    "BiasAdd": lambda _, node, inputs: Expr("bias_add", tuple(inputs[:2]), node=node),
    **dict.fromkeys(("MaskedFill", "MaskedFillScalar"), _masked_fill),
    "Select": lambda _, node, inputs: Expr("select", tuple(inputs[:3]), node=node),
}  # fmt: skip
