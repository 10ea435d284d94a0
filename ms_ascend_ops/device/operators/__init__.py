"""Computes CANN's own operators on the emulated device with NumPy: a function for each row of ../aclnn.txt.

The device process calls `run` for each call that is no kernel of a package.
"""

from __future__ import annotations

import inspect
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ms_ascend_ops.device.aclnn_table import Parameter, Row, rows
from ms_ascend_ops.device.operators import communication
from ms_ascend_ops.device.operators.calls import read_call
from ms_ascend_ops.device.operators.internal_kernels import run_internal
from ms_ascend_ops.device.operators.memory import Tensor, write_shapes

__all__ = ["computations", "run"]

_MODULES = (
    "attention",
    "convolutions",
    "elementwise",
    "experts",
    "graph_engine",
    "graph_engine_arrays",
    "graph_engine_layers",
    "graph_engine_more",
    "indexing",
    "lists",
    "losses",
    "normalization",
    "pooling",
    "products",
    "quantization",
    "random",
    "reductions",
    "resizing",
    "sampling",
    "shapes",
    "updates",
)
_GRAPH_ENGINE = "aclop:"
_INTERNAL = "internal:"  # MindSpore's own kernels
_thread = threading.local()


@dataclass(frozen=True, slots=True)
class _Operator:
    """Holds a row with what computes it."""

    row: Row
    computation: Callable[..., Any]
    wants_outputs: bool  # as the keyword `outputs`: their shapes and dtypes
    unread: frozenset[int]  # the arguments whose names begin with `_`: what is in their memory makes no difference


def run(data: bytes) -> str | None:
    """Compute a call of the host's libraries (kernels/device/protocol/call.h) in device memory; the text of a fault."""
    name, values = read_call(data)
    operator = _operators().get(name.removeprefix(_GRAPH_ENGINE))
    if operator is None and not name.startswith((_INTERNAL, communication.PREFIX)):
        return f"{name} is not emulated: ms_ascend_ops/device/aclnn.txt has no row for it"
    if not hasattr(_thread, "quiet"):
        _thread.quiet = np.seterr(all="ignore")  # as on the device: what overflows is infinite
    try:
        if name.startswith(communication.PREFIX):
            communication.communicate(name, values)
        elif operator is None:
            run_internal(name.removeprefix(_INTERNAL), values)
        elif name.startswith(_GRAPH_ENGINE):
            _run_of_graph_engine(operator, values)
        else:
            _run(operator, values)
    except Exception as error:  # an operator's fault is the program's, not this process's
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{name}: {error} ({type(error).__name__}, {Path(place.filename).name}:{place.lineno})"
    return None


@cache
def computations() -> Mapping[str, Callable[..., Any]]:
    """Return, by their names, the public functions of the modules, and their tables OPERATORS."""
    found: dict[str, Callable[..., Any]] = {}
    for module in (import_module(f"{__name__}.{stem}") for stem in _MODULES):
        named = getattr(module, "OPERATORS", {}) | {
            name: value
            for name, value in vars(module).items()
            if not name.startswith("_") and inspect.isfunction(value) and value.__module__ == module.__name__
        }
        if twice := found.keys() & named.keys():
            raise ValueError(f"two modules compute {', '.join(sorted(twice))}")
        found |= named
    return found


@cache
def _operators() -> Mapping[str, _Operator]:
    functions = computations()
    if absent := sorted({row.computation for row in rows().values()} - functions.keys()):
        raise ValueError(f"nothing computes {', '.join(absent)}")
    return {
        name: _Operator(row, function, _wants_outputs(function), _unread(function))
        for name, row in rows().items()
        for function in [functions[row.computation]]
    }


def _wants_outputs(function: Callable[..., Any]) -> bool:
    return inspect.isfunction(function) and "outputs" in inspect.signature(function).parameters


def _unread(function: Callable[..., Any]) -> frozenset[int]:
    if not inspect.isfunction(function):
        return frozenset()
    return frozenset(i for i, name in enumerate(inspect.signature(function).parameters) if name.startswith("_"))


def _run(operator: _Operator, values: list[Any]) -> None:
    given = list(zip(operator.row.parameters, values, strict=False))
    read = [pair for pair in given if pair[0].is_input]
    inputs = [
        None if place in operator.unread and isinstance(value, Tensor) else _input(parameter, value)
        for place, (parameter, value) in enumerate(read)
    ]
    outputs = [value for parameter, value in given if parameter.is_output]
    keywords = {"outputs": outputs} if operator.wants_outputs else {}
    results = _as_tuple(operator.computation(*inputs, **keywords))
    if operator.row.is_dynamic:
        outputs = write_shapes(values[-1], outputs, results)
    _store(outputs, results)


def _run_of_graph_engine(operator: _Operator, values: list[Any]) -> None:
    """See kernels/device/opapi/aclop.cpp for the order of the values."""
    count, all_tensors = values[0], values[0] + values[1]
    named = values[2 + 3 * all_tensors :]
    tensors = [values[3 + 3 * i : 5 + 3 * i] for i in range(all_tensors)]
    parameters = operator.row.parameters
    places = [parameter for parameter in parameters if parameter.kind in {"tensor", "tensors"}]
    inputs = [parameter for parameter in places if parameter.is_input]
    made = [parameter for parameter in places if parameter.mark == ">"]
    given_outputs: list[Any] = [pair[0] for pair in tensors[count:]]
    if made and made[-1].kind == "tensors":
        given_outputs[len(made) - 1 :] = [given_outputs[len(made) - 1 :]]
    outputs = dict(zip([parameter.name for parameter in made], given_outputs, strict=False))
    given = [
        None if tensor is None or place in operator.unread else tensor.read(constant)
        for place, (tensor, constant) in enumerate(tensors[:count])
    ]
    if [parameter.kind for parameter in inputs] == ["tensors"]:
        given = [given]
    known = {parameter.name for parameter in parameters}
    keywords = {name: value for name, value in zip(named[0::2], named[1::2], strict=True) if name in known}
    if operator.wants_outputs:
        keywords["outputs"] = [*outputs.values()]
    results = _as_tuple(operator.computation(*given[: len(inputs)], **keywords))
    changed = {one.name: tensors[place][0] for place, one in enumerate(inputs) if one.mark == "&"}
    # An argument that is changed in place may be an output, too, at another position.
    for name, result in zip(dict.fromkeys([*changed, *outputs]), results, strict=False):
        _store([changed.get(name), outputs.get(name)], [result, result])


def _as_tuple(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def _input(parameter: Parameter, value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.read()
    if parameter.kind == "tensors" and value is not None:
        return [tensor.read() for tensor in value]
    return bool(value) if parameter.kind == "bool" else value


def _store(outputs: Iterable[Any], results: Iterable[Any]) -> None:
    """Write results into outputs; where either is absent, memory stays as it is."""
    for output, result in zip(outputs, results, strict=True):
        if output is None or result is None:
            continue
        pairs = [(output, result)] if isinstance(output, Tensor) else zip(output, result, strict=True)
        for tensor, value in pairs:
            tensor.write(value)
