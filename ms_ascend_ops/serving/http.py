"""Holds what the routes of both APIs share: bodies, clients that hang up, errors, and the gate before everything."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import logging
import re
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from fastapi import Request
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ms_ascend_ops.serving.errors import BadRequest, Busy, Deadline, Forbidden, ServingError, TooLarge, Unauthorized
from ms_ascend_ops.serving.metrics import Metrics
from ms_ascend_ops.serving.service import Service
from ms_ascend_ops.serving.settings import Settings
from ms_ascend_ops.serving.web import open_paths

__all__ = ["Gate", "HungUp", "Keys", "answered", "check_change", "error_of", "object_of", "service_of"]

T = TypeVar("T")

_log = logging.getLogger(__name__)
_OPEN = ("/v2/health/live", "/v2/health/ready")  # of probes, which have no key
_PRIVATE = (".localhost", ".local", ".internal", ".svc")
_HUNG_UP = 499  # of nginx: nobody gets it, but it is counted


class HungUp(Exception):
    """The client left before the answer."""


def service_of(request: Request) -> Service:
    """Return the models."""
    service: Service = request.app.state.service
    return service


async def object_of(request: Request) -> dict[str, Any]:
    """Return the object of a body; one without a body has none.

    Raises:
        BadRequest: it is not JSON, or no object.
    """
    return await service_of(request).reader.object(await request.body() or b"{}")


def check_change(request: Request) -> None:
    """Check a request that changes the models; routes call it in their first line.

    Raises:
        Unauthorized, Forbidden: who asks may not do that.
    """
    settings = service_of(request).settings
    Keys(settings).check(request.headers.get("authorization", ""), changes_models=True)
    check_origin(request.headers, settings, changes_models=True)


async def answered(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of some work, which is cancelled when the client hangs up. The body has been read.

    Raises:
        HungUp: it did.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise HungUp
        return task.result()
    finally:
        for one in (task, watch):
            one.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def error_of(request: Request, status: int, message: str, error: ServingError | None = None) -> JSONResponse:
    """Return an error as the API of a request has it."""
    code, parameter = (None, None) if error is None else (error.code, error.parameter)
    return error_answer(_path(request.scope), status, message, code, parameter)


def error_answer(
    path: str, status: int, message: str, code: str | None = None, parameter: str | None = None
) -> JSONResponse:  # fmt: skip
    """Return an error as the API of the path has it."""
    headers = {"Retry-After": "1"} if status in (429, 503) else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if not path.startswith("/v1/"):
        return JSONResponse({"error": message}, status, headers)
    return JSONResponse({"error": openai_error(status, message, code, parameter)}, status, headers)


def openai_error(status: int, message: str, code: str | None, parameter: str | None) -> dict[str, Any]:
    """Return the object that OpenAI's API describes an error with."""
    kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"message": message, "type": kind, "param": parameter, "code": code}


class Keys:
    """Checks API keys, compared in a time that does not depend on how much of a key is right."""

    def __init__(self, settings: Settings):
        self._keys = [_digest(key) for key in settings.api_keys]
        self._admin = [_digest(key) for key in settings.admin_keys]
        self._fixed = settings.fixed

    def check(self, authorization: str, changes_models: bool) -> None:
        """Let a request through, or not.

        Raises:
            Unauthorized: there is no key with it, or a wrong one.
            Forbidden: its key is not one of those that may load and unload models, or none may.
        """
        if changes_models and self._fixed:
            raise Forbidden("the models of this server are fixed")
        if not self._keys and not self._admin:
            return
        kind, _, key = authorization.partition(" ")
        given = _digest(key.strip()) if kind.lower() == "bearer" else b""
        is_admin = _is_among(given, self._admin)
        if not is_admin and not _is_among(given, self._keys) and (self._keys or changes_models):
            raise Unauthorized("give a key that is allowed here: Authorization: Bearer KEY")
        if changes_models and not is_admin:
            raise Forbidden("this key may not change the models; keys that may are those of --admin-keys")


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="replace")).digest()


def _is_among(given: bytes, keys: Iterable[bytes]) -> bool:
    return sum(hmac.compare_digest(given, key) for key in keys) > 0  # all of them, found or not


def check_origin(headers: Mapping[str, str], settings: Settings, changes_models: bool = False) -> None:
    """Refuse what a web page of somebody else has a browser send: without keys it is not told from its user.

    A page can have its own name lead to this machine, so that a name counts for nothing that everybody can register.

    Raises:
        Forbidden: it comes from another origin, or asks by a name that is none of this server.
    """
    if settings.api_keys or (changes_models and settings.admin_keys):
        return
    host, origin = headers.get("host", ""), headers.get("origin")
    if (changes_models or origin is not None) and not _is_own_name(host, settings.hosts):
        raise Forbidden(f"{host[:128]!r} is no name of this server; serve --host-name NAME makes it one")
    is_foreign = origin is not None and origin.lower().partition("://")[1:] != ("://", host.lower())
    if is_foreign or headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        raise Forbidden("web pages of other origins may not use this server without a key")


