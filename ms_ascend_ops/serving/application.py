"""Builds the FastAPI application: the same under uvicorn, Ray Serve and in tests."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from ms_ascend_ops.serving import inference, openai, web
from ms_ascend_ops.serving.errors import ServingError
from ms_ascend_ops.serving.http import Gate, error_of
from ms_ascend_ops.serving.metrics import CONTENT_TYPE, Metrics
from ms_ascend_ops.serving.service import Service
from ms_ascend_ops.serving.settings import Settings
from ms_ascend_ops.version import __version__

__all__ = ["create_app"]

_log = logging.getLogger(__name__)


def create_app(settings: Settings, service: Service | None = None) -> FastAPI:
    """Create the application. Models are loaded when it starts, and unloaded when it stops.

    Args:
        settings: models, limits, keys.
        service: one that exists already, whose `start` and `stop` are somebody else's business.

    Raises:
        ValueError: settings that cannot be right.
    """
    own = Service(settings) if service is None else service

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if service is None:
            await own.start()
        yield
        if service is None:
            await own.stop()

    app = FastAPI(title="ms_ascend_ops", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.service = own
    app.include_router(inference.router)
    app.include_router(openai.router)
    app.include_router(web.router)
    app.add_api_route("/metrics", _metrics, tags=["Prometheus"])
    app.add_exception_handler(ServingError, _on_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_middleware(Gate, settings=settings, metrics=lambda: own.metrics)
    return app


async def _metrics(request: Request) -> Response:
    metrics: Metrics = request.app.state.service.metrics
    return Response(metrics.text(), media_type=CONTENT_TYPE)


async def _on_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServingError)
    return error_of(request, error.status, error.message, error)


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = {404: "there is no such path", 405: "the path does not have this method"}.get(error.status_code)
    return error_of(request, error.status_code, message or str(error.detail))


async def _on_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return error_of(request, 400, "; ".join(str(one["msg"]) for one in error.errors()))
