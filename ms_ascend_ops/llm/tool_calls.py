"""Reads calls of tools in what a model says: in the form that its chat template has, told from what the
template writes.

A template is asked to write an answer with a call of a known name; what stands around the JSON of it is the form. Most
models have one of `<tool_call>{...}</tool_call>` (Hermes, Qwen), `[TOOL_CALLS][{...}]` (Mistral) and the bare object
with `parameters` (Llama 3). A template that knows no tools gets them as a system message, in the first form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ms_ascend_ops.llm.chat_template import ChatTemplate
from ms_ascend_ops.llm.constraint import lark_grammar
from ms_ascend_ops.llm.tokenizer import Tokenizer

__all__ = ["Call", "CallReader", "ToolForm", "tool_form"]

_NAME, _KEY = "probe_of_the_form", "probed"
_TOOL = {
    "type": "function",
    "function": {
        "name": _NAME, "description": "A probe.",
        "parameters": {"type": "object", "properties": {_KEY: {"type": "string"}}, "required": [_KEY]},
    },
}  # fmt: skip
_MARKER = re.compile(r"(<[^<>]*(?:tool|function|python)[^<>]*>|\[TOOL_CALLS?\])\s*$", re.IGNORECASE)
_BEGUN = re.compile(
    r'[\s\[\]},;]*(?:<\|python_tag\|>)?\s*\{\s*"name"\s*:\s*"([^"\\]*)"'
    r'(?:\s*,\s*"(?:arguments|parameters)"\s*:\s*(?P<arguments>\{.*))?',
    re.DOTALL,
)
_REFERENCE = re.compile(r"^#/(\$defs|definitions)/")
_ASKED = {"role": "user", "content": "?"}
_TOLD = (
    "You may call functions to answer. Here are their signatures, one a line:\n<tools>\n{tools}\n</tools>\n"
    "To call one, answer with a JSON object with its name and its arguments, as in\n"
    '<tool_call>\n{{"name": "the name", "arguments": {{"an argument": "its value"}}}}\n</tool_call>'
)


@dataclass(frozen=True)
class Call:
    """Describes a call of a tool; the arguments are JSON."""

    name: str
    arguments: str


@dataclass(frozen=True)
class ToolForm:
    """Describes how a model writes calls.

    begin, end: the text around the JSON; `begin` may be empty.
    key: of the arguments in the object.
    is_list: the JSON is a list of objects.
    control: name and number of `begin` and `end`, where they are tokens of control.
    in_template: the template knows tools; otherwise they are told in a system message.
    """

    begin: str = "<tool_call>"
    end: str = "</tool_call>"
    key: str = "arguments"
    is_list: bool = False
    control: tuple[tuple[str, int], ...] = ()
    in_template: bool = False

    def conversation(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> tuple[list[Mapping[str, Any]], Sequence[Mapping[str, Any]] | None]:
        """Return messages and tools for the template."""
        if self.in_template:
            return list(messages), tools or None
        plain = [self._plain(message) for message in messages]
        if not tools:
            return plain, None
        told = _TOLD.format(tools="\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools))
        if plain and plain[0]["role"] == "system":
            return [{"role": "system", "content": f"{plain[0]['content']}\n\n{told}"}, *plain[1:]], None
        return [{"role": "system", "content": told}, *plain], None

    def _plain(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a message without what a template that knows no tools would leave out."""
        if message["role"] == "tool":
            return {"role": "user", "content": f"<tool_response>\n{message['content']}\n</tool_response>"}
        if not message.get("tool_calls"):
            return message
        calls = [one["function"] for one in message["tool_calls"]]
        texts = [
            f"<tool_call>\n{json.dumps({'name': call['name'], 'arguments': call['arguments']})}\n</tool_call>"
            for call in calls
        ]
        return {"role": "assistant", "content": "\n".join([*filter(None, [message.get("content")]), *texts])}

    def grammar(self, tools: Sequence[Mapping[str, Any]], name: str | None) -> list[dict[str, Any]]:
        """Return the grammar of one call, of the tool of that name or of any."""
        functions = [tool["function"] for tool in tools if name in (None, tool["function"]["name"])]
        schemas: list[dict[str, Any]] = []
        definitions: dict[str, Any] = {}
        for index, function in enumerate(functions):
            parameters = dict(function.get("parameters") or {"type": "object"})
            # References within a schema of parameters are to its own definitions. They stand at the top here, under
            # names of their own, as those of two tools may have the same name.
            prefix = f"tool{index}_"
            for key in ("$defs", "definitions"):
                own = parameters.pop(key, None)
                if isinstance(own, dict):
                    named = {prefix + name: _with_prefix(value, prefix) for name, value in own.items()}
                    definitions.setdefault(key, {}).update(named)
            parameters = _with_prefix(parameters, prefix)
            schemas.append(
                {
                    "type": "object",
                    "properties": {"name": {"const": function["name"]}, self.key: parameters},
                    "required": ["name", self.key],
                    "additionalProperties": False,
                }
            )
        schema: dict[str, Any] = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        if self.is_list:
            schema = {"type": "array", "items": schema, "minItems": 1, "maxItems": 1}
        begin, end = self._term(self.begin, "{}\n"), self._term(self.end, "\n{}")
        return lark_grammar(begin, {**schema, **definitions}, end)

    @property
    def visible(self) -> frozenset[int]:
        """Return tokens of control that the text must have."""
        return frozenset(number for _, number in self.control)

    def _term(self, text: str, line: str) -> str:
        """Return the term of Lark for a text; tags stand on lines of their own."""
        number = dict(self.control).get(text)
        if number is not None:
            return f"<[{number}]>"
        return json.dumps(line.format(text) if text.startswith("<") else text) if text else ""


