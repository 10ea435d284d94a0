"""Renders chat templates: from messages to the text that a model was trained on.

A template comes with a checkpoint, so it is foreign code: it runs in Jinja2's sandbox, in a process of its own that has
limits of memory and time (template_process.py).
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["ChatTemplate", "TemplateError"]

_SECONDS = 2.0  # of the processor, for a request
_WALL = 15.0  # seconds in all, also if the machine is busy
_MEMORY = 512 * 2**20  # bytes of the process; it has 40 MB without a template
_MOST_CHARACTERS = 10_000_000
_MOST_TEMPLATE = 2**20
_MOST_ANSWER = 12 * _MOST_CHARACTERS  # bytes: a character outside of Unicode's first plane has twelve in JSON
_REASONING = ("reasoning_content", "thinking", "reasoning")


class TemplateError(ValueError):
    """A template failed, or refused a conversation.

    Args:
        source: the file that it came from.
        reason: what happened.
    """

    def __init__(self, source: str, reason: str):
        super().__init__(f"{source}: {reason}")
        self.reason = reason


class ChatTemplate:
    """Renders a template of Jinja2, as Hugging Face writes them.

    Args:
        text: the template.
        source: the file that it came from, for messages.
        named: tokens by name, as `bos_token`.

    Raises:
        TemplateError: it is no template.
    """

    def __init__(self, text: str, source: str, named: Mapping[str, str] | None = None):
        self._source, self._text = source, text
        self._named = dict(named or {})
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._end: weakref.finalize[..., ChatTemplate] | None = None
        if len(text) > _MOST_TEMPLATE:
            raise self._error("cannot be compiled", f"it has more than {_MOST_TEMPLATE} characters")
        with self._lock:
            self._start()

    def render(
        self, messages: Sequence[Mapping[str, Any]], generate: bool = True, characters: int = _MOST_CHARACTERS,
        **variables: Any,
    ) -> str:  # fmt: skip
        """Render the text of a conversation; with `generate`, up to where the answer begins.

        Args:
            messages: role and content of each.
            generate: end with what an answer begins with.
            characters: of the text at most.
            variables: what else the template is told.

        Raises:
            TemplateError: the template raises, or takes more than 2 s or 512 MiB.
        """
        values = {
            "messages": [_as_given(message) for message in messages], "tools": None, "documents": None,
            "add_generation_prompt": generate, **self._named, **variables,
        }  # fmt: skip
        try:
            request = json.dumps({"values": values, "characters": characters, "seconds": _SECONDS})
        except (TypeError, ValueError, RecursionError) as error:
            raise self._error("failed", f"a conversation must be JSON: {error}") from error
        with self._lock:
            process = self._process if self._process is not None and self._process.alive else self._start()
            answer = process.answer(request)
        if not isinstance(answer.get("text"), str):
            raise self._error("failed", _reason(answer))
        text: str = answer["text"]
        return text

    def _start(self) -> _Process:
        if self._end is not None:
            self._end()
        self._process = _Process()
        self._end = weakref.finalize(self, self._process.stop)
        answer = self._process.answer(json.dumps({"compile": self._text, "seconds": _SECONDS}))
        if answer.get("ok") is not True:
            self._process.stop()
            raise self._error("cannot be compiled", _reason(answer))
        return self._process

    def _error(self, what: str, reason: str) -> TemplateError:
        return TemplateError(self._source, f"the chat template {what}: {reason}")


def _as_given(message: Any) -> Any:
    """Return a message as transformers hands it over: without keys of None, its reasoning under the names in use."""
    if not isinstance(message, Mapping):
        return message
    reasoning = next((message[key] for key in _REASONING if message.get(key) is not None), None)
    names = {} if reasoning is None else {"thinking": reasoning}
    kept = {key: value for key, value in message.items() if value is not None}
    return {**names, **kept, **({} if reasoning is None else {"reasoning_content": reasoning})}


def _reason(answer: Mapping[str, Any]) -> str:
    error = str(answer.get("error"))
    if error == "memory":
        return f"it took more than {_MEMORY >> 20} MiB of memory"
    return error


class _Process:
    """Runs the process of a template."""

    def __init__(self) -> None:
        worker = Path(__file__).with_name("template_process.py")
        self._popen = subprocess.Popen(
            [sys.executable, "-I", str(worker)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip
        first = json.dumps({"path": [path or os.getcwd() for path in sys.path], "memory": _MEMORY})
        self._first: str | None = first

    @property
    def alive(self) -> bool:
        """Tell whether it takes requests."""
        return self._popen.poll() is None

    def answer(self, request: str) -> dict[str, Any]:
        """Return what it says to a request; an error if it was ended."""
        lines = [request] if self._first is None else [self._first, request]
        self._first = None
        until = time.monotonic() + _WALL
        data = "".join(f"{line}\n" for line in lines).encode()
        answer = self._exchange(data, until)
        try:
            found = json.loads(answer)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            return found
        self.stop()
        return {"error": f"it did not end within {_SECONDS:g} s and {_MEMORY >> 20} MiB of memory"}

    def stop(self) -> None:
        """End it."""
        self._popen.kill()
        for pipe in (self._popen.stdin, self._popen.stdout):
            if pipe is not None:
                with suppress(OSError):  # what is left cannot be written
                    pipe.close()
        self._popen.wait()

    def _exchange(self, data: bytes, until: float) -> bytes:
        """Write a request and read the line of its answer, up to a time; what came by then."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        source, sink = self._popen.stdout.fileno(), self._popen.stdin.fileno()
        os.set_blocking(sink, False)
        left, parts, size = memoryview(data), [], 0
        ready = select.poll()  # unlike select(), for any number of open files
        ready.register(source, select.POLLIN)
        ready.register(sink, select.POLLOUT)
        while (wait := until - time.monotonic()) > 0 and size <= _MOST_ANSWER:
            for place, _ in ready.poll(1000 * wait):
                if place == sink:
                    try:
                        left = left[os.write(sink, left[: 1 << 16]) :]
                    except OSError:  # it has ended
                        left = left[:0]
                    if not left:
                        ready.unregister(sink)
                    continue
                part = os.read(source, 1 << 16)
                parts.append(part)
                size += len(part)
                if not part or part.endswith(b"\n"):
                    return b"".join(parts)
        return b""
