"""Chat templates: from messages to the text that a model was trained on.

A template comes with a checkpoint, so it is foreign code: it runs in a sandbox, and for a limited time.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import FrameType
from typing import Any

import jinja2
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

__all__ = ["ChatTemplate"]

_SECONDS = 2.0
_MOST_CHARACTERS = 10_000_000


class _Environment(ImmutableSandboxedEnvironment):  # type: ignore[misc]
    """A sandbox in which a product cannot fill the memory."""

    intercepted_binops = frozenset(["*", "**", "%"])

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "%" and isinstance(left, str):
            raise SecurityError("formatting by % is not allowed")
        if operator == "**" and (abs(left) > 1e6 or abs(right) > 64):
            raise SecurityError("a power is too large")
        if operator == "*":
            for text, count in ((left, right), (right, left)):
                if isinstance(text, (str, list, tuple)) and len(text) * count > _MOST_CHARACTERS:
                    raise SecurityError("a product is too long")
        return super().call_binop(context, operator, left, right)


class _TooLong(BaseException):
    """Passes the handlers of a template."""


class ChatTemplate:
    """A template of Jinja2, as Hugging Face writes them.

    Raises:
        ValueError: it is no template; the message begins with `source`.
    """

    def __init__(self, text: str, source: str, begin: str = "", end: str = ""):
        self._source = source
        self._tokens = {"bos_token": begin, "eos_token": end}
        environment = _Environment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
        environment.filters["tojson"] = _to_json
        for name in ("center", "wordwrap", "format"):
            environment.filters.pop(name, None)  # a width makes a text of any length
        environment.globals.update(raise_exception=_raise, strftime_now=_now)
        for name in ("lipsum", "cycler", "joiner"):
            environment.globals.pop(name, None)
        try:
            self._template = environment.from_string(text)
        except (jinja2.TemplateError, RecursionError) as error:
            raise ValueError(f"{source}: the chat template cannot be compiled: {error}") from error

    def render(self, messages: Sequence[Mapping[str, Any]], generate: bool = True, **variables: Any) -> str:
        """The text of a conversation; with `generate`, up to where the answer begins.

        Raises:
            ValueError: the template raises, or takes longer than 2 s.
        """
        values = {"messages": list(messages), "add_generation_prompt": generate, **self._tokens, **variables}
        outer, deadline = sys.gettrace(), time.monotonic() + _SECONDS
        trace = _deadline_trace(deadline)
        try:
            sys.settrace(trace)
            parts, size = [], 0
            for part in self._template.generate(values):
                size += len(part)
                if size > _MOST_CHARACTERS:
                    raise _TooLong
                parts.append(part)
            return "".join(parts)
        except _TooLong:
            reason = f"it did not end within {_SECONDS:g} s and {_MOST_CHARACTERS} characters"
        except Exception as error:
            reason = str(error) or type(error).__name__
        finally:
            sys.settrace(outer)
        raise ValueError(f"{self._source}: the chat template failed: {reason}")


def _deadline_trace(deadline: float) -> Any:
    """Called at each line of Python, of which a template is made."""

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if time.monotonic() > deadline:
            raise _TooLong
        return trace

    return trace


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _now(form: str) -> str:
    return datetime.now().strftime(form)


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)
