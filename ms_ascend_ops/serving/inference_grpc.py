"""The Open Inference Protocol over gRPC: `inference.GRPCInferenceService`, with the repository extension."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import grpc
import numpy as np
from google.protobuf.message import DecodeError

from ms_ascend_ops.serving.errors import BadRequest, NotFound, ServingError, Unavailable
from ms_ascend_ops.serving.http import Keys
from ms_ascend_ops.serving.inference import (
    EXTENSIONS,
    checked_parameters,
    metadata,
    override_of,
    selected,
    timeout_of,
)
from ms_ascend_ops.serving.messages import METHODS, SERVICE, message
from ms_ascend_ops.serving.service import Service
from ms_ascend_ops.serving.tensors import (
    DATATYPES,
    Values,
    checked_datatype,
    checked_shape,
    from_bytes,
    from_numbers,
    to_bytes,
)
from ms_ascend_ops.version import __version__

__all__ = ["grpc_server"]

_log = logging.getLogger(__name__)
_OPEN = ("ServerLive", "ServerReady")
_CHANGES = ("RepositoryModelLoad", "RepositoryModelUnload")
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


def grpc_server(
    service: Service, address: str, certificate: bytes | None = None, key: bytes | None = None
) -> tuple[grpc.aio.Server, int]:  # fmt: skip
    """A server for the event loop of the caller, who starts and stops it; and its port.

    Raises:
        RuntimeError: the address is taken, or cannot be.
    """
    settings = service.settings
    # Room for names and shapes beside the tensors.
    options = [
        ("grpc.max_receive_message_length", settings.body_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", 0),
    ]
    server = grpc.aio.server(options=options, maximum_concurrent_rpcs=settings.requests)
    server.add_generic_rpc_handlers((_handlers(_Calls(service)),))
    if certificate is None or key is None:
        port = server.add_insecure_port(address)
    else:
        port = server.add_secure_port(address, grpc.ssl_server_credentials([(key, certificate)]))
    return server, port


def _handlers(calls: _Calls) -> Any:
    made = {}
    for name in METHODS:
        # Requests come as bytes: what cannot be read is an error of the client, and gRPC itself says INTERNAL.
        made[name] = grpc.unary_unary_rpc_method_handler(
            calls.guarded(name), None, message(f"{name}Response").SerializeToString
        )
    return grpc.method_handlers_generic_handler(SERVICE, made)


class _Calls:
    """The methods, each named as in the protocol."""

    def __init__(self, service: Service):
        self._service = service
        self._keys = Keys(service.settings)
        self._methods: Mapping[str, Callable[[Any, Any], Awaitable[Any]]] = {
            "ServerLive": self._server_live,
            "ServerReady": self._server_ready,
            "ModelReady": self._model_ready,
            "ServerMetadata": self._server_metadata,
            "ModelMetadata": self._model_metadata,
            "ModelInfer": self._model_infer,
            "RepositoryIndex": self._repository_index,
            "RepositoryModelLoad": self._load,
            "RepositoryModelUnload": self._unload,
        }

    def guarded(self, name: str) -> Callable[[bytes, Any], Awaitable[Any]]:
        """A method with keys, metrics and errors around it."""
        method, metrics, kind = self._methods[name], self._service.metrics, message(f"{name}Request")

        async def call(data: bytes, context: Any) -> Any:
            start, status = time.monotonic(), "OK"
            metrics.arrived("grpc")
            try:
                if name not in _OPEN:
                    fields = dict(context.invocation_metadata() or ())
                    self._keys.check(str(fields.get("authorization", "")), name in _CHANGES)
                return await method(_read(kind, data), context)
            except ServingError as error:
                status = error.grpc
                await context.abort(getattr(grpc.StatusCode, error.grpc), error.message)
            except asyncio.CancelledError:  # the client hung up, or its deadline is over
                status = "CANCELLED"
                metrics.hung_up("grpc")
                raise
            except Exception:
                status = "INTERNAL"
                _log.exception("%s failed", name)
                await context.abort(grpc.StatusCode.INTERNAL, "an error of the server; its log says more")
            finally:
                metrics.answered("grpc", name, status, time.monotonic() - start)

        return call

    async def _server_live(self, request: Any, context: Any) -> Any:
        return message("ServerLiveResponse")(live=True)

    async def _server_ready(self, request: Any, context: Any) -> Any:
        return message("ServerReadyResponse")(ready=self._service.ready)

    async def _model_ready(self, request: Any, context: Any) -> Any:
        try:
            metadata(self._service, request.name, request.version or None)
        except NotFound:
            return message("ModelReadyResponse")(ready=False)
        return message("ModelReadyResponse")(ready=True)

    async def _server_metadata(self, request: Any, context: Any) -> Any:
        return message("ServerMetadataResponse")(name="ms_ascend_ops", version=__version__, extensions=EXTENSIONS)

    async def _model_metadata(self, request: Any, context: Any) -> Any:
        return message("ModelMetadataResponse")(**metadata(self._service, request.name, request.version or None))

    async def _repository_index(self, request: Any, context: Any) -> Any:
        return message("RepositoryIndexResponse")(models=self._service.index(request.ready))

    async def _load(self, request: Any, context: Any) -> Any:
        await self._service.load(request.model_name, override_of(_parameters(request.parameters).get("config")))
        return message("RepositoryModelLoadResponse")()

    async def _unload(self, request: Any, context: Any) -> Any:
        await self._service.unload(request.model_name)
        return message("RepositoryModelUnloadResponse")()

    async def _model_infer(self, request: Any, context: Any) -> Any:
        if not self._service.ready:
            raise Unavailable("the server is starting or stopping")
        parameters = _parameters(request.parameters)
        checked_parameters(parameters)
        inputs = _inputs(request)
        names = [_output_name(output) for output in request.outputs] or None
        version = self._service.version(request.model_name, request.model_version or None)
        with version.used():
            outputs = await version.infer(inputs, timeout_of(parameters))
        response = message("ModelInferResponse")(
            model_name=version.name, model_version=str(version.number), id=request.id
        )  # fmt: skip
        for position in selected(version, names):
            values = outputs[position]
            response.outputs.add(
                name=version.outputs[position].name, datatype=values.datatype, shape=values.array.shape
            )  # fmt: skip
            response.raw_output_contents.append(to_bytes(values))
        return response


def _read(kind: Any, data: bytes) -> Any:
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
        checked_parameters(_parameters(entry.parameters))
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
    checked_parameters(_parameters(output.parameters))
    name: str = output.name
    return name


def _parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    values = {}
    for name, parameter in parameters.items():
        kind = parameter.WhichOneof("parameter_choice")
        values[name] = None if kind is None else getattr(parameter, kind)
    return values
