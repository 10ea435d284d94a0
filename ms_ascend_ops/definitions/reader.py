"""Reads definitions of operators (`ops/<op>.yaml`) and checks them, as nothing else does. Needs no MindSpore."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ms_ascend_ops.definitions.checks import check_signature
from ms_ascend_ops.definitions.shapes import ShapeRule
from ms_ascend_ops.definitions.signature import (
    DTYPES,
    PYTHON_TYPES,
    AttributeSpec,
    CounterpartSpec,
    OpSpec,
    Signature,
    Survey,
    TensorSpec,
    one_of,
)

__all__ = ["load"]

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
# The loader in C, where PyYAML was built with it, takes a tenth of the time.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# One token of a few requests, the prompt of a 7-billion model, hidden states of a diffusion network.
_SURVEYED = ((64, 4096), (4096, 4096), (8192, 1280))


def load(path: Path) -> OpSpec:
    """Read one definition.

    Raises:
        ValueError: the definition is wrong; the message names the file.
    """
    try:
        return _operator(path.stem, yaml.load(path.read_text(encoding="utf-8"), _LOADER))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: {error if not isinstance(error, KeyError) else f'{error} is missing'}") from error


def _operator(stem: str, data: Mapping[str, Any]) -> OpSpec:
    if unknown := set(data) - _KEYS:
        raise ValueError(f"unknown keys {sorted(unknown)}")
    name = _identifier(data["name"])
    if name != stem:
        raise ValueError(f"name '{name}' must be the file's stem")
    forward, gradient = _signatures(name, data)
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
        counterpart=_counterpart(forward, data["cann"]) if "cann" in data else None,
        layer=data.get("layer", ""),
        replaces=data.get("replaces", ""),
        differentiable=_differentiable(forward, gradient, data.get("differentiable")),
        limits=_limits(data),
        inference_only="" if without is True else without,
        lowered="autocast" in data,
        survey=_survey(forward, data["survey"]) if "survey" in data else None,
    )


def _signatures(name: str, data: Mapping[str, Any]) -> tuple[Signature, Signature | None]:
    """Return the signatures of the kernel, and of that of the gradient, if there is one."""
    types, writes, optional = _types(data), tuple(data.get("writes") or ()), tuple(data.get("optional") or ())
    values = dict(data.get("values") or {})
    for key, given in (("writes", writes), ("optional", optional), ("values", values)):
        if others := [tensor for tensor in given if tensor not in data["forward"]["inputs"]]:
            raise ValueError(f"'{key}' must name inputs, got {others}")
    if both := [tensor for tensor in optional if tensor in writes]:
        raise ValueError(f"an input that is written to may not be optional, got {both}")
    common: dict[str, Any] = {
        "attributes": tuple(_attribute(name, key, value) for key, value in (data.get("attributes") or {}).items()),
        "reasons": dict(data.get("reasons") or {}),
        "positive": frozenset(data.get("positive") or ()),
        "multiples": dict(data.get("multiples") or {}),
        "version": _version(data),
    }

    def signature(key: str, signature_name: str) -> Signature:
        inputs, outputs = (
            tuple(_tensor(tensor, text, types[0], tensor in absent) for tensor, text in data[key][side].items())
            for side, absent in (("inputs", optional), ("outputs", ()))
        )
        made = Signature(
            signature_name,
            inputs,
            outputs,
            types=types if key == "forward" else _used(types, inputs),
            writes=writes if key == "forward" else (),
            values={tensor.name: values[tensor.name] for tensor in inputs if tensor.name in values},
            **common,
        )
        check_signature(made)
        return made

    return signature("forward", name), signature("gradient", f"{name}_grad") if "gradient" in data else None


def _types(data: Mapping[str, Any]) -> tuple[dict[str, str], ...]:
    types = tuple(dict(row) for row in data["types"])
    if not types or not types[0] or any(list(row) != list(types[0]) for row in types):
        raise ValueError("every row of 'types' must name the same variables, at least one, in the same order")
    if bad := sorted({dtype for row in types for dtype in row.values()} - set(DTYPES)):
        raise ValueError(f"unknown dtypes {bad}")
    return types


def _version(data: Mapping[str, Any]) -> int:
    version = data.get("version", 1)
    if not isinstance(version, int) or version < 1:
        raise ValueError(f"version must be a whole number from 1 on, got {version!r}")
    return version


def _limits(data: Mapping[str, Any]) -> dict[str, int]:
    limits = {_identifier(key): most for key, most in (data.get("limits") or {}).items()}
    if wrong := {key: most for key, most in limits.items() if not isinstance(most, int) or most < 1}:
        raise ValueError(f"'limits' must be whole numbers from 1 on, got {wrong}")
    return limits


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
                    f"{one_of(tuple(f'd{name}' for name in inputs))}; if it is something else, 'differentiable' must "
                    "list the inputs that have a gradient"
                )
        return tuple(name for name in inputs if f"d{name}" in outputs)
    if unknown := [name for name in given if name not in inputs]:
        raise ValueError(f"differentiable: {', '.join(unknown)} is no input")
    return tuple(given)


def _attribute(op: str, name: str, data: Mapping[str, Any]) -> AttributeSpec:
    if data["type"] not in PYTHON_TYPES:
        raise ValueError(f"attribute '{name}': type must be {one_of(tuple(PYTHON_TYPES))}, got {data['type']!r}")
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


def _counterpart(signature: Signature, data: Mapping[str, Any]) -> CounterpartSpec:
    counterpart = CounterpartSpec(
        data["operator"], data["function"], tuple(data.get("arguments") or ()), dict(data.get("when") or {})
    )
    known = {attribute.name for attribute in signature.attributes}
    if unknown := (set(counterpart.arguments) | set(counterpart.when)) - known:
        raise ValueError(f"cann: {sorted(unknown)} are no attributes")
    if free := known - set(counterpart.arguments) - set(counterpart.when):
        raise ValueError(f"cann: the attributes {sorted(free)} must stand in 'arguments' or 'when'")
    return counterpart


def _used(types: tuple[dict[str, str], ...], inputs: tuple[TensorSpec, ...]) -> tuple[dict[str, str], ...]:
    """Return the rows of `types` with the variables that a gradient's inputs have.

    Rows that become the same are one.
    """
    used = {tensor.dtype for tensor in inputs}
    rows = [{variable: dtype for variable, dtype in row.items() if variable in used} for row in types]
    return tuple(row for i, row in enumerate(rows) if row not in rows[:i])


def _identifier(name: str) -> str:
    if not _IDENTIFIER.fullmatch(name):
        raise ValueError(f"'{name}' must be lower_case_with_underscores")
    return name
