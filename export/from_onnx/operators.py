"""ONNX's operators as Python expressions of `mindspore.ops`, for sizes that are known.

A function takes a `Node` and returns the expression of its output; of several outputs one that has them in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from ms_ascend_ops.export.from_onnx import windows
from ms_ascend_ops.export.from_onnx.graph import Graph
from ms_ascend_ops.export.from_onnx.node import DTYPES, Node, tuple_of
from ms_ascend_ops.export.from_onnx.softmax import softmax

__all__ = ["OPERATORS"]

Writer = Callable[[Node], str]


def _call(text: str) -> Writer:
    """`x` stands for the first input, `y` for the second."""
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


# By what follows these, networks divide: patterns know ops.div, and none of these is -0.0 but by underflow.
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


# ---- products


def _gemm(n: Node) -> str:
    a = f"ops.transpose({n[0]}, (1, 0))" if n.attribute("transA", 0) else n[0]
    b = f"ops.transpose({n[1]}, (1, 0))" if n.attribute("transB", 0) else n[1]
    product = f"ops.matmul({a}, {b})"
    if (alpha := n.attribute("alpha", 1.0)) != 1.0:
        product = f"{product} * {n.scalar(alpha)}"
    if not n.has(2):
        return product
    beta = n.attribute("beta", 1.0)
    return f"ops.add({product}, {n[2]}{'' if beta == 1.0 else f' * {n.scalar(beta)}'})"


def _attention(n: Node) -> str:
    n.only_output()
    if any(n.has(i) for i in (4, 5, 6)):
        raise n.refuse("past keys and values are not supported")
    n.wants(softcap=(0.0,), qk_matmul_output_mode=(0,), softmax_precision=(0, 1))
    parts, heads = [], [n.attribute("q_num_heads"), n.attribute("kv_num_heads"), n.attribute("kv_num_heads")]
    shapes = [n.shape(i) for i in range(3)]
    flat = len(shapes[0]) == 3
    for i, shape in enumerate(shapes):
        part = n[i]
        if flat:
            batch, length, width = shape
            split = (batch, length, heads[i], width // heads[i])
            part = f"ops.transpose(ops.reshape({part}, {split}), (0, 2, 1, 3))"
            shapes[i] = (batch, heads[i], length, width // heads[i])
        parts.append(part)
    (batch, q_heads, q_length, size), (_, kv_heads, kv_length, _) = shapes[:2]
    if q_heads != kv_heads:
        parts[1:] = [f"ops.repeat_interleave({part}, {q_heads // kv_heads}, 1)" for part in parts[1:]]
    scale = n.attribute("scale") or 1.0 / math.sqrt(size)
    scores = f"ops.matmul({parts[0]}, ops.transpose({parts[1]}, (0, 1, 3, 2))) * {n.scalar(scale)}"
    if n.has(3):
        seen = f"ops.where({n[3]}, {scores}, {n.scalar(-math.inf)})"
        scores = seen if n.dtype(3) == "bool_" else f"ops.add({scores}, {n[3]})"
    if n.attribute("is_causal", 0):
        scores = f"ops.where({n.keep(np.tri(q_length, kv_length, dtype=bool))}, {scores}, {n.scalar(-math.inf)})"
    # Behind a mask a query may see no key.
    probabilities = f"_probabilities({scores})" if n.has(3) else f"ops.softmax({scores}, -1)"
    result = f"ops.matmul({probabilities}, {parts[2]})"
    if flat:
        result = f"ops.reshape(ops.transpose({result}, (0, 2, 1, 3)), {n.out_shape()})"
    return result


# ---- norms


def _batch_norm(n: Node) -> str:
    n.only_output()
    n.wants(training_mode=(0,))
    scale, shift, mean, variance = (n.constant(i).astype(np.float64) for i in (1, 2, 3, 4))
    factor = scale / np.sqrt(variance + n.attribute("epsilon", 1e-5))
    shape = (1, -1, *[1] * (len(n.shape(0)) - 2))
    dtype = n.constant(1).dtype
    kept = [n.keep(x.astype(dtype).reshape(shape)) for x in (factor, shift - mean * factor)]
    return f"ops.add(ops.mul({n[0]}, {kept[0]}), {kept[1]})"


def _group_norm(n: Node) -> str:
    instance = n.node.op_type == "InstanceNormalization"
    groups = n.shape(0)[1] if instance else n.attribute("num_groups")
    if not instance and n.opset < 21:
        raise n.refuse("before opset 21 it has a scale for each group, not for each channel")
    return f"ops.group_norm({n[0]}, {groups}, {n[1]}, {n[2]}, {n.number('epsilon', 1e-5)})"


def _layer_norm(n: Node) -> str:
    n.only_output()
    shift = n[2] if n.has(2) else f"ops.zeros_like({n[1]})"
    axis = n.axis(-1)
    return f"ops.LayerNorm({axis}, {axis}, {n.number('epsilon', 1e-5)})({n[0]}, {n[1]}, {shift})[0]"


def _rms_norm(n: Node) -> str:
    axes = tuple(range(n.axis(-1), len(n.shape(0))))
    x = f"{n[0]}.astype(ms.float32)"
    root = f"ops.rsqrt(ops.mean(ops.square({x}), {axes}, True) + {n.number('epsilon', 1e-5)})"
    return f"ops.mul(ops.mul({x}, {root}).astype(ms.{n.dtype(0)}), {n[1]})"


# ---- sums


def _reduce(text: str) -> Writer:
    """`x` is the input, `axes` a tuple, `keep` a bool."""

    def write(n: Node) -> str:
        axes, rank = n.axes(1), len(n.shape(0))
        if not axes:
            if n.attribute("noop_with_empty_axes", 0):
                return n[0]
            axes = list(range(rank))
        if rank == 0:
            return n[0]
        result = text.format(x=n[0], axes=tuple(axes), keep=bool(n.attribute("keepdims", 1)))
        return _of_dtype(n, result)

    return write


def _largest(function: str) -> Writer:
    """`amax` or `amin`. Of floats NaN where one is, but where a softmax subtracts it, which spreads NaN itself."""

    def write(n: Node) -> str:
        readers = [node for node in n.graph.nodes if n.node.output[0] in node.input]
        within = readers and n.node.output[0] not in n.graph.outputs
        within = within and all(node.op_type == "Sub" and node.input[0] == n.names[0] for node in readers)
        prefix = "ops." if within or "float" not in n.dtype(0) else "_"
        return _reduce(f"{prefix}{function}({{x}}, {{axes}}, {{keep}})")(n)

    return write


def _of_dtype(n: Node, result: str) -> str:
    """Sums of integers have their dtype; MindSpore's are of int64, and roots of float32."""
    return f"{result}.astype(ms.{n.dtype(0)})" if "int" in n.dtype(0) else result


