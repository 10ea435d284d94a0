"""Describes a node of an ONNX graph to the functions that write it as Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from ms_ascend_ops.export.from_onnx.graph import Array, Graph
from onnx import NodeProto, defs, helper

__all__ = ["DTYPES", "Node", "Writer", "text_of", "tuple_of"]

# The newest version of ONNX's operators whose meaning is known here.
NEWEST = 23

# ONNX's numbers of dtypes, and what `mindspore` calls them.
DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool_", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16",
}  # fmt: skip


class Node:
    """Describes a node: `inputs` are expressions, None where one is left out."""

    def __init__(self, graph: Graph, node: NodeProto, variables: dict[str, str], keep: Callable[[Array], str]) -> None:
        self.graph, self.node, self.opset = graph, node, graph.opset
        self.names = list(node.input)
        self.keep = keep
        self._variables = variables
        self._attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}

    def check_attributes(self) -> None:
        """Refuse attributes that came with versions that are not known here."""
        known = defs.get_schema(self.node.op_type, min(self.opset, NEWEST), "").attributes
        if unknown := sorted(set(self._attributes) - set(known)):
            raise self.refuse(f"the attribute {unknown[0]} is not supported (up to opset {NEWEST} it has none)")

    @property
    def title(self) -> str:
        return f"{self.node.op_type} ({self.node.name or self.node.output[0]})"

    def refuse(self, reason: str) -> ValueError:
        """Return the error of a node that cannot be written."""
        return ValueError(f"{self.title}: {reason}")

    def has(self, index: int) -> bool:
        """Tell whether an input is there."""
        return index < len(self.names) and self.names[index] != ""

    def __getitem__(self, index: int) -> str:
        """Return the expression of an input."""
        if not self.has(index):
            raise self.refuse(f"input {index} is missing")
        name = self.names[index]
        if name not in self._variables:
            self._variables[name] = self.keep(self.graph.constants[name])
        return self._variables[name]

    @property
    def inputs(self) -> list[str]:
        """Return all inputs that are there."""
        return [self[i] for i in range(len(self.names)) if self.has(i)]

    def shape(self, index: int) -> tuple[int, ...]:
        """Return the shape of an input."""
        return self._shape(self.names[index], f"input {index}")

    def out_shape(self, index: int = 0) -> tuple[int, ...]:
        """Return the shape of an output."""
        return self._shape(self.node.output[index], f"output {index}")

    def _shape(self, name: str, what: str) -> tuple[int, ...]:
        shape = self.graph.shape(name)
        if shape is None:
            raise self.refuse(f"the shape of its {what} is not known before the model runs")
        return shape

    def dtype(self, index: int) -> str:
        """Return the dtype of an input, as MindSpore calls it."""
        number = self.graph.dtype(self.names[index])
        if number not in DTYPES:
            raise self.refuse(f"the dtype of its input {index} is not supported")
        return DTYPES[number]

    def constant(self, index: int, default: Array | None = None) -> Array:
        """Return an input that must be known when the model is converted."""
        if not self.has(index):
            if default is None:
                raise self.refuse(f"input {index} is missing")
            return default
        name = self.names[index]
        if name not in self.graph.constants:
            raise self.refuse(f"its input {index} ({name}) must be known when the model is converted")
        return self.graph.constants[name]

    def is_constant(self, index: int) -> bool:
        return self.has(index) and self.names[index] in self.graph.constants

    def integers(self, index: int) -> list[int]:
        """Return a constant vector."""
        return [int(value) for value in self.constant(index).reshape(-1)]

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute; a word as str."""
        value = self._attributes.get(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def number(self, name: str, default: float) -> str:
        """Return an attribute that is a number, as Python text."""
        return text_of(self.attribute(name, default))

    def scalar(self, value: float) -> str:
        """Write a number to calculate with: as text, or inf as a constant of the first input's dtype.

        MindSpore's compiler looks functions up by the numbers that they are called with, among which inf is not equal
        to itself: two of a hundred networks with `x * inf` did not compile.
        """
        number = self.graph.dtype(self.names[0])
        if number is None or not math.isinf(value):  # a constant NaN would be taken for 1
            return text_of(value)
        return self.keep(np.array(value, helper.tensor_dtype_to_np_dtype(number)))

    def axes(self, index: int) -> list[int] | None:
        """Return axes from an attribute or, in newer opsets, from an input; at least 0."""
        given = self.attribute("axes")
        if given is None and self.has(index):
            given = self.integers(index)
        if given is None:
            return None
        return [self._counted(axis, "axes") for axis in given]

    def axis(self, default: int) -> int:
        """Return the attribute axis, at least 0."""
        return self._counted(self.attribute("axis", default), "axis")

    def _counted(self, axis: int, name: str) -> int:
        """Return an axis counted from the front."""
        rank = max(1, len(self.shape(0)))
        if not -rank <= axis < rank:
            raise self.refuse(f"{name} must be from {-rank} to {rank - 1} for an input of {rank} axes, got {axis}")
        return int(axis) % rank

    def wants(self, **allowed: Any) -> None:
        """Refuse other values of attributes than these."""
        for name, values in allowed.items():
            value = self.attribute(name, values[0])
            if value not in values:
                raise self.refuse(f"{name} must be {' or '.join(map(repr, values))}, got {value!r}")

    def only_output(self, count: int = 1) -> None:
        """Refuse a node of whose outputs more are used."""
        if any(self.node.output[count:]):
            raise self.refuse(f"only {count} of its outputs can be had")


Writer = Callable[[Node], str]  # writes what a node computes


def text_of(value: float) -> str:
    """Return a number as Python text."""
    return repr(value) if math.isfinite(value) else f'float("{value}")'


def tuple_of(values: Any) -> str:
    """Return a tuple as Python text."""
    return repr(tuple(int(value) for value in np.asarray(values).reshape(-1)))
