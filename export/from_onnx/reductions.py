"""Writes sums and extremes along axes, and running sums."""

from __future__ import annotations

from ms_ascend_ops.export.from_onnx.node import Node, Writer

__all__ = ["OPERATORS"]


def _reduce(text: str) -> Writer:
    """Write a reduction: `x` is the input, `axes` a tuple, `keep` a bool."""

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
    """Write `amax` or `amin`.

    Of floats NaN where one is, but where a softmax subtracts it, which spreads NaN itself.
    """

    def write(n: Node) -> str:
        readers = [node for node in n.graph.nodes if n.node.output[0] in node.input]
        within = readers and n.node.output[0] not in n.graph.outputs
        within = within and all(node.op_type == "Sub" and node.input[0] == n.names[0] for node in readers)
        prefix = "ops." if within or "float" not in n.dtype(0) else "_"
        return _reduce(f"{prefix}{function}({{x}}, {{axes}}, {{keep}})")(n)

    return write


def _of_dtype(n: Node, result: str) -> str:
    """Convert sums of integers to their dtype; MindSpore's are of int64, and roots of float32."""
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


OPERATORS: dict[str, Writer] = {
    "ArgMax": _arg,
    "ArgMin": _arg,
    "CumSum": _cumsum,
    "GlobalAveragePool": lambda n: f"ops.mean({n[0]}, {tuple(range(2, len(n.shape(0))))}, True)",
    "GlobalMaxPool": lambda n: f"ops.amax({n[0]}, {tuple(range(2, len(n.shape(0))))}, True)",
    "ReduceL1": _reduce("ops.sum(ops.abs({x}), {axes}, {keep})"),
    "ReduceL2": _reduce("ops.sqrt(ops.sum(ops.square({x}), {axes}, {keep}))"),
    "ReduceMax": _largest("amax"),
    "ReduceMean": _reduce("ops.mean({x}, {axes}, {keep})"),
    "ReduceMin": _largest("amin"),
    "ReduceProd": _product,
    "ReduceSum": _reduce("ops.sum({x}, {axes}, {keep})"),
    "ReduceSumSquare": _reduce("ops.sum(ops.square({x}), {axes}, {keep})"),
    "TopK": _top_k,
}