def _product(n: Node) -> str:
    axes, keep = n.axes(1) or list(range(len(n.shape(0)))), bool(n.attribute("keepdims", 1))
    result = n[0]
    for axis in sorted(axes, reverse=True):  # so that the others stay where they are
        result = f"ops.prod({result}, {axis}, {keep})"
    return _of_dtype(n, result)


def _arg(n: Node) -> str:
    n.wants(select_last_index=(0,))
    keep = bool(n.attribute("keepdims", 1))
    if n.node.op_type == "ArgMax":
        return f"ops.argmax({n[0]}, {n.axis(0)}, {keep}).astype(ms.int64)"
    return f"ops.argmin({n[0]}, {n.axis(0)}, {keep}).astype(ms.int64)"


def _cumsum(n: Node) -> str:
    axis = n.integers(1)[0] % len(n.shape(0))
    x = n[0]
    if n.attribute("reverse", 0):
        x = f"ops.flip({x}, ({axis},))"
    if n.attribute("exclusive", 0):
        x = f"_before({x}, {axis})" if n.shape(0)[axis] > 1 else f"ops.zeros_like({x})"
    result = f"ops.cumsum({x}, {axis})"
    return f"ops.flip({result}, ({axis},))" if n.attribute("reverse", 0) else result


def _top_k(n: Node) -> str:
    count = n.integers(1)[0] if n.opset >= 10 else n.attribute("k")
    keys, dtype = n[0], n.dtype(0)
    if dtype.startswith("uint"):
        if dtype not in ("uint8", "uint16", "uint32"):
            raise n.refuse(f"its input must be of floats or of integers of up to 63 bits, got {dtype}")
        keys = f"{keys}.astype(ms.int64)"
    if n.attribute("largest", 1):
        keys = f"-1 - {keys}" if "int" in dtype else f"-{keys}"
    return f"_top_k({n[0]}, {keys}, {count}, {n.axis(-1)})"


# ---- shapes


def _reshape(n: Node) -> str:
    return f"ops.reshape({n[0]}, {n.out_shape()})"


def _transpose(n: Node) -> str:
    axes = n.attribute("perm") or range(len(n.shape(0)))[::-1]
    return f"ops.transpose({n[0]}, {tuple_of(list(axes))})"


def _concat(n: Node) -> str:
    return f"ops.cat(({', '.join(n.inputs)},), {n.axis(0)})"