def _with_prefix(schema: Any, prefix: str) -> Any:
    """Return a schema whose references to definitions are to those with a prefix."""
    if isinstance(schema, list):
        return [_with_prefix(value, prefix) for value in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _REFERENCE.sub(rf"\g<0>{prefix}", value)
        if key == "$ref" and isinstance(value, str)
        else _with_prefix(value, prefix)
        for key, value in schema.items()
    }


def tool_form(template: ChatTemplate, tokenizer: Tokenizer) -> ToolForm:
    """Return the form of the calls that a template writes."""
    try:
        if _NAME not in template.render([_ASKED], tools=[_TOOL]):
            return ToolForm()
        call = {"type": "function", "id": "call00001", "function": {"name": _NAME, "arguments": {_KEY: "x"}}}
        said = {"role": "assistant", "content": "", "tool_calls": [call]}
        begun = template.render([_ASKED], tools=[_TOOL])
        text = template.render([_ASKED, said], generate=False, tools=[_TOOL])
    except ValueError:
        return ToolForm()
    place = next((place for place, (a, b) in enumerate(zip(begun, text, strict=False)) if a != b), len(begun))
    answer = text[place:]
    found = _json_with_name(answer)
    if found is None:
        return ToolForm()
    first, last, value = found
    is_list = isinstance(value, list)
    one = value[0] if is_list else value
    key = "arguments" if "arguments" in one else "parameters" if "parameters" in one else None
    if key is None:
        return ToolForm()
    names = {tokenizer.token(index): index for index in tokenizer.control_tokens}
    marker = _MARKER.search(answer[:first])
    begin = marker[1] if marker else ""
    end = f"</{begin[1:]}" if begin.startswith("<") and f"</{begin[1:]}" in answer[last:] else ""
    control = tuple((name, names[name]) for name in (begin, end) if name in names)
    return ToolForm(begin, end, key, is_list, control, in_template=True)


def _json_with_name(text: str) -> tuple[int, int, Any] | None:
    """Return where the JSON with the call stands, and its value."""
    decoder = json.JSONDecoder()
    for place, character in enumerate(text):
        if character not in "[{":
            continue
        try:
            value, last = decoder.raw_decode(text, place)
        except ValueError:
            continue
        one = value[0] if isinstance(value, list) and value else value
        if isinstance(one, dict) and one.get("name") == _NAME:
            return place, last, value
    return None


