"""Converts ONNX files to MindIR: every node becomes a line of Python in a Cell of MindSpore's operators, which
is exported.
"""

from __future__ import annotations

import builtins
import importlib.util
import keyword
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn
from ms_ascend_ops.export.files.mindir import export_mindir
from ms_ascend_ops.export.from_onnx.graph import Array, Graph, known
from ms_ascend_ops.export.from_onnx.node import DTYPES, Node
from ms_ascend_ops.export.from_onnx.operators import OPERATORS

from ms_ascend_ops.onnx.files import read_model

__all__ = ["convert_onnx", "input_names"]

# Larger constants are weights: parameters of the network. Smaller ones stay values that patterns can look at.
_MOST_OF_A_VALUE = 64

_HEAD = '''"""Written by ms_ascend_ops from an ONNX graph."""
import mindspore as ms
from mindspore import nn, ops


def _top_k(x, keys, count, axis):
    """The places of the smallest keys. ops.sort keeps the order of equal ones, ops.topk does not."""
    indices = ops.narrow(ops.sort(keys, axis)[1], axis, 0, count)
    return ops.gather_elements(x, axis, indices), indices.astype(ms.int64)


def _softplus(x):
    """Also of large x, of which ops.mish makes inf and NaN."""
    return ops.maximum(x, 0.0) + ops.log1p(ops.exp(-ops.abs(x)))


def _maximum(x, y):
    """NaN where one is: ops.maximum takes the other."""
    return ops.where(x >= y, x, ops.where(x < y, y, x + y))


def _minimum(x, y):
    return ops.where(x <= y, x, ops.where(x > y, y, x + y))


def _amax(x, axes, keep):
    """NaN where one is: ops.amax passes it over."""
    unknown = ops.any(ops.ne(x, x), axes, keep)
    return ops.where(unknown, ops.full_like(unknown, float("nan"), dtype=x.dtype), ops.amax(x, axes, keep))


def _amin(x, axes, keep):
    return -_amax(-x, axes, keep)


def _divided(x, y):
    """Divide floats as IEEE 754 does: ops.div takes -0.0 for 0, and gives -inf for NaN or inf divided by 0."""
    return ops.where(y == 0, x * ops.reciprocal(y), ops.div(x, y))


def _softmax(x, axis):
    """Also of rows of -inf, behind which ops.softmax spoils others."""
    grown = ops.exp(x - ops.amax(x, axis, True))
    return ops.div(grown, ops.sum(grown, axis, True))


def _log_softmax(x, axis):
    below = x - ops.amax(x, axis, True)
    return below - ops.log(ops.sum(ops.exp(below), axis, True))


def _before(x, axis):
    """Shift by one place along an axis: each place gets the value in front of it, the first one 0."""
    return ops.cat((ops.zeros_like(ops.narrow(x, axis, 0, 1)), ops.narrow(x, axis, 0, x.shape[axis] - 1)), axis)


def _probabilities(scores):
    """A row of which nothing is seen has zeros. ops.softmax never gets one: it spoils the rows behind it."""
    hidden = ops.amax(scores, -1, True) == float("-inf")
    probabilities = ops.softmax(ops.where(hidden, ops.zeros_like(scores), scores), -1)
    return ops.where(hidden, ops.zeros_like(scores), probabilities)


def _quotient(x, y):
    """Divide integers and round towards 0. ops.div would calculate it in float32."""
    down = ops.floor_divide(x, y)
    inexact = ops.ne(down * y, x)
    return down + ops.logical_and(inexact, ops.logical_xor(x < 0, y < 0)).astype(x.dtype)


class Network(nn.Cell):
    def __init__(self, constants):
        super().__init__()
        for name, value in constants.items():
            setattr(self, name, value)

'''


