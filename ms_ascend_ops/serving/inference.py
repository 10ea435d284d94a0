"""The Open Inference Protocol over HTTP (`/v2/...`): JSON, the binary tensor extension, the repository extension.

Source: https://github.com/kserve/open-inference-protocol, and the extensions that Triton's documentation describes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from ms_ascend_ops.serving.errors import BadRequest, Unavailable
from ms_ascend_ops.serving.http import answered, check_change, parsed, service_of
from ms_ascend_ops.serving.service import Service, Version
from ms_ascend_ops.serving.tensors import (
    Values,
    checked_datatype,
    checked_shape,
    from_bytes,
    from_numbers,
    to_bytes,
    to_numbers,
)
from ms_ascend_ops.version import __version__

__all__ = ["EXTENSIONS", "router"]

EXTENSIONS = ("binary_tensor_data", "model_repository")

_HEADER_LENGTH = "Inference-Header-Content-Length"
_MUCH_BYTES = 65536  # JSON that takes so long to read or write that it is not done in the event loop
_US = 1e-6

router = APIRouter(prefix="/v2", tags=["Open Inference Protocol"])


@dataclass(frozen=True)
class _Wanted:
    """An output that a request names, and whether it is to come as bytes."""

    name: str
    binary: bool


@dataclass(frozen=True)
class _Inference:
    """A request, read."""

    id: str | None
    inputs: Mapping[str, Values]
    wanted: tuple[_Wanted, ...] | None  # None: all
    all_binary: bool
    timeout_s: float | None


@router.get("")
async def server_metadata() -> dict[str, Any]:
    """Name, version and extensions of the server."""
    return {"name": "ms_ascend_ops", "version": __version__, "extensions": list(EXTENSIONS)}


@router.get("/health/live")
async def live() -> dict[str, Any]:
    """The server runs."""
    return {"live": True}


@router.get("/health/ready")
async def ready(request: Request) -> JSONResponse:
    """The server takes requests: its models are loaded, and it is not being stopped."""
    is_ready = service_of(request).ready
    return JSONResponse({"ready": is_ready}, 200 if is_ready else 503)


@router.get("/models/{name}")
@router.get("/models/{name}/versions/{version}")
async def model_metadata(request: Request, name: str, version: str | None = None) -> dict[str, Any]:
    """Inputs and outputs of a model, and its versions that are loaded."""
    return metadata(service_of(request), name, version)


@router.get("/models/{name}/ready")
@router.get("/models/{name}/versions/{version}/ready")
async def model_ready(request: Request, name: str, version: str | None = None) -> dict[str, Any]:
    """Whether a model is loaded; 404 if it is not."""
    found = _peek(service_of(request), name, version)
    return {"name": found.name, "ready": True}


@router.post("/models/{name}/infer")
@router.post("/models/{name}/versions/{version}/infer")
async def infer(request: Request, name: str, version: str | None = None) -> Response:
    """Run a network."""
    service = service_of(request)
    if not service.ready:
        raise Unavailable("the server is starting or stopping")
    body = await request.body()
    length = request.headers.get(_HEADER_LENGTH)
    if len(body) > _MUCH_BYTES and length is None:
        read = await asyncio.to_thread(_read, body, length)
    else:
        read = _read(body, length)
    chosen = service.version(name, version)
    with chosen.used():
        outputs = await answered(request, chosen.infer(read.inputs, read.timeout_s))
    if sum(output.array.nbytes for output in outputs) > _MUCH_BYTES and not read.all_binary:
        return await asyncio.to_thread(_answer, chosen, read, outputs)
    return _answer(chosen, read, outputs)


@router.post("/repository/index")
async def repository_index(request: Request) -> list[dict[str, str]]:
    """All models and versions, and whether they are loaded."""
    body = parsed(await request.body() or b"{}")
    only_ready = body.get("ready", False)
    if not isinstance(only_ready, bool):
        raise BadRequest(f"ready must be true or false, got {only_ready!r:.40}")
    return service_of(request).index(only_ready)


@router.post("/repository/models/{name}/load")
async def load(request: Request, name: str) -> dict[str, Any]:
    """Load a model, or load it again; with `parameters.config`, under other options than those of its file."""
    check_change(request)
    await service_of(request).load(name, override_of(_parameters(parsed(await request.body() or b"{}")).get("config")))
    return {}


@router.post("/repository/models/{name}/unload")
async def unload(request: Request, name: str) -> dict[str, Any]:
    """Take a model away; what it is working on is completed."""
    check_change(request)
    parsed(await request.body() or b"{}")
    await service_of(request).unload(name)
    return {}


@router.get("/repository/models/{name}/traffic")
async def traffic(request: Request, name: str) -> dict[str, Any]:
    """The shares of the versions of a model, of requests that name no version."""
    return {"traffic": {str(version): share for version, share in service_of(request).traffic(name).items()}}


@router.post("/repository/models/{name}/traffic")
async def set_traffic(request: Request, name: str) -> dict[str, Any]:
    """Change the shares: `{"traffic": {"1": 95, "2": 5}}`."""
    check_change(request)
    given = parsed(await request.body()).get("traffic")
    if not isinstance(given, dict) or not all(key.isascii() and key.isdecimal() and len(key) < 10 for key in given):
        raise BadRequest("traffic must be a map of versions to shares")
    service_of(request).set_traffic(name, {int(version): share for version, share in given.items()})
    return await traffic(request, name)


def metadata(service: Service, name: str, version: str | None) -> dict[str, Any]:
    """The metadata of a model.

    Raises:
        NotFound: it is not loaded.
    """
    found = _peek(service, name, version)
    return {
        "name": found.name,
        "versions": [str(one.number) for one in service.versions(name)],
        "platform": found.platform,
        "inputs": [spec.metadata() for spec in found.inputs],
        "outputs": [spec.metadata() for spec in found.outputs],
    }


def override_of(config: Any) -> Mapping[str, Any] | None:
    """Options out of the parameter `config` of a request to load a model.

    Raises:
        BadRequest: it is no JSON.
    """
    if config is None:
        return None
    if not isinstance(config, str):
        raise BadRequest("parameters: config must be JSON as a text")
    return parsed(config)


def timeout_of(parameters: Mapping[str, Any]) -> float | None:
    """Seconds out of the parameter `timeout`, which is in microseconds as Triton has it; 0: none.

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


