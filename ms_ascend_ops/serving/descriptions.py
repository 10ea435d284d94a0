"""Describes the bodies of requests, for /openapi.json and the page that shows it.

The routes read and check them themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["BODIES"]

_NUMBER, _INTEGER, _TEXT, _FLAG = {"type": "number"}, {"type": "integer"}, {"type": "string"}, {"type": "boolean"}
_OBJECT, _LIST, _ANY = {"type": "object"}, {"type": "array", "items": {}}, {"description": ""}


def _body(example: Mapping[str, Any], required: tuple[str, ...], **fields: tuple[Mapping[str, Any], str]) -> Any:
    properties = {name: {**kind, "description": text} for name, (kind, text) in fields.items()}
    schema = {"type": "object", "properties": properties, "required": list(required), "example": example}
    return {"requestBody": {"required": bool(required), "content": {"application/json": {"schema": schema}}}}


_COMMON = {
    "model": (_TEXT, "NAME, or NAME:VERSION"),
    "max_tokens": (_INTEGER, "tokens at most"),
    "temperature": (_NUMBER, "0 to 2; 0: always the most likely token"),
    "top_p": (_NUMBER, "only the most likely tokens that together have this probability"),
    "top_k": (_INTEGER, "only the k most likely tokens; 0: all"),
    "min_p": (_NUMBER, "only tokens at least this many times as likely as the most likely one"),
    "presence_penalty": (_NUMBER, "-2 to 2: taken from the logits of tokens that were generated"),
    "frequency_penalty": (_NUMBER, "-2 to 2: taken from them once for each time"),
    "repetition_penalty": (_NUMBER, "above 1: tokens that occurred become less likely"),
    "logit_bias": (_OBJECT, "token -> -100 to 100: added to its logit"),
    "seed": (_INTEGER, "the same seed, the same text"),
    "stop": (_ANY, "a text, or up to 16, at which to stop"),
    "n": (_INTEGER, "answers, 1 to 64"),
    "stream": (_FLAG, "the answer piece by piece, as server-sent events"),
    "stream_options": (_OBJECT, "include_usage: the last piece says how many tokens there were"),
    "response_format": (_OBJECT, "json_object, or json_schema with a schema: the answer is such JSON"),
}
_SAID = {"model": "NAME", "messages": [{"role": "user", "content": "Why is the sky blue?"}], "stream": True}
_TENSOR = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1.0, 2.0]}

BODIES: Mapping[str, Any] = {
    "completions": _body(
        {"model": "NAME", "prompt": "Once upon a time", "max_tokens": 32},
        ("model", "prompt"),
        prompt=(_ANY, "a text, a list of tokens, or several of them"),
        echo=(_FLAG, "the answer begins with the prompt"),
        logprobs=(_INTEGER, "0 to 20: the probability of each token, and so many of the most likely ones"),
        **_COMMON,
    ),
    "chat": _body(
        _SAID,
        ("model", "messages"),
        messages=(_LIST, "role (system, user, assistant, tool) and content of each"),
        max_completion_tokens=(_INTEGER, "the same as max_tokens"),
        logprobs=(_FLAG, "the probability of each token"),
        top_logprobs=(_INTEGER, "0 to 20 of the most likely tokens beside each"),
        tools=(_LIST, "functions that may be called: name, description, parameters as a JSON schema"),
        tool_choice=(_ANY, "auto, none, required, or the function that must be called"),
        **_COMMON,
    ),
    "embeddings": _body(
        {"model": "NAME", "input": "a text"},
        ("model", "input"),
        model=(_TEXT, "NAME, or NAME:VERSION"),
        input=(_ANY, "a text, a list of tokens, or several of them"),
        encoding_format=(_TEXT, "float or base64"),
        dimensions=(_INTEGER, "only the first so many numbers"),
    ),
    "infer": _body(
        {"inputs": [_TENSOR]},
        ("inputs",),
        id=(_TEXT, "comes back with the answer"),
        inputs=(_LIST, "name, datatype, shape and data of each"),
        outputs=(_LIST, "the names of the outputs that are wanted; without it all"),
        parameters=(_OBJECT, "timeout in microseconds; binary_data_output"),
    ),
    "index": _body({"ready": True}, (), ready=(_FLAG, "only what is loaded")),
    "load": _body(
        {"parameters": {"config": '{"max_batch_size": 8}'}},
        (),
        parameters=(_OBJECT, "config: options of the model, JSON as a text"),
    ),
    "unload": _body({}, ()),
    "traffic": _body({"traffic": {"1": 95, "2": 5}}, ("traffic",), traffic=(_OBJECT, "version -> share")),
}
