"""The operator definitions (`ops/<op>.yaml`) as Python objects. The only reader of those files.

Needs no MindSpore: `kernels/codegen` uses it at build time.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import yaml

from ms_ascend_ops.deprecation import warn_renamed
from ms_ascend_ops.shapes import ShapeRule, Token
from ms_ascend_ops.suggestions import suggestion

__all__ = [
    "ACLNN_TYPES",
    "DTYPES",
    "AttributeSpec",
    "OpSpec",
    "Signature",
    "TensorSpec",
    "TwinSpec",
    "definition",
    "load",
    "names",
    "op_spec",
    "signature",
]

DTYPES = ("float16", "bfloat16", "float32", "int32", "int64", "int8")  # DataType in kernels/interface/launch_config.h

_DEFINITIONS = Path(__file__).parent / "ops"
_KEYS = frozenset(
    (
        "name",
        "summary",
        "version",
        "attributes",
        "types",
        "reasons",
        "values",
        "positive",
        "writes",
        "optional",
        "limits",
        "multiples",
        "forward",
        "gradient",
        "inference_only",
        "autocast",
        "survey",
        "cann",
    )
) | frozenset(("layer", "replaces", "differentiable"))  # for docs/operators.md
_IDENTIFIER = re.compile(r"[a-z][a-z0-9_]*")
_TENSOR = re.compile(r"(\w+)\[([^\]]*)\]")
# How the aclnn function of an operator takes an attribute; a choice is the index of its text.
ACLNN_TYPES = {"int": "int64_t", "float": "double", "bool": "bool", "string": "int64_t"}
# NumPy's scalars count as numbers.
_PYTHON_TYPES: dict[str, Any] = {"int": Integral, "float": Real, "bool": bool, "string": str}


# The loader in C, where PyYAML was built with it, takes a tenth of the time.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class TensorSpec:
    """One input or output. `dtype` is a dtype name or a dtype variable of the signature."""

    name: str
    dtype: str
    rule: ShapeRule
    optional: bool = False  # an input that may be absent


@dataclass(frozen=True)
class AttributeSpec:
    """One attribute: its type, default and the values it may have."""

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
        """Its name in the node of a graph. MindSpore 2.10 renames any `data_format`, and MindIR loses it."""
        return f"{self.name}_" if self.name == "data_format" else self.name

    def axis(self, value: Any) -> int:
        """The axis that a value names, or the int that it is."""
        if not self.axes:
            return int(value)
        return self.axes[self.choices.index(value) if self.choices else int(value)]

    def current(self, value: Any) -> Any:
        """The value as this release calls it; one of an earlier release, as files have it, is not complained of."""
        return dict(self.renamed).get(value, value) if isinstance(value, str) else value

    def check(self, op: str, value: Any, name: str = "") -> Any:
        """Return `value` as the kernel reads it. `op` and `name` say in a message what was called, and with what.

        Raises:
            TypeError: `value` has another type.
            ValueError: `value` is not allowed.
        """
        subject = f"{op}: {name or self.name}"
        if not isinstance(value, _PYTHON_TYPES[self.type]) or (isinstance(value, bool) and self.type != "bool"):
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
            raise ValueError(f"{subject} must be {_one_of(self.choices)}, got {value!r}")
        return value


@dataclass(frozen=True, eq=False)  # there is one of each, which may be a key
class Signature:
    """What one kernel takes and gives: the forward or the gradient of an operator."""

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
    # The values of an input with which the kernel does not stop itself, in words for its error.
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def entry(self) -> str:
        """Name of the entry point in the library: rms_norm_grad -> RmsNormGrad."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def cann_type(self) -> str:
        """Operator type in the CANN package; the prefix keeps it apart from CANN's own RmsNorm."""
        return f"MsAscendOps{self.entry}"

    @property
    def cann_outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs of the operator in the CANN package. An input that is changed in place is an output, too.

        That is how CANN's own in-place operators are registered: aclnn then copies a changed view back, and GE keeps
        the operator between those that write and read the tensor. Such outputs come last: MindSpore's graphs give
        nnopbase the address of an argument by its number (aclSetTensorAddr); the aclnn function has each only once.
        """
        return self.outputs + tuple(tensor for tensor in self.inputs if tensor.name in self.writes)

    def cann_constants(self, attributes: Mapping[str, Any]) -> tuple[Any, ...]:
        """The attributes as the aclnn function takes them, in the order of the definition."""
        return tuple(
            attribute.choices.index(attributes[attribute.name]) if attribute.choices else attributes[attribute.name]
            for attribute in self.attributes
        )

    @property
    def variables(self) -> tuple[str, ...]:
        """The dtype variables, in the order of the kernel's template parameters."""
        return tuple(self.types[0])

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all of this. The library has that of the definition it was built from."""
        return hashlib.sha256(json.dumps(asdict(self), default=sorted).encode()).hexdigest()[:16]

    @cached_property
    def presence(self) -> tuple[AttributeSpec, ...]:
        """The attributes of a node that say which optional inputs it has: `has_bias`."""
        return tuple(AttributeSpec(f"has_{t.name}", "bool", True) for t in self.inputs if t.optional)

    def given(self, presence: Mapping[str, Any]) -> tuple[TensorSpec, ...]:
        """The inputs that a node with these attributes has."""
        return tuple(t for t in self.inputs if not t.optional or presence.get(f"has_{t.name}", True))

    def npu_inputs(self, presence: Mapping[str, Any]) -> tuple[TensorSpec, ...]:
        """The inputs that a node with these attributes has on an NPU.

        MindSpore tells CANN the address of the n-th tensor of a node as that of the n-th tensor of the operator. So
        another one takes the place of an input that is absent.
        """
        given = self.given(presence)
        return tuple(tensor if tensor in given else given[0] for tensor in self.inputs)

    def aclnn_callback(self, presence: Mapping[str, Any]) -> str:
        """The name of the function that calls the aclnn function for such a node, without GetWorkSpaceSize."""
        given = self.given(presence)
        absent = "".join(f"_no_{tensor.name}" for tensor in self.inputs if tensor not in given)
        return f"aclnn{self.cann_type}{absent}"

    def attribute(self, name: str) -> AttributeSpec:
        """One attribute by its name."""
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
class TwinSpec:
    """CANN's own operator that computes the same.

    `function` is MindSpore's, which takes the same tensors and then `arguments`, attributes of ours, and returns the
    same outputs. `when`: the values of attributes for which it is the same.
    """

    operator: str
    function: str
    arguments: tuple[str, ...] = ()
    when: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Survey:
    """Calls of an operator at the sizes of networks. `inputs` gives shapes of others than the first, by its dims."""

    shapes: tuple[tuple[int, ...], ...]  # of the first input
    attributes: Mapping[str, int]
    inputs: Mapping[str, tuple[int | None, ...]]  # positions of dims of the first input; None: 1

    def shape(self, name: str, first: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of an input where the first has this shape."""
        return tuple(1 if dim is None else first[dim] for dim in self.inputs[name])


