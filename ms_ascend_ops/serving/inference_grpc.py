"""Implements the Open Inference Protocol over gRPC: `inference.GRPCInferenceService`, with the repository extension."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc

from ms_ascend_ops.serving.errors import NotFound, ServingError, Unavailable
from ms_ascend_ops.serving.http import Keys
from ms_ascend_ops.serving.inference import EXTENSIONS, metadata, override_of, peek, selected, statistics
from ms_ascend_ops.serving.messages import METHODS, SERVICE, message
from ms_ascend_ops.serving.reading_grpc import parameters_in, read_message
from ms_ascend_ops.serving.service import Service
from ms_ascend_ops.serving.statistics import DATA_TYPES, config_of
from ms_ascend_ops.serving.tensors import to_bytes
from ms_ascend_ops.version import __version__

__all__ = ["grpc_server"]

_log = logging.getLogger(__name__)
_OPEN = ("ServerLive", "ServerReady")
_CHANGES = ("RepositoryModelLoad", "RepositoryModelUnload")


def grpc_server(
    service: Service, address: str, certificate: bytes | None = None, key: bytes | None = None
) -> tuple[grpc.aio.Server, int]:  # fmt: skip
    """Make a server for the event loop of the caller, who starts and stops it; return it and its port.

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
    """Implements the methods, each named as in the protocol."""

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
            "ModelConfig": self._model_config,
            "ModelStatistics": self._model_statistics,
            "RepositoryIndex": self._repository_index,
            "RepositoryModelLoad": self._load,
            "RepositoryModelUnload": self._unload,
        }

    def guarded(self, name: str) -> Callable[[bytes, Any], Awaitable[Any]]:
        """Wrap a method with keys, metrics and errors."""
        method, metrics, kind = self._methods[name], self._service.metrics, message(f"{name}Request")

        async def call(data: bytes, context: Any) -> Any:
            start, status = time.monotonic(), "OK"
            metrics.arrived("grpc")
            try:
                if name not in _OPEN:
                    fields = dict(context.invocation_metadata() or ())
                    self._keys.check(str(fields.get("authorization", "")), name in _CHANGES)
                return await method(data if name == "ModelInfer" else read_message(kind, data), context)
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

    async def _model_config(self, request: Any, context: Any) -> Any:
        config = config_of(peek(self._service, request.name, request.version or None))
        for tensor in (*config["input"], *config["output"]):
            tensor["data_type"] = DATA_TYPES.index(tensor["data_type"])
        return message("ModelConfigResponse")(config=config)

    async def _model_statistics(self, request: Any, context: Any) -> Any:
        rows = statistics(self._service, request.name, request.version or None)
        return message("ModelStatisticsResponse")(model_stats=rows)

    async def _repository_index(self, request: Any, context: Any) -> Any:
        return message("RepositoryIndexResponse")(models=self._service.index(request.ready))

    async def _load(self, request: Any, context: Any) -> Any:
        await self._service.load(request.model_name, override_of(parameters_in(request.parameters).get("config")))
        return message("RepositoryModelLoadResponse")()

    async def _unload(self, request: Any, context: Any) -> Any:
        await self._service.unload(request.model_name)
        return message("RepositoryModelUnloadResponse")()

    async def _model_infer(self, data: Any, context: Any) -> Any:
        if not self._service.ready:
            raise Unavailable("the server is starting or stopping")
        call = await self._service.reader.call(data)
        version = self._service.version(call.name, call.version)
        with version.used():
            outputs = await version.infer(call.inputs, call.timeout_s)
        response = message("ModelInferResponse")(
            model_name=version.name, model_version=str(version.number), id=call.id
        )  # fmt: skip
        for position in selected(version, call.outputs):
            values = outputs[position]
            response.outputs.add(
                name=version.outputs[position].name, datatype=values.datatype, shape=values.array.shape
            )  # fmt: skip
            response.raw_output_contents.append(to_bytes(values))
        return response