def _is_own_name(host: str, names: Iterable[str]) -> bool:
    """Tell whether a Host header is an address, a name that no public DNS has, or one of the settings."""
    parts = re.fullmatch(r"(\[[^]]*\]|[^:]*)(:[0-9]*)?", host.lower())
    if parts is None:
        return False
    name = parts[1].removesuffix(".")
    if name in names or ("." not in name and ":" not in name) or name.endswith(_PRIVATE):
        return True
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


class Gate:
    """Guards the application as ASGI middleware: keys, limits, metrics, errors.

    Starlette's base class hides that a client hung up.
    """

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Callable[[], Metrics]):
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._keys = Keys(settings)
        self._requests = 0
        self.bytes = 0  # of bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        metrics, start = self._metrics(), time.monotonic()
        exchange = _Exchange(self, self._settings, receive, send)

        async def refuse(status: int, message: str, code: str | None = None, parameter: str | None = None) -> None:
            if exchange.status == _HUNG_UP:  # nothing of an answer is out
                answer = error_answer(_path(scope), status, message, code, parameter)
                await answer(scope, receive, exchange.send)

        metrics.arrived("http")
        self._requests += 1
        try:
            self._check(scope, _headers(scope))
            await self._app(scope, exchange.receive, exchange.send)
        except ServingError as error:
            await refuse(error.status, error.message, error.code, error.parameter)
        except HungUp:
            exchange.left = True
        except asyncio.CancelledError:  # by a server that is told of it, as Ray's is
            exchange.left = True
            raise
        except Exception:
            _log.exception("%s %s failed", scope["method"], scope["path"])
            await refuse(500, "an error of the server; its log says more")
        finally:
            self._requests -= 1
            self.bytes -= exchange.bytes
            route = getattr(scope.get("route"), "path", "other")
            if exchange.left:
                metrics.hung_up("http")
            status = _HUNG_UP if exchange.left else exchange.status
            metrics.answered("http", route, status, time.monotonic() - start)

    def _check(self, scope: Scope, headers: Mapping[str, str]) -> None:
        if _path(scope) in _OPEN or (scope["method"] in ("GET", "HEAD") and _path(scope) in open_paths()):
            return
        self._keys.check(headers.get("authorization", ""), changes_models=False)
        check_origin(headers, self._settings)
        if self._requests > self._settings.requests:
            raise Busy(f"the server has {self._settings.requests} requests: come again later")
        if headers.get("content-encoding", "identity") != "identity":
            raise BadRequest(
                f"Content-Encoding {headers['content-encoding'][:40]!r} is not supported: send it as it is"
            )
        length = headers.get("content-length", "")
        if length.isdecimal() and len(length) < 20 and int(length) > self._settings.body_bytes:
            raise _too_large(self._settings)


class _Exchange:
    """Follows a request and its answer: the body up to the limits of bytes and time, the status, whether the
    client left.
    """

    def __init__(self, gate: Gate, settings: Settings, receive: Receive, send: Send):
        self.bytes = 0  # of the body
        self.status = _HUNG_UP
        self.left = False
        self._gate, self._settings = gate, settings
        self._receive, self._send = receive, send
        self._until = time.monotonic() + settings.body_timeout_s
        self._read = False  # the body
        self._sent = False  # the answer

    async def receive(self) -> Message:
        if self._read:  # from now on there is only the end of the connection to wait for
            message = await self._receive()
            self.left |= message["type"] == "http.disconnect" and not self._sent
            return message
        try:
            message = await asyncio.wait_for(self._receive(), max(self._until - time.monotonic(), 0.001))
        except asyncio.TimeoutError as error:
            raise Deadline(f"the body was not there within {self._settings.body_timeout_s:g} s", True) from error
        if message["type"] == "http.disconnect":
            raise HungUp
        size = len(message.get("body", b""))
        self.bytes += size
        self._gate.bytes += size
        if self.bytes > self._settings.body_bytes:
            raise _too_large(self._settings)
        if self._gate.bytes > self._settings.all_bodies_bytes:
            raise Busy("the server has too many large requests: come again later")
        self._read = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        self._sent = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self._send(message)


def _too_large(settings: Settings) -> TooLarge:
    return TooLarge(f"the body may have {settings.body_bytes} bytes")


def _path(scope: Scope) -> str:
    """Return the path as the routes have it, without what a proxy or Ray put before it."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