# One token of a few requests, the prompt of a 7-billion model, hidden states of a diffusion network.
_SURVEYED = ((64, 4096), (4096, 4096), (8192, 1280))


@dataclass(frozen=True)
class OpSpec:
    """One operator."""

    name: str
    summary: str
    forward: Signature
    gradient: Signature | None
    twin: TwinSpec | None = None
    layer: str = ""  # of `ms_ascend_ops.cells`, if there is one
    replaces: str = ""  # what users write, or call, without this library
    differentiable: tuple[str, ...] = ()  # inputs that have a gradient
    limits: Mapping[str, int] = field(default_factory=dict)  # the largest values that tiling and function accept
    inference_only: str | None = None  # there is no gradient on purpose; the text says what has one
    lowered: bool = False  # autocast brings its tensors to the lower dtype, as those of PyTorch's products
    survey: Survey | None = None  # how `profile --survey` calls it; None: it does not

    @property
    def no_gradient(self) -> str:
        """Return what is said to who asks for a gradient that there is not."""
        if self.inference_only is None:
            return "it has no gradient"
        return "; ".join(filter(None, ("it has no gradient: it is for inference", self.inference_only)))

    @property
    def version(self) -> int:
        return self.forward.version

    @property
    def signatures(self) -> tuple[Signature, ...]:
        return (self.forward, self.gradient) if self.gradient else (self.forward,)


