"""Runs chat templates in a process that is started as a file, and imports nothing but Jinja2.

A template is a program of a stranger: this process has a limit of memory and writes no files, and each request has a
limit of processor time. Requests and answers are lines of JSON, as nothing else that comes from here can
be believed:

    {"path": [...], "memory": bytes}                          first, without an answer
    {"compile": text, "seconds": 2}                           -> {"ok": true} or {"error": "..."}
    {"values": {...}, "characters": most, "seconds": 2}       -> {"text": "..."} or {"error": "..."}

The environment is that of transformers: what a template writes there, it writes here.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any


class TooLongError(Exception):
    """A text has more characters than are allowed."""


def environment() -> Any:
    """Return what templates of Hugging Face are written for."""
    import jinja2  # noqa: PLC0415 - behind the search path
    from jinja2.ext import Extension  # noqa: PLC0415
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415
    from jinja2.utils import Namespace  # noqa: PLC0415

    class Generation(Extension):  # type: ignore[misc]
        """Handles `{% generation %}`, which marks what a model said, for training; here it is the text within."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_within"), [], [], body).set_lineno(line)

        def _within(self, caller: Any) -> Any:
            return caller()

    class TemplateDict:
        """Hides the attributes of `dict`."""

        def __call__(self, *args: Any, **values: Any) -> dict[Any, Any]:
            return dict(*args, **values)

        def fromkeys(self, *args: Any) -> dict[Any, Any]:
            return dict.fromkeys(*args)

    class TemplateNamespace(Namespace):  # type: ignore[misc]
        """Hides the names of Python's own from a namespace."""

        def __init__(*args: Any, **values: Any) -> None:
            self, *rest = args
            values = dict(*rest, **values)
            for name in values:
                _check_name(name)
            Namespace.__init__(self, values)

        def __setitem__(self, name: str, value: Any) -> None:
            _check_name(name)
            Namespace.__setitem__(self, name, value)

    def _check_name(name: Any) -> None:
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace takes no name with an underscore first, got {name!r}")

    def raise_exception(message: Any) -> None:
        raise jinja2.TemplateError(str(message))

    def to_json(
        value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
    ) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def strftime_now(form: str) -> str:
        return datetime.now().strftime(form)

    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    made.filters["tojson"] = to_json
    made.globals.update(
        raise_exception=raise_exception, strftime_now=strftime_now, dict=TemplateDict(), namespace=TemplateNamespace
    )
    return made


def render(template: Any, values: Mapping[str, Any], most: int) -> str:
    """Render the text that a template writes."""
    parts, size = [], 0
    for part in template.generate(values):
        size += len(part)
        if size > most:
            raise TooLongError(f"it wrote more than {most} characters")
        parts.append(part)
    return "".join(parts)


def main() -> None:
    """Answer requests until there are no more."""
    # Discard what a template prints: it is none of the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    first = json.loads(sys.stdin.readline())
    sys.path[:] = first["path"]
    made, template = environment(), None
    resource.setrlimit(resource.RLIMIT_AS, (first["memory"],) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setrecursionlimit(1000)
    for line in sys.stdin:
        request = json.loads(line)
        # End a template that runs over by the signal, also within a function of C.
        signal.setitimer(signal.ITIMER_PROF, request["seconds"])
        answer: dict[str, Any]
        try:
            if "compile" in request:
                template = made.from_string(request["compile"])
                answer = {"ok": True}
            else:
                answer = {"text": render(template, request["values"], request["characters"])}
            written = json.dumps(answer)
        except MemoryError:
            written = json.dumps({"error": "memory"})
        except RecursionError:
            written = json.dumps({"error": "it nests too deeply, or maximum recursion depth exceeded"})
        except Exception as error:
            text = " ".join(str(error)[:2000].split()) or type(error).__name__
            written = json.dumps({"error": text})
        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(written + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