def _split(n: Node) -> str:
    axis, count = n.axis(0), len(n.node.output)
    sizes = n.attribute("split") or (n.integers(1) if n.has(1) else None)
    if sizes is None:
        total = n.shape(0)[axis]
        each = -(-total // count)
        sizes = [min(each, total - at) for at in range(0, total, each)]
    if len(set(sizes)) == 1:
        return f"ops.split({n[0]}, {int(sizes[0])}, {axis})"
    return f"ops.split({n[0]}, {tuple_of(sizes)}, {axis})"


def _slice(n: Node) -> str:
    shape, rank = n.shape(0), len(n.shape(0))
    if n.opset < 10:
        starts, ends = n.attribute("starts"), n.attribute("ends")
        axes, steps = n.attribute("axes"), None
    else:
        starts, ends = n.integers(1), n.integers(2)
        axes = n.integers(3) if n.has(3) else None
        steps = n.integers(4) if n.has(4) else None
    result, parts = n[0], [":"] * rank
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = (axes[i] if axes else i) % rank
        step = steps[i] if steps else 1
        found = range(shape[axis])[slice(_within(start), _within(end), step)]
        if step < 0 or len(found) == 0:
            result = f"ops.gather({result}, {n.keep(np.array(found, np.int64))}, {axis})"
        elif len(found) < shape[axis]:
            parts[axis] = f"{found.start}:{found[-1] + 1}" + (f":{step}" if step > 1 else "")
    return result if set(parts) == {":"} else f"{result}[{', '.join(parts)}]"


def _within(value: int) -> int:
    """Limit what ONNX writes for the end of an axis to Python's ranges."""
    return max(-(2**62), min(2**62, int(value)))


def _expand(n: Node) -> str:
    shape = n.out_shape()
    if n.dtype(0) == "bool_":
        return f"ops.ne(ops.broadcast_to({n[0]}.astype(ms.int32), {shape}), 0)"
    return f"ops.broadcast_to({n[0]}, {shape})"


def _tile(n: Node) -> str:
    return f"ops.tile({n[0]}, {tuple_of(n.integers(1))})"


def _indices(n: Node, size: int) -> str:
    """Indices that may count from the end."""
    if n.is_constant(1):
        given = n.constant(1)
        return n.keep(np.where(given < 0, given + size, given))
    return f"ops.where({n[1]} < 0, {n[1]} + {size}, {n[1]})"


def _gather(n: Node) -> str:
    axis = n.axis(0)
    return f"ops.gather({n[0]}, {_indices(n, n.shape(0)[axis])}, {axis})"


def _gather_elements(n: Node) -> str:
    axis = n.axis(0)
    return f"ops.gather_elements({n[0]}, {axis}, {_indices(n, n.shape(0)[axis])})"


def _gather_nd(n: Node) -> str:
    n.wants(batch_dims=(0,))
    return f"ops.gather_nd({n[0]}, {_places(n)})"


def _scatter_nd(n: Node) -> str:
    n.wants(reduction=("none",))
    return f"ops.tensor_scatter_update({n[0]}, {_places(n)}, {n[2]})"


def _places(n: Node) -> str:
    """Places in several axes, which may count from the end."""
    sizes = np.array(n.shape(0)[: n.shape(1)[-1]], np.int64)
    if n.is_constant(1):
        given = n.constant(1)
        return n.keep(np.where(given < 0, given + sizes, given))
    return f"ops.where({n[1]} < 0, {n[1]} + {n.keep(sizes)}, {n[1]})"


def _pad(n: Node) -> str:
    rank, mode = len(n.shape(0)), n.attribute("mode", "constant")
    pads = n.integers(1) if n.opset >= 11 else list(n.attribute("pads"))
    if n.has(3):
        axes = [axis % rank for axis in n.integers(3)]
        full = [0] * (2 * rank)
        for i, axis in enumerate(axes):
            full[axis], full[rank + axis] = pads[i], pads[len(axes) + i]
        pads = full
    value = n.constant(2).item() if n.has(2) else n.attribute("value", 0.0)
    result = n[0]
    if min(pads) < 0:
        cut = [f"{max(0, -pads[i])}:{size - max(0, -pads[rank + i])}" for i, size in enumerate(n.shape(0))]
        result = f"{result}[{', '.join(cut)}]"
        pads = [max(0, pad) for pad in pads]
    if mode == "constant":
        return windows.padded(result, pads[:rank], pads[rank:], value)
    for axis in range(rank):
        before, after, size = pads[axis], pads[rank + axis], n.shape(0)[axis]
        if before or after:
            if mode not in ("reflect", "edge", "wrap"):
                raise n.refuse(f"mode must be constant, reflect, edge or wrap, got {mode}")
            picked = np.pad(np.arange(size), (before, after), mode)
            result = f"ops.gather({result}, {n.keep(picked)}, {axis})"
    return result


def _triangle(n: Node) -> str:
    k = n.integers(1)[0] if n.has(1) else 0
    function = "triu" if n.attribute("upper", 1) else "tril"
    rows, cols = n.shape(0)[-2:]
    kept = getattr(np, function)(np.ones((rows, cols), bool), k)
    if n.dtype(0) == "bool_":
        return f"ops.logical_and({n[0]}, {n.keep(kept)})"
    return f"ops.where({n.keep(kept)}, {n[0]}, ops.zeros_like({n[0]}))"


def _blocks(n: Node) -> str:
    batch, channels, height, width = n.shape(0)
    block = n.attribute("blocksize")
    if n.node.op_type == "SpaceToDepth":
        shape, axes = (batch, channels, height // block, block, width // block, block), (0, 3, 5, 1, 2, 4)
    elif n.attribute("mode", "DCR") == "DCR":
        shape, axes = (batch, block, block, channels // block**2, height, width), (0, 3, 4, 1, 5, 2)
    else:
        shape, axes = (batch, channels // block**2, block, block, height, width), (0, 1, 4, 2, 5, 3)
    return f"ops.reshape(ops.transpose(ops.reshape({n[0]}, {shape}), {axes}), {n.out_shape()})"


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
    "ArgMax": _arg,
    "ArgMin": _arg,
    "Attention": _attention,
    "AveragePool": windows.average_pool,
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "CastLike": _cast,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": windows.conv,
    "ConvTranspose": windows.conv_transpose,
    "CumSum": _cumsum,
    "DepthToSpace": _blocks,
    "Div": _div,
    "Dropout": _dropout,
    "Elu": _elu,
    "Expand": _expand,
    "Flatten": _reshape,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Gelu": _gelu,
    "Gemm": _gemm,
    "GlobalAveragePool": lambda n: f"ops.mean({n[0]}, {tuple(range(2, len(n.shape(0))))}, True)",
    "GlobalMaxPool": lambda n: f"ops.amax({n[0]}, {tuple(range(2, len(n.shape(0))))}, True)",
    "GroupNormalization": _group_norm,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": lambda n: f"{n[0]} * _minimum(_maximum({n[0]} * {1 / 6!r} + 0.5, 0.0), 1.0)",
    "Identity": _call("{x}"),
    "InstanceNormalization": _group_norm,
    "LayerNormalization": _layer_norm,
    "LeakyRelu": _leaky_relu,
    "LogSoftmax": softmax,
    "Max": _extreme("maximum"),
    "MaxPool": windows.max_pool,
    "Mean": _mean,
    "Mish": _call("ops.mul({x}, ops.tanh(_softplus({x})))"),
    "Min": _extreme("minimum"),
    "Mod": _mod,
    "PRelu": lambda n: f"ops.where({n[0]} > 0, {n[0]}, {n[0]} * {n[1]})",
    "Pad": _pad,
    "Pow": _pow,
    "RMSNormalization": _rms_norm,
    "ReduceL1": _reduce("ops.sum(ops.abs({x}), {axes}, {keep})"),
    "ReduceL2": _reduce("ops.sqrt(ops.sum(ops.square({x}), {axes}, {keep}))"),
    "ReduceMax": _largest("amax"),
    "ReduceMean": _reduce("ops.mean({x}, {axes}, {keep})"),
    "ReduceMin": _largest("amin"),
    "ReduceProd": _product,
    "ReduceSum": _reduce("ops.sum({x}, {axes}, {keep})"),
    "ReduceSumSquare": _reduce("ops.sum(ops.square({x}), {axes}, {keep})"),
    "Reshape": _reshape,
    "Resize": windows.resize,
    "ScatterND": _scatter_nd,
    "Selu": _elu,
    "Slice": _slice,
    "Softmax": softmax,
    "Softplus": _call("_softplus({x})"),
    "Softsign": lambda n: f"ops.div({n[0]}, 1.0 + ops.abs({n[0]}))",
    "SpaceToDepth": _blocks,
    "Split": _split,
    "Squeeze": _reshape,
    "Sum": _folded("ops.add({x}, {y})"),
    "Tile": _tile,
    "TopK": _top_k,
    "Transpose": _transpose,
    "Trilu": _triangle,
    "Unsqueeze": _reshape,
    "Where": lambda n: f"ops.where({n[0]}, {n[1]}, {n[2]})",
}