class CallReader:
    """Parts text that comes in pieces into words and calls.

    Args:
        form: of the calls.
        names: of the tools; anything else is no call.
    """

    def __init__(self, form: ToolForm, names: Sequence[str]):
        self._form, self._names = form, set(names)
        self._held = ""
        self._said = False  # words that are no call
        self.calls = 0

    def add(self, text: str) -> list[str | Call]:
        """Return what is certain now: words, and calls that are complete."""
        self._held += text
        parts: list[str | Call] = []
        while (part := self._next()) is not None:
            parts += part
        return parts

    def finish(self, is_cut: bool = False) -> list[str | Call]:
        """Return what is left, as nothing follows.

        Args:
            is_cut: the model would have gone on. A call whose name is complete is one, with its arguments as far as
                they go.
        """
        held, self._held = self._held, ""
        before, _, said = held.partition(self._form.begin) if self._form.begin else ("", "", held)
        calls = self._calls(said) or (self._cut(said) if is_cut else [])
        if calls and (self._form.begin or not self._said):
            return [*self._words(before), *calls]
        return self._words(held)

    def _next(self) -> list[str | Call] | None:
        """Return the next parts; None: more text is needed."""
        begin, held = self._form.begin, self._held
        if not held:
            return None
        if not begin:
            return self._next_bare(held)
        place = held.find(begin)
        if place < 0:
            sizes = range(min(len(begin) - 1, len(held)), 0, -1)
            kept = next((size for size in sizes if begin.startswith(held[-size:])), 0)
            given, self._held = held[: len(held) - kept], held[len(held) - kept :]
            return self._words(given) or None
        if place > 0:
            self._held = held[place:]
            return self._words(held[:place])
        if not self._form.end or (last := held.find(self._form.end)) < 0:
            return None
        calls = self._calls(held[len(begin) : last])
        last += len(self._form.end)
        self._held = held[last:].lstrip("\n") if calls else held[last:]
        return list(calls) if calls else self._words(held[:last])

    def _next_bare(self, held: str) -> list[str | Call] | None:
        """A bare object is a call if nothing stands before it."""
        if self._said or (held.lstrip() and held.lstrip()[0] not in "{<"):
            self._held = ""
            return self._words(held)
        return None

    def _words(self, text: str) -> list[str | Call]:
        if not self._said and not text.strip():
            text = ""  # blank lines before a call
        self._said |= bool(text)
        return [text] if text else []

    def _calls(self, text: str) -> list[Call]:
        """Return the calls of a text; none if it is no JSON of calls."""
        text = text.strip().removeprefix("<|python_tag|>").strip()
        values, decoder, place = [], json.JSONDecoder(), 0
        try:
            while place < len(text):
                value, place = decoder.raw_decode(text, place)
                values += value if isinstance(value, list) else [value]
                while place < len(text) and text[place] in " \n;,":
                    place += 1
        except (ValueError, RecursionError):
            return []
        calls = []
        for value in values:
            arguments = value.get(self._form.key, value.get("arguments")) if isinstance(value, dict) else None
            if not isinstance(arguments, dict) or value.get("name") not in self._names:
                return []
            calls.append(Call(value["name"], json.dumps(arguments, ensure_ascii=False)))
        self.calls += len(calls)
        return calls

    def _cut(self, text: str) -> list[Call]:
        """Return the calls of a text that ends within one."""
        calls, decoder, place = [], json.JSONDecoder(), 0
        while (begun := _BEGUN.match(text, place)) is not None and begun[1] in self._names:
            arguments = begun["arguments"] or ""
            try:
                value, size = decoder.raw_decode(arguments)
            except (ValueError, RecursionError):
                calls.append(Call(begun[1], arguments))
                break
            calls.append(Call(begun[1], json.dumps(value, ensure_ascii=False)))
            place = begun.start("arguments") + size
        self.calls += len(calls)
        return calls