def _peek(service: Service, name: str, version: str | None) -> Version:
    """A version, without using up a share of the traffic."""
    return service.version(name, version) if version else max(service.versions(name), key=lambda one: one.number)


def _read(body: bytes, header_length: str | None) -> _Inference:
    header, tail = body, memoryview(b"")
    if header_length is not None:
        if not (header_length.isascii() and header_length.isdecimal()) or int(header_length[:20]) > len(body):
            raise BadRequest(f"{_HEADER_LENGTH} must be a number of bytes of the body, got {header_length[:40]!r}")
        header, tail = body[: int(header_length)], memoryview(body)[int(header_length) :]
    fields = parsed(header)
    identity = fields.get("id")
    if identity is not None and not isinstance(identity, str):
        raise BadRequest("id must be a text")
    parameters = _parameters(fields)
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
    return _Inference(identity, inputs, _wanted(fields.get("outputs"), all_binary), all_binary, timeout_of(parameters))


def _input(entry: dict[str, Any], name: str, tail: memoryview) -> tuple[Values, memoryview]:
    datatype = checked_datatype(entry.get("datatype"), name)
    shape = checked_shape(entry.get("shape"), name)
    size = _parameters(entry).get("binary_data_size")
    if size is None:
        if "data" not in entry:
            raise BadRequest(f"input {name[:128]}: it has neither data nor binary_data_size")
        return from_numbers(entry["data"], datatype, shape, name), tail
    if "data" in entry:
        raise BadRequest(f"input {name[:128]}: it has both data and binary_data_size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= len(tail):
        raise BadRequest(f"input {name[:128]}: binary_data_size must be at most the {len(tail)} bytes that are left")
    return from_bytes(tail[:size], datatype, shape, name), tail[size:]


def _wanted(outputs: Any, all_binary: bool) -> tuple[_Wanted, ...] | None:
    if outputs is None:
        return None
    if not isinstance(outputs, list):
        raise BadRequest("outputs must be a list")
    wanted = []
    for entry in outputs:
        name, parameters = _entry_name(entry, "outputs"), _parameters(entry)
        wanted.append(_Wanted(name, _flag(parameters, "binary_data") if "binary_data" in parameters else all_binary))
    return tuple(wanted) or None


def _entry_name(entry: Any, field: str) -> str:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise BadRequest(f"{field} must be a list of objects with a name")
    name: str = entry["name"]
    return name


def _parameters(holder: Mapping[str, Any]) -> dict[str, Any]:
    parameters = holder.get("parameters")
    if parameters is None:
        return {}
    if not isinstance(parameters, dict):
        raise BadRequest("parameters must be an object")
    checked_parameters(parameters)
    return parameters


def _flag(parameters: Mapping[str, Any], name: str) -> bool:
    value = parameters.get(name, False)
    if not isinstance(value, bool):
        raise BadRequest(f"parameters: {name} must be true or false")
    return value


def selected(version: Version, names: list[str] | None) -> list[int]:
    """The positions of outputs that a request names.

    Raises:
        BadRequest: there is no such output.
    """
    known = [spec.name for spec in version.outputs]
    if names is None:
        return list(range(len(known)))
    if unknown := [name for name in names if name not in known]:
        raise BadRequest(f"{version.name} has no output {unknown[0][:128]!r}; it has {', '.join(known)}")
    return [known.index(name) for name in names]


def _answer(version: Version, read: _Inference, outputs: list[Values]) -> Response:
    positions = selected(version, None if read.wanted is None else [one.name for one in read.wanted])
    entries, tail = [], []
    for place, position in enumerate(positions):
        values = outputs[position]
        binary = read.all_binary if read.wanted is None else read.wanted[place].binary
        entry: dict[str, Any] = {
            "name": version.outputs[position].name,
            "datatype": values.datatype,
            "shape": list(values.array.shape),
        }
        if binary:
            tail.append(to_bytes(values))
            entry["parameters"] = {"binary_data_size": len(tail[-1])}
        else:
            entry["data"] = to_numbers(values)
        entries.append(entry)
    fields: dict[str, Any] = {"model_name": version.name, "model_version": str(version.number), "outputs": entries}
    if read.id is not None:
        fields["id"] = read.id
    header = json.dumps(fields).encode()
    if not tail:
        return Response(header, media_type="application/json")
    headers = {_HEADER_LENGTH: str(len(header))}
    return Response(b"".join([header, *tail]), media_type="application/octet-stream", headers=headers)
