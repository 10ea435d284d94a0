"""Implements the Open Inference Protocol over HTTP (`/v2/...`): JSON, the binary tensor extension, the
repository extension.

Source: https://github.com/kserve/open-inference-protocol, and the extensions that Triton's documentation describes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from ms_ascend_ops.serving.descriptions import BODIES
from ms_ascend_ops.serving.errors import BadRequest, Unavailable
from ms_ascend_ops.serving.http import answered, check_change, object_of, service_of
from ms_ascend_ops.serving.reading import HEADER_LENGTH, Inference, parameters_of, parsed
from ms_ascend_ops.serving.service import Service, Version
from ms_ascend_ops.serving.statistics import config_of, statistics_of
from ms_ascend_ops.serving.tensors import Values, to_bytes, to_numbers
from ms_ascend_ops.version import __version__

__all__ = ["EXTENSIONS", "peek", "router", "statistics"]

EXTENSIONS = ("binary_tensor_data", "model_configuration", "model_repository", "statistics")

_MUCH_BYTES = 65536  # numbers that take so long to write that it is not done in the event loop
_RUN = 8192  # numbers that are written at once: the event loop waits for no more

router = APIRouter(prefix="/v2", tags=["Open Inference Protocol"])


@router.get("")
async def server_metadata() -> dict[str, Any]:
    """Name, version and extensions of the server."""
    return {"name": "ms_ascend_ops", "version": __version__, "extensions": list(EXTENSIONS)}


@router.get("/health/live")
async def live() -> dict[str, Any]:
    """Return whether the server runs."""
    return {"live": True}


@router.get("/health/ready")
async def ready(request: Request) -> JSONResponse:
    """Return whether the server takes requests: its models are loaded, and it is not being stopped."""
    is_ready = service_of(request).ready
    return JSONResponse({"ready": is_ready}, 200 if is_ready else 503)


@router.get("/models/stats")
@router.get("/models/{name}/stats")
@router.get("/models/{name}/versions/{version}/stats")
async def model_statistics(request: Request, name: str = "", version: str | None = None) -> dict[str, Any]:
    """Return counts and times of a version, of all of a model, or of all models."""
    return {"model_stats": statistics(service_of(request), name, version)}


@router.get("/models/{name}")
@router.get("/models/{name}/versions/{version}")
async def model_metadata(request: Request, name: str, version: str | None = None) -> dict[str, Any]:
    """Return inputs and outputs of a model, and its versions that are loaded."""
    return metadata(service_of(request), name, version)


@router.get("/models/{name}/ready")
@router.get("/models/{name}/versions/{version}/ready")
async def model_ready(request: Request, name: str, version: str | None = None) -> dict[str, Any]:
    """Tell whether a model is loaded; 404 if it is not."""
    found = peek(service_of(request), name, version)
    return {"name": found.name, "ready": True}


@router.get("/models/{name}/config")
@router.get("/models/{name}/versions/{version}/config")
async def model_config(request: Request, name: str, version: str | None = None) -> dict[str, Any]:
    """Return the configuration of a model, as Triton has it."""
    return config_of(peek(service_of(request), name, version))


@router.post("/models/{name}/infer", openapi_extra=BODIES["infer"])
@router.post("/models/{name}/versions/{version}/infer", openapi_extra=BODIES["infer"])
async def infer(request: Request, name: str, version: str | None = None) -> Response:
    """Run a network."""
    service = service_of(request)
    if not service.ready:
        raise Unavailable("the server is starting or stopping")
    read = await service.reader.inference(await request.body(), request.headers.get(HEADER_LENGTH))
    chosen = service.version(name, version)
    with chosen.used():
        outputs = await answered(request, chosen.infer(read.inputs, read.timeout_s))
    if sum(output.array.nbytes for output in outputs) > _MUCH_BYTES and not read.all_binary:
        return await asyncio.to_thread(_answer, chosen, read, outputs)
    return _answer(chosen, read, outputs)


@router.post("/repository/index", openapi_extra=BODIES["index"])
async def repository_index(request: Request) -> list[dict[str, str]]:
    """Return all models and versions, and whether they are loaded."""
    body = await object_of(request)
    only_ready = body.get("ready", False)
    if not isinstance(only_ready, bool):
        raise BadRequest(f"ready must be true or false, got {only_ready!r:.40}")
    return service_of(request).index(only_ready)


@router.post("/repository/models/{name}/load", openapi_extra=BODIES["load"])
async def load(request: Request, name: str) -> dict[str, Any]:
    """Load a model, or load it again; with `parameters.config`, under other options than those of its file."""
    check_change(request)
    await service_of(request).load(name, override_of(parameters_of(await object_of(request)).get("config")))
    return {}


@router.post("/repository/models/{name}/unload", openapi_extra=BODIES["unload"])
async def unload(request: Request, name: str) -> dict[str, Any]:
    """Take a model away; what it is working on is completed."""
    check_change(request)
    await object_of(request)
    await service_of(request).unload(name)
    return {}


@router.get("/repository/models/{name}/traffic")
async def traffic(request: Request, name: str) -> dict[str, Any]:
    """Return the shares of the versions of a model, of requests that name no version."""
    return {"traffic": {str(version): share for version, share in service_of(request).traffic(name).items()}}


@router.post("/repository/models/{name}/traffic", openapi_extra=BODIES["traffic"])
async def set_traffic(request: Request, name: str) -> dict[str, Any]:
    """Change the shares: `{"traffic": {"1": 95, "2": 5}}`."""
    check_change(request)
    given = (await object_of(request)).get("traffic")
    if not isinstance(given, dict) or not all(key.isascii() and key.isdecimal() and len(key) < 10 for key in given):
        raise BadRequest("traffic must be a map of versions to shares")
    service_of(request).set_traffic(name, {int(version): share for version, share in given.items()})
    return await traffic(request, name)


def metadata(service: Service, name: str, version: str | None) -> dict[str, Any]:
    """Return the metadata of a model.

    Raises:
        NotFound: it is not loaded.
    """
    found = peek(service, name, version)
    return {
        "name": found.name,
        "versions": [str(one.number) for one in service.versions(name)],
        "platform": found.platform,
        "inputs": [spec.metadata() for spec in found.inputs],
        "outputs": [spec.metadata() for spec in found.outputs],
    }


def statistics(service: Service, name: str, version: str | None) -> list[dict[str, Any]]:
    """Return the statistics of a version, of all of a model, or of all models.

    Raises:
        NotFound: it is not loaded.
    """
    if version:
        return [statistics_of(service.version(name, version))]
    return [statistics_of(one) for model in ([name] if name else service.names()) for one in service.versions(model)]


def override_of(config: Any) -> Mapping[str, Any] | None:
    """Return options out of the parameter `config` of a request to load a model.

    Raises:
        BadRequest: it is not JSON.
    """
    if config is None:
        return None
    if not isinstance(config, str):
        raise BadRequest("parameters: config must be JSON as a text")
    return parsed(config)


def peek(service: Service, name: str, version: str | None) -> Version:
    """Return a version, without using up a share of the traffic."""
    return service.version(name, version) if version else max(service.versions(name), key=lambda one: one.number)


def selected(version: Version, names: list[str] | None) -> list[int]:
    """Return the positions of outputs that a request names.

    Raises:
        BadRequest: there is no such output.
    """
    known = [spec.name for spec in version.outputs]
    if names is None:
        return list(range(len(known)))
    if unknown := [name for name in names if name not in known]:
        raise BadRequest(f"{version.name} has no output {unknown[0][:128]!r}; it has {', '.join(known)}")
    return [known.index(name) for name in names]


def _answer(version: Version, read: Inference, outputs: list[Values]) -> Response:
    positions = selected(version, None if read.wanted is None else [one.name for one in read.wanted])
    entries: list[dict[str, Any]] = []
    tail: list[bytes] = []
    numbers: dict[int, Values] = {}
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
            entry["data"] = None
            numbers[len(entries)] = values
        entries.append(entry)
    fields: dict[str, Any] = {"model_name": version.name, "model_version": str(version.number), "outputs": entries}
    if read.id is not None:
        fields["id"] = read.id
    header = _written(fields, numbers)
    if not tail:
        return Response(header, media_type="application/json")
    headers = {HEADER_LENGTH: str(len(header))}
    return Response(b"".join([header, *tail]), media_type="application/octet-stream", headers=headers)


def _written(fields: dict[str, Any], numbers: Mapping[int, Values]) -> bytes:
    """Write an answer as JSON, with the numbers of some outputs in short runs, between which other threads come
    to work.
    """
    entries = fields.pop("outputs")
    texts = []
    for place, entry in enumerate(entries):
        if place not in numbers:
            texts.append(json.dumps(entry))
            continue
        entry.pop("data")
        values = numbers[place]
        flat = values.array.ravel()
        parts = (Values(values.datatype, flat[first : first + _RUN]) for first in range(0, flat.size, _RUN))
        runs = (json.dumps(to_numbers(part))[1:-1] for part in parts)
        texts.append(f'{json.dumps(entry)[:-1]}, "data": [{", ".join(runs)}]}}')
    return f'{json.dumps(fields)[:-1]}, "outputs": [{", ".join(texts)}]}}'.encode()
