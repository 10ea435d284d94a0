"""Says what a client is told when something does not work."""

from __future__ import annotations

import os
import re

__all__ = [
    "BadRequest",
    "Busy",
    "Deadline",
    "Forbidden",
    "NotFound",
    "ServingError",
    "TooLarge",
    "Unauthorized",
    "Unavailable",
]

_PATH = re.compile(r"(?<![\w:/.])(/[^/\s'\":,()]+)(?:/[^/\s'\":,()]+)+")


def _name(match: re.Match[str]) -> str:
    """Return the last part of a path of this machine: where something lies is nothing for clients."""
    return match[0].rpartition("/")[2] if os.path.isdir(match[1]) else match[0]


class ServingError(Exception):
    """Reports an error as the answer to a request.

    Args:
        message: what is wrong, for the client.
        parameter: the field of the request that is wrong, if it is one.
    """

    status = 500  # of HTTP
    grpc = "INTERNAL"  # grpc.StatusCode
    code: str | None = None  # of OpenAI's API

    def __init__(self, message: str, parameter: str | None = None):
        # What a client sent may be quoted in it: halves of characters cannot be written.
        self.message = _PATH.sub(_name, message).encode(errors="backslashreplace").decode()
        self.parameter = None if parameter is None else parameter.encode(errors="backslashreplace").decode()
        super().__init__(self.message)


class BadRequest(ServingError):
    status, grpc = 400, "INVALID_ARGUMENT"


class Unauthorized(ServingError):
    status, grpc, code = 401, "UNAUTHENTICATED", "invalid_api_key"


class Forbidden(ServingError):
    status, grpc, code = 403, "PERMISSION_DENIED", "forbidden"


class NotFound(ServingError):
    status, grpc, code = 404, "NOT_FOUND", "model_not_found"


class Deadline(ServingError):
    """The time that the client gave is over (408), or the server's (504)."""

    grpc, code = "DEADLINE_EXCEEDED", "timeout"

    def __init__(self, message: str, of_client: bool):
        super().__init__(message)
        self.status = 408 if of_client else 504


class TooLarge(ServingError):
    status, grpc, code = 413, "RESOURCE_EXHAUSTED", "request_too_large"


class Busy(ServingError):
    """The queue is full: come again later."""

    status, grpc, code = 429, "RESOURCE_EXHAUSTED", "rate_limit_exceeded"


class Unavailable(ServingError):
    status, grpc, code = 503, "UNAVAILABLE", "unavailable"
