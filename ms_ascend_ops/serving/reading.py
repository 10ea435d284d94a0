"""Reads requests from bytes. Nothing here knows the server: large ones are read in another process."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ms_ascend_ops.serving.errors import BadRequest
from ms_ascend_ops.serving.tensors import Values, checked_datatype, checked_shape, from_bytes, from_numbers

__all__ = [
    "HEADER_LENGTH",
    "Inference",
    "Wanted",
    "checked_parameters",
    "parameters_of",
    "parsed",
    "read_inference",
    "timeout_of",
]

HEADER_LENGTH = "Inference-Header-Content-Length"
_MOST_VALUES = 1_000_000  # of a body of JSON that holds no tensors
_US = 1e-6


@dataclass(frozen=True)
class Wanted:
    """Describes an output that a request names, and whether it is to come as bytes."""

    name: str
    binary: bool


@dataclass(frozen=True)
class Inference:
    """Holds a request to run a network, read."""

    id: str | None
    inputs: Mapping[str, Values]
    wanted: tuple[Wanted, ...] | None  # None: all
    all_binary: bool
    timeout_s: float | None


def parsed(body: bytes | str, most: int | None = _MOST_VALUES) -> dict[str, Any]:
    """Parse the object of a body.

    Raises:
        BadRequest: it is no JSON, no object, or has more values than `most`, where one with a name counts as four.
    """
    data = body.encode(errors="replace") if isinstance(body, str) else body
    if most is not None and data.count(b",") + 4 * data.count(b":") > most:
        raise BadRequest(f"the body must have at most {most} values")
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:  # json.JSONDecodeError, UnicodeDecodeError; numbers of any length
        raise BadRequest(f"the body is not JSON: {str(error)[:200]}") from error
    if not isinstance(fields, dict):
        raise BadRequest(f"the body must be a JSON object, got {type(fields).__name__}")
    return fields


def read_inference(body: bytes, header_length: str | None) -> Inference:
    """Return what a request over HTTP says.

    Raises:
        BadRequest: it cannot be read.
    """
    header, tail = body, memoryview(b"")
    if header_length is not None:
        length = checked_length(header_length, len(body))
        header, tail = body[:length], memoryview(body)[length:]
    fields = parsed(header, most=None)
    identity = fields.get("id")
    if identity is not None and not isinstance(identity, str):
        raise BadRequest("id must be a text")
    parameters = parameters_of(fields)
    all_binary = _flag(parameters, "binary_data_output")
    given = fields.get("inputs")
    if not isinstance(given, list):
        raise BadRequest("inputs must be a list of tensors")
    inputs: dict[str, Values] = {}
    for entry in given:
        name = _entry_name(entry, "inputs")
        if name in inputs:
            raise BadRequest(f"input {name[:128]}: it is there twice")
        inputs[name], tail = _input(entry, name, tail)
    if len(tail):
        raise BadRequest(f"the body has {len(tail)} bytes more than the inputs")
    return Inference(identity, inputs, _wanted(fields.get("outputs"), all_binary), all_binary, timeout_of(parameters))


def checked_length(text: str, most: int) -> int:
    """Return the number of bytes that a header says.

    Raises:
        BadRequest: it is no number, or larger than `most`.
    """
    if not re.fullmatch(r"[0-9]{1,15}", text) or int(text) > most:
        raise BadRequest(f"{HEADER_LENGTH} must be a number of bytes of the body, got {text[:40]!r}")
    return int(text)


def timeout_of(parameters: Mapping[str, Any]) -> float | None:
    """Return seconds out of the parameter `timeout`, which is in microseconds as Triton has it; 0: none.

    Raises:
        BadRequest: it is no integer.
    """
    timeout = parameters.get("timeout", 0)
    if not isinstance(timeout, int) or isinstance(timeout, bool) or not 0 <= timeout < 2**63:
        raise BadRequest(f"parameters: timeout must be a number of microseconds, got {str(timeout)[:40]}")
    return timeout * _US if timeout else None


def checked_parameters(parameters: Mapping[str, Any]) -> None:
    """Refuse what is not there rather than ignore it.

    Raises:
        BadRequest: a parameter asks for sequences or shared memory.
    """
    for name in parameters:
        if name.startswith(("shared_memory", "sequence_")) or name == "classification":
            raise BadRequest(f"parameters: {name} is not supported")


def parameters_of(holder: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a request, an input or an output.

    Raises:
        BadRequest: they are no object, or one of them is not supported.
    """
    parameters = holder.get("parameters")
    if parameters is None:
        return {}
    if not isinstance(parameters, dict):
        raise BadRequest("parameters must be an object")
    checked_parameters(parameters)
    return parameters


def _input(entry: dict[str, Any], name: str, tail: memoryview) -> tuple[Values, memoryview]:
    datatype = checked_datatype(entry.get("datatype"), name)
    shape = checked_shape(entry.get("shape"), name)
    size = parameters_of(entry).get("binary_data_size")
    if size is None:
        if "data" not in entry:
            raise BadRequest(f"input {name[:128]}: it has neither data nor binary_data_size")
        return from_numbers(entry["data"], datatype, shape, name), tail
    if "data" in entry:
        raise BadRequest(f"input {name[:128]}: it has both data and binary_data_size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= len(tail):
        raise BadRequest(f"input {name[:128]}: binary_data_size must be at most the {len(tail)} bytes that are left")
    return from_bytes(tail[:size], datatype, shape, name), tail[size:]


def _wanted(outputs: Any, all_binary: bool) -> tuple[Wanted, ...] | None:
    if outputs is None:
        return None
    if not isinstance(outputs, list):
        raise BadRequest("outputs must be a list")
    wanted = []
    for entry in outputs:
        name, parameters = _entry_name(entry, "outputs"), parameters_of(entry)
        wanted.append(Wanted(name, _flag(parameters, "binary_data") if "binary_data" in parameters else all_binary))
    return tuple(wanted) or None


def _entry_name(entry: Any, field: str) -> str:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise BadRequest(f"{field} must be a list of objects with a name")
    name: str = entry["name"]
    return name


def _flag(parameters: Mapping[str, Any], name: str) -> bool:
    value = parameters.get(name, False)
    if not isinstance(value, bool):
        raise BadRequest(f"parameters: {name} must be true or false")
    return value