def load(path: Path) -> OpSpec:
    """Read one definition.

    Raises:
        ValueError: the definition is wrong; the message names the file.
    """
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), _LOADER)
        if unknown := set(data) - _KEYS:
            raise ValueError(f"unknown keys {sorted(unknown)}")
        name = _identifier(data["name"])
        if name != path.stem:
            raise ValueError(f"name '{name}' must be the file's stem")
        attributes = tuple(_attribute(name, key, value) for key, value in (data.get("attributes") or {}).items())
        types = tuple(dict(row) for row in data["types"])
        if not types or not types[0] or any(list(row) != list(types[0]) for row in types):
            raise ValueError("every row of 'types' must name the same variables, at least one, in the same order")
        if bad := sorted({dtype for row in types for dtype in row.values()} - set(DTYPES)):
            raise ValueError(f"unknown dtypes {bad}")
        reasons, positive = dict(data.get("reasons") or {}), frozenset(data.get("positive") or ())
        multiples = dict(data.get("multiples") or {})
        version = data.get("version", 1)
        if not isinstance(version, int) or version < 1:
            raise ValueError(f"version must be a whole number from 1 on, got {version!r}")
        writes = tuple(data.get("writes") or ())
        optional = tuple(data.get("optional") or ())
        values = dict(data.get("values") or {})
        for key, given in (("writes", writes), ("optional", optional), ("values", values)):
            if others := [tensor for tensor in given if tensor not in data["forward"]["inputs"]]:
                raise ValueError(f"'{key}' must name inputs, got {others}")
        if both := [tensor for tensor in optional if tensor in writes]:
            raise ValueError(f"an input that is written to may not be optional, got {both}")

        def signature(key: str, signature_name: str) -> Signature:
            tensors = [
                tuple(_tensor(tensor, text, types[0], tensor in absent) for tensor, text in data[key][side].items())
                for side, absent in (("inputs", optional), ("outputs", ()))
            ]
            rows = types if key == "forward" else _used(types, tensors[0])
            changed = writes if key == "forward" else ()
            ruled = {tensor.name: values[tensor.name] for tensor in tensors[0] if tensor.name in values}
            fixed = reasons, positive, multiples, version, changed, ruled
            made = Signature(signature_name, tensors[0], tensors[1], attributes, rows, *fixed)
            _check_signature(made)
            return made

        forward = signature("forward", name)
        gradient = signature("gradient", f"{name}_grad") if "gradient" in data else None
        twin = _twin(forward, data["cann"]) if "cann" in data else None
        differentiable = _differentiable(forward, gradient, data.get("differentiable"))
        layer, replaces = data.get("layer", ""), data.get("replaces", "")
        limits = {_identifier(key): most for key, most in (data.get("limits") or {}).items()}
        if wrong := {key: most for key, most in limits.items() if not isinstance(most, int) or most < 1}:
            raise ValueError(f"'limits' must be whole numbers from 1 on, got {wrong}")
        without = data.get("inference_only")
        if without is not None and (gradient or without in ("", False)):
            raise ValueError("'inference_only' must be true, or say what has a gradient, where there is none")
        if data.get("autocast", "lower") != "lower":
            raise ValueError(f"'autocast' must be 'lower' or be left out, got {data['autocast']!r}")
        return OpSpec(
            name,
            data["summary"],
            forward,
            gradient,
            twin,
            layer,
            replaces,
            differentiable,
            limits,
            "" if without is True else without,
            "autocast" in data,
            _survey(forward, data["survey"]) if "survey" in data else None,
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: {error if not isinstance(error, KeyError) else f'{error} is missing'}") from error


@cache
def names() -> tuple[str, ...]:
    """Names of all operators."""
    return tuple(sorted(path.stem for path in _DEFINITIONS.glob("*.yaml")))


@cache
def op_spec(name: str) -> OpSpec:
    """The definition of one operator.

    Raises:
        ValueError: there is no such operator.
    """
    if name not in names():
        near = suggestion(name, names()) or f"; the operators are {', '.join(names())}"
        raise ValueError(f"there is no operator '{name}'{near}")
    return load(_DEFINITIONS / f"{name}.yaml")


@cache
def signature(name: str) -> Signature:
    """The signature of a kernel: `rms_norm` or `rms_norm_grad`.

    Raises:
        ValueError: there is no such operator, or it has no gradient.
    """
    if not name.endswith("_grad"):
        return op_spec(name).forward
    gradient = op_spec(name.removesuffix("_grad")).gradient
    if gradient is None:
        raise ValueError(f"the operator '{name.removesuffix('_grad')}' has no gradient")
    return gradient


def definition(name: str) -> Path:
    """The file that defines an operator."""
    return _DEFINITIONS / f"{op_spec(name).name}.yaml"


def _survey(forward: Signature, data: dict[str, Any] | None) -> Survey:
    given = data or {}
    if unknown := set(given) - {"shapes", "attributes", "inputs"}:
        raise ValueError(f"'survey' has unknown keys {sorted(unknown)}")
    attributes, inputs = dict(given.get("attributes") or {}), dict(given.get("inputs") or {})
    known = {tensor.name for tensor in forward.inputs} | {attribute.name for attribute in forward.attributes}
    if others := sorted({*attributes, *inputs} - known):
        raise ValueError(f"'survey' must name attributes and inputs, got {others}")
    shapes = tuple(map(tuple, given.get("shapes") or _SURVEYED))
    return Survey(shapes, attributes, {name: tuple(dims) for name, dims in inputs.items()})


def _differentiable(forward: Signature, gradient: Signature | None, given: list[str] | None) -> tuple[str, ...]:
    """Return those that the definition names, or those that the gradient kernel has an output for."""
    inputs = [tensor.name for tensor in forward.inputs]
    if given is None:
        outputs = [tensor.name for tensor in gradient.outputs] if gradient else []
        for output in outputs:
            if output not in [f"d{name}" for name in inputs]:
                raise ValueError(
                    f"gradient: the output '{output}' must be the gradient of an input, "
                    f"{_one_of(tuple(f'd{name}' for name in inputs))}; if it is something else, 'differentiable' must "
                    "list the inputs that have a gradient"
                )
        return tuple(name for name in inputs if f"d{name}" in outputs)
    if unknown := [name for name in given if name not in inputs]:
        raise ValueError(f"differentiable: {', '.join(unknown)} is no input")
    return tuple(given)


def _attribute(op: str, name: str, data: Mapping[str, Any]) -> AttributeSpec:
    if data["type"] not in _PYTHON_TYPES:
        raise ValueError(f"attribute '{name}': type must be {_one_of(tuple(_PYTHON_TYPES))}, got {data['type']!r}")
    spec = AttributeSpec(
        _identifier(name),
        data["type"],
        data["default"],
        tuple(data.get("choices", ())),
        data.get("exclusive_minimum"),
        tuple(data.get("axes", ())),
        data.get("formerly", ""),
        tuple(data.get("renamed", {}).items()),
    )
    if unknown := [new for _, new in spec.renamed if new not in spec.choices]:
        raise ValueError(f"attribute '{name}': 'renamed' must lead to choices, got {', '.join(unknown)}")
    if spec.axes and len(spec.axes) != (2 if spec.type == "bool" else len(spec.choices)):
        raise ValueError(f"attribute '{name}': 'axes' must give an axis for each choice")
    if spec.type == "string" and not spec.choices:
        raise ValueError(f"attribute '{name}': a string needs choices")
    spec.check(op, spec.default)
    return spec


def _tensor(name: str, text: str, variables: Mapping[str, str], optional: bool) -> TensorSpec:
    match = _TENSOR.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"tensor '{name}' must be written DTYPE[shape rule], got '{text}'")
    if match[1] not in variables and match[1] not in DTYPES:
        raise ValueError(f"tensor '{name}': '{match[1]}' is neither a dtype nor a dtype variable")
    return TensorSpec(_identifier(name), match[1], ShapeRule.parse(match[2]), optional)


