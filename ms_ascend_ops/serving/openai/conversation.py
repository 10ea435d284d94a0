"""Reads the messages of a conversation, its tools, and the form that its answer must have."""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ms_ascend_ops.serving.errors import BadRequest
from ms_ascend_ops.serving.openai.fields import check_size, text_of, typed

__all__ = ["Tools", "messages_of", "schema_of", "tools_of"]

_MOST_MESSAGES = 10_000
_MOST_TOOLS = 128
_MOST_ARGUMENTS = 2**20  # characters of all calls of a conversation
_ROLES = ("system", "developer", "user", "assistant", "tool")
_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True)
class Tools:
    """Lists what a model may call.

    choice: "auto", "none", "required", or the name of the only one.
    """

    tools: Sequence[Mapping[str, Any]]
    choice: str
    is_name: bool = False

    @property
    def names(self) -> list[str]:
        """Return the names of the tools."""
        return [tool["function"]["name"] for tool in self.tools]

    @property
    def is_forced(self) -> bool:
        """Tell whether the answer must be a call."""
        return self.is_name or self.choice == "required"


def messages_of(messages: Any) -> list[dict[str, Any]]:
    """Return messages as templates take them.

    Raises:
        BadRequest: a message has another role, content that is no text, or calls that are none.
    """
    if not isinstance(messages, list) or not 1 <= len(messages) <= _MOST_MESSAGES:
        raise BadRequest(f"messages must be a list of 1 to {_MOST_MESSAGES}", "messages")
    checked: list[dict[str, Any]] = []
    left = _MOST_ARGUMENTS
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(role, str) or role not in _ROLES:
            raise BadRequest(f"a message must have a role of {', '.join(_ROLES)}, got {reprlib.repr(role)}", "messages")
        content = message.get("content")
        if isinstance(content, list):
            content = "".join(map(_part, content))
        calls = message.get("tool_calls") if role == "assistant" else None
        if content is None and calls:
            content = ""
        if not isinstance(content, str):
            raise BadRequest(f"the content of a message must be a text, got {reprlib.repr(content)}", "messages")
        # Templates know no developer, which newer clients say instead of system.
        one: dict[str, Any] = {
            "role": "system" if role == "developer" else role,
            "content": text_of(content, "messages"),
        }
        if calls:
            one["tool_calls"] = _calls(calls, left)
            left -= sum(len(call["function"]["arguments"]) for call in calls)
        for name in ("name", "tool_call_id"):
            if role == "tool" and isinstance(message.get(name), str):
                one[name] = text_of(message[name][:256], "messages")
        checked.append(one)
    return checked


def _part(part: Any) -> str:
    text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
    if not isinstance(text, str):
        raise BadRequest("parts of a message must be texts", "messages")
    return text


def _calls(calls: Any, most: int) -> list[dict[str, Any]]:
    if not isinstance(calls, list) or len(calls) > _MOST_TOOLS:
        raise BadRequest(f"tool_calls must be a list of at most {_MOST_TOOLS}", "messages")
    checked = []
    for call in calls:
        function = call.get("function") if isinstance(call, dict) else None
        name, arguments = (function.get(key) if isinstance(function, dict) else None for key in ("name", "arguments"))
        if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name) or not isinstance(arguments, str):
            raise BadRequest(
                f"a call must have a function with a name and arguments as a text, got {reprlib.repr(call)}", "messages"
            )
        most -= len(arguments)
        if most < 0:
            raise BadRequest(f"the arguments of calls must have at most {_MOST_ARGUMENTS} characters", "messages")
        try:
            value = json.loads(arguments or "{}")
        except (ValueError, RecursionError) as error:
            raise BadRequest(
                f"the arguments of a call must be JSON, got {reprlib.repr(arguments)}", "messages"
            ) from error
        if not isinstance(value, dict):
            raise BadRequest(f"the arguments of a call must be an object, got {reprlib.repr(arguments)}", "messages")
        check_size(value, "messages")
        number = call.get("id")
        checked.append(
            {
                "id": number[:64] if isinstance(number, str) else "call",
                "type": "function",
                "function": {"name": name, "arguments": value},
            }
        )
    return checked


def tools_of(fields: Mapping[str, Any]) -> Tools:
    """Return the tools of a request, and which of them may be called.

    Raises:
        BadRequest: one is none, there are too many, or the choice is none of them.
    """
    given = typed(fields, "tools", list, [])
    if len(given) > _MOST_TOOLS:
        raise BadRequest(f"tools must be at most {_MOST_TOOLS}, got {len(given)}", "tools")
    check_size(given, "tools")
    tools: list[dict[str, Any]] = []
    for tool in given:
        function = tool.get("function") if isinstance(tool, dict) and tool.get("type") == "function" else None
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
            raise BadRequest(
                "a tool must be of the type function, whose name has 1 to 64 letters, digits, _, - and ., got "
                f"{reprlib.repr(tool)}", "tools",
            )  # fmt: skip
        assert isinstance(function, dict)
        if not isinstance(function.get("parameters", {}), dict):
            raise BadRequest(f"the parameters of {name} must be a JSON schema", "tools")
        if not isinstance(function.get("description", ""), str):
            raise BadRequest(f"the description of {name} must be a text", "tools")
        kept = {key: function[key] for key in ("name", "description", "parameters") if function.get(key) is not None}
        tools.append({"type": "function", "function": {"parameters": {"type": "object", "properties": {}}, **kept}})
    names = [tool["function"]["name"] for tool in tools]
    if len(set(names)) < len(names):
        raise BadRequest("two tools have the same name", "tools")
    return _chosen(tools, names, fields.get("tool_choice"))


def _chosen(tools: list[dict[str, Any]], names: list[str], choice: Any) -> Tools:
    if choice is None or choice in ("auto", "none"):
        return Tools([] if choice == "none" else tools, choice or "auto")
    if not tools:
        raise BadRequest("tool_choice needs tools", "tool_choice")
    if choice == "required":
        return Tools(tools, choice)
    function = choice.get("function") if isinstance(choice, dict) and choice.get("type") == "function" else None
    name = function.get("name") if isinstance(function, dict) else None
    if name not in names:
        raise BadRequest(
            f"tool_choice must be auto, none, required or one of the tools ({', '.join(names)[:200]}), got "
            f"{reprlib.repr(choice)}", "tool_choice",
        )  # fmt: skip
    return Tools(tools, name, is_name=True)


def schema_of(fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the JSON schema that an answer must have; None: any text will do.

    Raises:
        BadRequest: response_format is of another type, or its schema is none or too large.
    """
    form = typed(fields, "response_format", dict, {"type": "text"})
    kind = form.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    if kind != "json_schema":
        raise BadRequest(
            f"response_format must be of the type text, json_object or json_schema, got {reprlib.repr(kind)}",
            "response_format",
        )
    described = form.get("json_schema")
    schema = described.get("schema") if isinstance(described, dict) else None
    if not isinstance(schema, dict):
        raise BadRequest("response_format must have a json_schema with a schema", "response_format")
    check_size(schema, "response_format")
    return schema
