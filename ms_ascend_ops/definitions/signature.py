"""Holds what a definition says of an operator, as Python objects. Needs no MindSpore."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from numbers import Integral, Real
from typing import Any

from ms_ascend_ops.definitions.shapes import ShapeRule
from ms_ascend_ops.deprecation import warn_renamed

__all__ = [
    "ACLNN_TYPES",
    "DTYPES",
    "PYTHON_TYPES",
    "AttributeSpec",
    "CounterpartSpec",
    "OpSpec",
    "Signature",
    "Survey",
    "TensorSpec",
    "one_of",
]

DTYPES = ("float16", "bfloat16", "float32", "int32", "int64", "int8")  # DataType in kernels/interface/launch_config.h
# The aclnn function of an operator takes an attribute so; a choice is the index of its text.
ACLNN_TYPES = {"int": "int64_t", "float": "double", "bool": "bool", "string": "int64_t"}
# NumPy's scalars count as numbers.
PYTHON_TYPES: dict[str, Any] = {"int": Integral, "float": Real, "bool": bool, "string": str}


@dataclass(frozen=True)
class TensorSpec:
    """Describes one input or output. `dtype` is a dtype name or a dtype variable of the signature."""

    name: str
    dtype: str
    rule: ShapeRule
    optional: bool = False  # an input that may be absent


@dataclass(frozen=True)
class AttributeSpec:
    """Describes one attribute: its type, default and the values it may have."""

    name: str
    type: str
    default: int | float | bool | str
    choices: tuple[str, ...] = ()
    exclusive_minimum: float | None = None
    axes: tuple[int, ...] = ()  # of a string or bool that names an axis: where each value puts it
    formerly: str = ""  # the name in files and calls of earlier releases
    renamed: tuple[tuple[str, str], ...] = ()  # choices as earlier releases called them, and what they are now

    @property
    def node_name(self) -> str:
        """Return its name in the node of a graph. MindSpore 2.10 renames any `data_format`, and MindIR loses it."""
        return f"{self.name}_" if self.name == "data_format" else self.name

    def axis(self, value: Any) -> int:
        """Return the axis that a value names, or the int that it is."""
        if not self.axes:
            return int(value)
        return self.axes[self.choices.index(value) if self.choices else int(value)]

    def current(self, value: Any) -> Any:
        """Return the value as this release calls it.

        One of an earlier release, as files have it, is not complained of.
        """
        return dict(self.renamed).get(value, value) if isinstance(value, str) else value

    def check(self, op: str, value: Any, name: str = "") -> Any:
        """Return `value` as the kernel reads it. `op` and `name` say in a message what was called, and with what.

        Raises:
            TypeError: `value` has another type.
            ValueError: `value` is not allowed.
        """
        subject = f"{op}: {name or self.name}"
        if not isinstance(value, PYTHON_TYPES[self.type]) or (isinstance(value, bool) and self.type != "bool"):
            article = "an" if self.type == "int" else "a"
            raise TypeError(f"{subject} must be {article} {self.type}, got {type(value).__name__}")
        if self.type == "float":
            # Kernels compute with the float32 value: that one has to obey the rule.
            stored = _to_float32(value)
            if not math.isfinite(stored):
                raise ValueError(f"{subject} must be finite in float32, got {value}")
            if self.exclusive_minimum is not None and not stored > self.exclusive_minimum:
                raise ValueError(f"{subject} must be > {self.exclusive_minimum:g} in float32, got {value}")
            return float(value)
        if self.type == "int":
            if not -(2**63) <= value < 2**63:
                raise ValueError(f"{subject} must fit in 64 bits, got {value}")
            if self.exclusive_minimum is not None and not value > self.exclusive_minimum:
                raise ValueError(f"{subject} must be > {self.exclusive_minimum:g}, got {value}")
            return int(value)
        if (new := self.current(value)) != value:
            warn_renamed(f"{subject}={value!r}", repr(new), stacklevel=4)
            return new
        if self.choices and value not in self.choices:
            raise ValueError(f"{subject} must be {one_of(self.choices)}, got {value!r}")
        return value


@dataclass(frozen=True, eq=False)  # there is one of each, which may be a key
class Signature:
    """Describes what one kernel takes and gives: the forward or the gradient of an operator."""

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    attributes: tuple[AttributeSpec, ...]
    types: tuple[Mapping[str, str], ...]
    reasons: Mapping[str, str] = field(default_factory=dict)
    positive: frozenset[str] = frozenset()  # symbols that may not be 0
    multiples: Mapping[str, str] = field(
        default_factory=dict
    )  # symbol: the int attribute or symbol it is a multiple of
    version: int = 1  # raised when old nodes of a MindIR would mean something else
    writes: tuple[str, ...] = ()  # inputs that the kernel changes in place
    # The values of an input with which the kernel does not trap, in words for its error.
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def entry(self) -> str:
        """Name of the entry point in the library: rms_norm_grad -> RmsNormGrad."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def cann_type(self) -> str:
        """Return the operator type in the CANN package; the prefix keeps it apart from CANN's own RmsNorm."""
        return f"MsAscendOps{self.entry}"

    @property
    def cann_outputs(self) -> tuple[TensorSpec, ...]:
        """Return the outputs of the operator in the CANN package. An input that is changed in place is an output, too.

        That is how CANN's own in-place operators are registered: aclnn then copies a changed view back, and GE keeps
        the operator between those that write and read the tensor. Such outputs come last: MindSpore's graphs give
        nnopbase the address of an argument by its number (aclSetTensorAddr); the aclnn function has each only once.
        """
        return self.outputs + tuple(tensor for tensor in self.inputs if tensor.name in self.writes)

    def cann_constants(self, attributes: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the attributes as the aclnn function takes them, in the order of the definition."""
        return tuple(
            attribute.choices.index(attributes[attribute.name]) if attribute.choices else attributes[attribute.name]
            for attribute in self.attributes
        )

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the dtype variables, in the order of the kernel's template parameters."""
        return tuple(self.types[0])

    @cached_property
    def fingerprint(self) -> str:
        """Return a hash of all of this. The library has that of the definition it was built from."""
        return hashlib.sha256(json.dumps(asdict(self), default=sorted).encode()).hexdigest()[:16]

    @cached_property
    def presence(self) -> tuple[AttributeSpec, ...]:
        """Return the attributes of a node that say which optional inputs it has: `has_bias`."""
        return tuple(AttributeSpec(f"has_{t.name}", "bool", True) for t in self.inputs if t.optional)

    def given(self, presence: Mapping[str, Any]) -> tuple[TensorSpec, ...]:
        """Return the inputs that a node with these attributes has."""
        return tuple(t for t in self.inputs if not t.optional or presence.get(f"has_{t.name}", True))

    def npu_inputs(self, presence: Mapping[str, Any]) -> tuple[TensorSpec, ...]:
        """Return the inputs that a node with these attributes has on an NPU.

        MindSpore tells CANN the address of the n-th tensor of a node as that of the n-th tensor of the operator. So
        another one takes the place of an input that is absent.
        """
        given = self.given(presence)
        return tuple(tensor if tensor in given else given[0] for tensor in self.inputs)

    def aclnn_callback(self, presence: Mapping[str, Any]) -> str:
        """Return the name of the function that calls the aclnn function for such a node, without GetWorkSpaceSize."""
        given = self.given(presence)
        absent = "".join(f"_no_{tensor.name}" for tensor in self.inputs if tensor not in given)
        return f"aclnn{self.cann_type}{absent}"

    def attribute(self, name: str) -> AttributeSpec:
        """Return one attribute by its name."""
        return next(attribute for attribute in self.attributes if attribute.name == name)

    def check_attributes(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return every attribute by name: the given values, checked, and the defaults of the others."""
        for old, new in self._old_names.items():
            if old in values:
                warn_renamed(f"{self.name}: {old}", new, stacklevel=3)
                values = {new: values[old], **values}
        return {a.name: a.check(self.name, values.get(a.name, a.default)) for a in self.attributes}

    @cached_property
    def _old_names(self) -> dict[str, str]:
        return {attribute.formerly: attribute.name for attribute in self.attributes if attribute.formerly}


@dataclass(frozen=True)
class CounterpartSpec:
    """Names CANN's own operator that computes the same.

    `function` is MindSpore's, which takes the same tensors and then `arguments`, attributes of ours, and returns the
    same outputs. `when`: the values of attributes for which it is the same.
    """

    operator: str
    function: str
    arguments: tuple[str, ...] = ()
    when: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Survey:
    """Lists calls of an operator at the sizes of networks.

    `inputs` gives shapes of others than the first, by its dims.
    """

    shapes: tuple[tuple[int, ...], ...]  # of the first input
    attributes: Mapping[str, int]
    inputs: Mapping[str, tuple[int | None, ...]]  # positions of dims of the first input; None: 1

    def shape(self, name: str, first: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of an input where the first has this shape."""
        return tuple(1 if dim is None else first[dim] for dim in self.inputs[name])


@dataclass(frozen=True)
class OpSpec:
    """Describes one operator."""

    name: str
    summary: str
    forward: Signature
    gradient: Signature | None
    counterpart: CounterpartSpec | None = None
    layer: str = ""  # of `ms_ascend_ops.cells`, if there is one
    replaces: str = ""  # what users write, or call, without this library
    differentiable: tuple[str, ...] = ()  # inputs that have a gradient
    limits: Mapping[str, int] = field(default_factory=dict)  # the largest values that tiling and function accept
    inference_only: str | None = None  # there is no gradient on purpose; the text says what has one
    lowered: bool = False  # autocast brings its tensors to the lower dtype, as those of PyTorch's products
    survey: Survey | None = None  # how `profile --survey` calls it; None: it does not

    @property
    def no_gradient(self) -> str:
        """Return the error for a gradient that does not exist."""
        if self.inference_only is None:
            return "it has no gradient"
        return "; ".join(filter(None, ("it has no gradient: it is for inference", self.inference_only)))

    @property
    def version(self) -> int:
        return self.forward.version

    @property
    def signatures(self) -> tuple[Signature, ...]:
        return (self.forward, self.gradient) if self.gradient else (self.forward,)


def one_of(values: tuple[str, ...]) -> str:
    """Return the values as a sentence names them: 'a', 'b' or 'c'."""
    quoted = [f"'{value}'" for value in values]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def _to_float32(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.inf if value > 0 else -math.inf