def _twin(signature: Signature, data: Mapping[str, Any]) -> TwinSpec:
    twin = TwinSpec(
        data["operator"], data["function"], tuple(data.get("arguments") or ()), dict(data.get("when") or {})
    )
    known = {attribute.name for attribute in signature.attributes}
    if unknown := (set(twin.arguments) | set(twin.when)) - known:
        raise ValueError(f"cann: {sorted(unknown)} are no attributes")
    if free := known - set(twin.arguments) - set(twin.when):
        raise ValueError(f"cann: the attributes {sorted(free)} must stand in 'arguments' or 'when'")
    return twin


def _used(types: tuple[dict[str, str], ...], inputs: tuple[TensorSpec, ...]) -> tuple[dict[str, str], ...]:
    """The rows of `types` with the variables that a gradient's inputs have; rows that become the same are one."""
    used = {tensor.dtype for tensor in inputs}
    rows = [{variable: dtype for variable, dtype in row.items() if variable in used} for row in types]
    return tuple(row for i, row in enumerate(rows) if row not in rows[:i])


def _check_sizes(signature: Signature) -> None:
    """Multiples, and rules with several '*' tokens next to each other."""
    telling = [tensor for tensor in signature.inputs if tensor.rule.plain and not tensor.optional]
    told = {token.symbol for tensor in telling for token in tensor.rule.tokens if token.binds}
    positive = {a.name for a in signature.attributes if a.type == "int" and a.exclusive_minimum == 0}
    tokens = [token for tensor in signature.inputs for token in tensor.rule.tokens]
    single = {token.symbol for token in tokens if token.symbol and not token.star}
    for symbol, divisor in signature.multiples.items():
        if symbol not in single or divisor not in positive | single:
            raise ValueError(
                f"{signature.name}: multiples: '{divisor}' must be an int attribute > 0 or one dim, '{symbol}' one dim"
            )
    for tensor in signature.inputs:
        for side in (tensor.rule.before, tensor.rule.after):
            runs = [token for token in side if token.star]
            if len(runs) > 1 and sum(token.symbol not in told for token in runs) > 1:
                raise ValueError(
                    f"{signature.name}: no other input tells the lengths of the '*' tokens of {tensor.name}"
                )


