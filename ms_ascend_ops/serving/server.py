"""Runs one server process: the application under uvicorn, gRPC beside it in the same event loop, TLS, a
graceful stop.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import grpc
import uvicorn

from ms_ascend_ops.serving.application import create_app
from ms_ascend_ops.serving.inference_grpc import grpc_server
from ms_ascend_ops.serving.service import Service
from ms_ascend_ops.serving.settings import Settings

__all__ = ["Endpoint", "run"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Endpoint:
    """Says where a server listens, and how it stops."""

    host: str = "127.0.0.1"
    port: int = 8000
    grpc_port: int | None = 8001  # None: no gRPC
    certificate: Path | None = None
    key: Path | None = None
    grace_s: float = 30.0  # to finish what was begun


class _Server(uvicorn.Server):
    """Takes no more requests from the first signal on, also none of gRPC; the second one ends it at once.

    uvicorn itself raises the signal again when it is done: the process would end by it, before its models are.
    """

    def __init__(self, config: uvicorn.Config, service: Service):
        super().__init__(config)
        self._service = service
        self._loop = asyncio.get_running_loop()
        self.stopping = asyncio.Event()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.stop()

    def stop(self) -> None:
        """Finish what was begun, then end."""
        self.should_exit = True
        self._service.stopping = True
        self._loop.call_soon_threadsafe(self.stopping.set)


def run(settings: Settings, endpoint: Endpoint) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        RuntimeError: a model cannot be loaded, or the port of gRPC is taken.
        OSError: the port of HTTP is taken, or a certificate cannot be read.
        ValueError: settings that cannot be right.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    asyncio.run(_serve(settings, endpoint))


async def _serve(settings: Settings, endpoint: Endpoint) -> None:
    service = Service(settings)
    if endpoint.host not in ("127.0.0.1", "::1", "localhost") and not settings.api_keys:
        _log.warning("everybody who reaches %s may ask, and change the models: see --api-keys", endpoint.host)
    config = uvicorn.Config(
        create_app(settings, service), lifespan="off", log_level="warning", access_log=False, server_header=False,
        timeout_graceful_shutdown=max(1, round(endpoint.grace_s)), timeout_keep_alive=30,
        ssl_certfile=endpoint.certificate, ssl_keyfile=endpoint.key,
    )  # fmt: skip
    config.load()
    listener = socket.create_server(
        (endpoint.host, endpoint.port), family=socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET, backlog=2048
    )
    beside, grpc_port = _grpc(service, endpoint)
    server = _Server(config, service)
    if beside is not None:
        await beside.start()
    scheme = "http" if endpoint.certificate is None else "https"
    address = "{}:{}".format(*listener.getsockname()[:2])
    _log.info("%s://%s, gRPC: %s", scheme, address, "none" if beside is None else f"port {grpc_port}")
    # Probes are answered while models are loaded.
    loading = asyncio.ensure_future(_load(service, server))
    ending = asyncio.ensure_future(_stop_grpc(server, beside, endpoint.grace_s))
    try:
        await server.serve([listener])
    finally:
        server.stop()
        await ending
        loading.cancel()
        await asyncio.wait([loading])
        await service.stop()
    if not loading.cancelled() and (error := loading.exception()) is not None:
        raise RuntimeError(str(error)) from error
    _log.info("stopped")


async def _load(service: Service, server: _Server) -> None:
    try:
        await service.start()
    except BaseException:
        server.stop()
        raise
    _log.info("ready")


def _grpc(service: Service, endpoint: Endpoint) -> tuple[grpc.aio.Server | None, int]:
    if endpoint.grpc_port is None:
        return None, 0
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    certificate = None if endpoint.certificate is None else endpoint.certificate.read_bytes()
    key = None if endpoint.key is None else endpoint.key.read_bytes()
    return grpc_server(service, f"{host}:{endpoint.grpc_port}", certificate, key)


async def _stop_grpc(server: _Server, beside: grpc.aio.Server | None, grace_s: float) -> None:
    await server.stopping.wait()
    if beside is not None:
        await beside.stop(grace_s)
