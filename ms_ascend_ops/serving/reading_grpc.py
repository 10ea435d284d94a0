"""Reads requests over gRPC from bytes, as reading.py does for HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from ms_ascend_ops.serving.errors import BadRequest
from ms_ascend_ops.serving.messages import message
from ms_ascend_ops.serving.reading import checked_parameters, timeout_of
from ms_ascend_ops.serving.tensors import (
    DATATYPES,
    Values,
    checked_datatype,
    checked_shape,
    from_bytes,
    from_numbers,
)

__all__ = ["Call", "parameters_in", "read_call", "read_message"]

# The field of InferTensorContents that a datatype is in. 16-bit floats have none: they come as bytes only.
_CONTENTS = {
    "BOOL": "bool_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
}


@dataclass(frozen=True)
class Call:
    """Holds a request to run a network, read."""

    name: str
    version: str | None
    id: str
    inputs: Mapping[str, Values]
    outputs: list[str] | None  # None: all
    timeout_s: float | None


def read_call(data: bytes) -> Call:
    """Return what a request to run a network says.

    Raises:
        BadRequest: it cannot be read.
    """
    request = read_message(message("ModelInferRequest"), data)
    parameters = parameters_in(request.parameters)
    checked_parameters(parameters)
    names = [_output_name(output) for output in request.outputs] or None
    return Call(
        request.model_name, request.model_version or None, request.id, _inputs(request), names, timeout_of(parameters)
    )


def read_message(kind: Any, data: bytes) -> Any:
    """Read a message of a kind.

    Raises:
        BadRequest: it is none.
    """
    try:
        return kind.FromString(data)
    # The implementation in Python, which MindSpore asks for where it is imported first, raises the others, too.
    except (DecodeError, RecursionError, ValueError) as error:
        raise BadRequest(f"the request is no {kind.DESCRIPTOR.name}") from error


def _inputs(request: Any) -> dict[str, Values]:
    raw: Sequence[bytes] = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise BadRequest(
            f"raw_input_contents must be empty or one for each of {len(request.inputs)} inputs, got {len(raw)}"
        )
    inputs: dict[str, Values] = {}
    for index, entry in enumerate(request.inputs):
        name = entry.name
        if name in inputs:
            raise BadRequest(f"input {name[:128]}: it is there twice")
        checked_parameters(parameters_in(entry.parameters))
        datatype = checked_datatype(entry.datatype, name)
        shape = checked_shape(list(entry.shape), name)
        if raw:
            if entry.HasField("contents"):
                raise BadRequest(f"input {name[:128]}: it has contents beside raw_input_contents")
            inputs[name] = from_bytes(raw[index], datatype, shape, name)
            continue
        if datatype not in _CONTENTS:
            raise BadRequest(f"input {name[:128]}: {datatype} must be in raw_input_contents")
        odd = [field.name for field, _ in entry.contents.ListFields() if field.name != _CONTENTS[datatype]]
        if odd:
            raise BadRequest(f"input {name[:128]}: {datatype} must be in {_CONTENTS[datatype]}, got {odd[0]}")
        numbers = list(getattr(entry.contents, _CONTENTS[datatype]))
        if datatype in ("FP32", "FP64"):  # NaN and infinities are numbers here
            inputs[name] = from_bytes(np.array(numbers, DATATYPES[datatype]).tobytes(), datatype, shape, name)
        else:
            inputs[name] = from_numbers(numbers, datatype, shape, name)
    return inputs


def _output_name(output: Any) -> str:
    checked_parameters(parameters_in(output.parameters))
    name: str = output.name
    return name


def parameters_in(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a message."""
    values = {}
    for name, parameter in parameters.items():
        kind = parameter.WhichOneof("parameter_choice")
        values[name] = None if kind is None else getattr(parameter, kind)
    return values