def _check_signature(signature: Signature) -> None:
    tokens = [token for tensor in signature.inputs for token in tensor.rule.tokens]
    bound = {token.symbol for token in tokens if token.binds}
    required = [tensor for tensor in signature.inputs if not tensor.optional]
    always = {token.symbol for tensor in required for token in tensor.rule.tokens if token.binds}
    stars = {token.symbol for token in tokens if token.star and not token.broadcasts}
    integers = {attribute.name for attribute in signature.attributes if attribute.type == "int"}
    axes = integers | {attribute.name for attribute in signature.attributes if attribute.axes}
    _check_sizes(signature)
    earlier: set[str] = set()
    for tensor in signature.inputs + signature.outputs:
        for token in tensor.rule.tokens:
            if token.broadcasts and (tensor in signature.outputs or token.symbol not in earlier):
                mark, needed = ("~", f"'*{token.symbol}' or ") if token.star else ("?", "")
                raise ValueError(
                    f"{signature.name}: '{mark}{token.symbol}' of {tensor.name} needs an earlier input's "
                    f"{needed}'{token.symbol}'"
                )
            if token.window:
                _check_window(signature, tensor, token, always - stars)
            if token.symbol and token.symbol not in bound:
                raise ValueError(f"{signature.name}: '{token.symbol}' of {tensor.name} stands in no input")
            if token.symbol and tensor in signature.outputs and token.symbol not in always:
                raise ValueError(f"{signature.name}: '{token.symbol}' of {tensor.name} stands in optional inputs only")
            both = token.broadcasts and token.star  # what ~ broadcasts to may be one dim
            if token.symbol and not both and token.star != (token.symbol in stars):
                raise ValueError(f"{signature.name}: '{token.symbol}' is used with and without '*'")
            if token.attribute and token.attribute not in axes:
                raise ValueError(f"{signature.name}: '@{token.attribute}' must name an int attribute")
            if set(token.sizes) - integers:
                raise ValueError(f"{signature.name}: '={'+'.join(token.sizes)}' must name an int attribute")
        earlier |= {token.symbol for token in tensor.rule.tokens if token.binds}
        if tensor in signature.outputs:
            _check_place(signature, tensor)
    free = set(signature.variables) - {tensor.dtype for tensor in signature.inputs}
    if free:
        raise ValueError(f"{signature.name}: dtype variables {sorted(free)} stand in no input")
    free = {t.dtype for t in signature.outputs if t.dtype in signature.variables} - {t.dtype for t in required}
    if free:
        raise ValueError(f"{signature.name}: dtype variables {sorted(free)} of outputs stand in optional inputs only")


def _check_window(signature: Signature, tensor: TensorSpec, token: Token, dims: set[str]) -> None:
    """`dims`: symbols that an input always tells."""
    integers = {attribute.name for attribute in signature.attributes if attribute.type == "int"}
    if tensor in signature.inputs or set(token.window[1:]) - integers:
        raise ValueError(
            f"{signature.name}: a window of {tensor.name} must be of an output, and name four int attributes"
        )
    if not {token.symbol, token.window[0]} <= dims:
        raise ValueError(
            f"{signature.name}: '{token.symbol}' and '{token.window[0]}' of {tensor.name} must be dims of inputs"
        )


def _check_place(signature: Signature, tensor: TensorSpec) -> None:
    """No input says whether a dim of an output can stand where an attribute puts it: every choice has to fit."""
    rule = tensor.rule
    if rule.anchor is None or not rule.moves:
        return
    axes, tail = signature.attribute(rule.anchor.attribute).axes, rule.tail
    last = tail - 1 if rule.fixed else -1
    if not axes or any(not -tail <= axis <= last for axis in axes):
        raise ValueError(
            f"{signature.name}: '@{rule.anchor.attribute}' of {tensor.name} must name a string or bool attribute with "
            f"axes in [-{tail}, {last}]"
        )


def _identifier(name: str) -> str:
    if not _IDENTIFIER.fullmatch(name):
        raise ValueError(f"'{name}' must be lower_case_with_underscores")
    return name


def _one_of(values: tuple[str, ...]) -> str:
    quoted = [f"'{value}'" for value in values]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def _to_float32(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.inf if value > 0 else -math.inf