def convert_onnx(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Path:
    """Write the network of an ONNX file as a MindIR, of MindSpore's own operators.

    `ms_ascend_ops.export.optimize_mindir` then finds the places for fused operators in it, as in any other.

    Args:
        source: an ONNX file, opset 9 to 23. It is not changed.
        output: the MindIR; `.mindir` is appended if it is missing.
        shapes: the shape of each input, by name, which an input of open sizes needs. The network is for these sizes
            only: what ONNX computes from shapes is computed here.

    Returns:
        The absolute path of the file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is no ONNX file, or a damaged one; an input is left open; or nodes have no form here: they are
            named, with the reason.
    """
    path = Path(source)
    if not path.is_file():
        raise FileNotFoundError(f"convert_onnx: there is no file {path}")
    model, _ = read_model(path, "convert_onnx")
    try:
        graph = known(model, shapes or {}, "convert_onnx")
    except ValueError as error:
        if str(error).startswith("convert_onnx:"):
            raise
        raise ValueError(f"convert_onnx: {path}: {error}") from error
    text, constants = _write(graph, path)
    with tempfile.TemporaryDirectory(prefix="ms_ascend_ops-") as folder:
        module = Path(folder, "network.py")
        module.write_text(text, encoding="utf-8")
        values = {name: _value(name, array) for name, array in constants.items()}
        inputs = [Tensor(shape=shape, dtype=_dtype(number)) for number, shape in graph.inputs.values()]
        with _imported(module) as network:
            try:
                return export_mindir(network(values), *inputs, path=output)
            except (RuntimeError, TypeError, ValueError) as error:
                if "holds no whole graph" in str(error):
                    raise ValueError(f"convert_onnx: {path}: nothing is computed from its inputs") from error
                if str(error).startswith("export_mindir:"):
                    raise
                reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
                raise ValueError(f"convert_onnx: {path}: MindSpore does not compile it: {reason}") from error


def input_names(source: str | os.PathLike[str]) -> list[str]:
    """Return the names of the inputs of an ONNX file, without those that it has a value for.

    Raises:
        ValueError: it is no ONNX file, or a damaged one.
    """
    model, _ = read_model(Path(source), "convert_onnx")
    constants = {tensor.name for tensor in model.graph.initializer}
    return [value.name for value in model.graph.input if value.name not in constants]


def _dtype(number: int) -> Any:
    return getattr(ms, DTYPES[number])


def _value(name: str, array: Array) -> Tensor | Parameter:
    if array.dtype.name == "bfloat16":
        tensor = Tensor(array.astype(np.float32), ms.bfloat16)
    else:
        tensor = Tensor(np.ascontiguousarray(array).reshape(array.shape))
    return tensor if array.size <= _MOST_OF_A_VALUE else Parameter(tensor, name=name, requires_grad=False)


@contextmanager
def _imported(module: Path) -> Iterator[type[nn.Cell]]:
    """Import the class within the block into the module, where MindSpore's compiler looks it up by its name, too."""
    name = f"_ms_ascend_ops_{module.parent.name.replace('-', '_')}"
    spec = importlib.util.spec_from_file_location(name, module)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    try:
        spec.loader.exec_module(loaded)
        yield loaded.Network
    finally:
        del sys.modules[name]


# Names that are taken in the module that is written.
_RESERVED = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *re.findall(r"\w+", _HEAD)}

# Longer names are cut.
_MOST_LETTERS = 64


class _Names:
    """Makes Python names that remind of those of ONNX, which may be any text; each once."""

    def __init__(self) -> None:
        self._taken: set[str] = set(_RESERVED)

    def new(self, name: str, prefix: str) -> str:
        plain = prefix + re.sub(r"\W", "_", name[:_MOST_LETTERS], flags=re.ASCII).lstrip("_")
        if not plain or plain[0].isdigit():
            plain = f"x_{plain}"
        found, count = plain, 0
        while found in self._taken:
            count += 1
            found = f"{plain}_{count}"
        self._taken.add(found)
        return found


def _write(graph: Graph, path: Path) -> tuple[str, dict[str, Array]]:
    """Write the module of the network; return it, and its constants by their names in it."""
    for name, (number, _) in graph.inputs.items():
        if number not in DTYPES:
            raise ValueError(f"convert_onnx: {path}: the dtype of input {name} is not supported")
    names = _Names()
    constants: dict[str, Array] = {}
    variables: dict[str, str] = {}
    lines: list[str] = []
    for name in graph.inputs:
        variables[name] = names.new(name, "")

    def keep(array: Array) -> str:
        name = names.new(f"{len(constants)}", "constant_")
        constants[name] = array
        return f"self.{name}"

    refused = []
    for node in graph.nodes:
        write = OPERATORS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        kept = [output for output in node.output if output]
        if write is None:
            refused.append(f"{node.domain + '.' if node.domain else ''}{node.op_type} ({node.name or kept[0]})")
        elif not refused:
            try:
                line = Node(graph, node, variables, keep)
                line.check_attributes()
                if any(0 in (graph.shape(output) or ()) for output in kept):
                    raise line.refuse("its result has no elements, of which MindSpore makes no network")
                expression = write(line)
            except ValueError as error:
                raise ValueError(f"convert_onnx: {path}: {error}") from error
            targets = [names.new(output, "v_") for output in node.output]
            lines.append(f"{', '.join(targets)} = {expression}")
            variables.update(zip(node.output, targets, strict=True))
    if not lines and not refused:
        raise ValueError(f"convert_onnx: {path}: nothing is computed from its inputs")
    if refused:
        more = f" and {len(refused) - 8} more" if len(refused) > 8 else ""
        raise ValueError(
            f"convert_onnx: {path}: not supported: {', '.join(refused[:8])}{more}; docs/onnx.md lists what is"
        )
    results = [variables[name] if name in variables else keep(graph.constants[name]) for name in graph.outputs]
    lines.append(f"return {', '.join(results)}")
    arguments = ", ".join(["self", *(variables[name] for name in graph.inputs)])
    body = "".join(f"        {line}\n" for line in lines)
    return f"{_HEAD}    def construct({arguments}):\n{body}", constants
