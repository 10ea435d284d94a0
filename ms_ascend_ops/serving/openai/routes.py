"""Defines the routes: models, completions of texts, conversations, embeddings."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response

from ms_ascend_ops import extras
from ms_ascend_ops.serving.descriptions import BODIES
from ms_ascend_ops.serving.errors import BadRequest, NotFound, Unavailable
from ms_ascend_ops.serving.http import object_of, service_of
from ms_ascend_ops.serving.language import chat_tokens
from ms_ascend_ops.serving.openai.answers import ChatForm, CompletionForm, answer_of
from ms_ascend_ops.serving.openai.conversation import Tools, messages_of, schema_of, tools_of
from ms_ascend_ops.serving.openai.embeddings import embeddings as embedded
from ms_ascend_ops.serving.openai.fields import MOST_CHOICES, model_of, options_of, typed
from ms_ascend_ops.serving.openai.prompts import prompt_lists, requests_of
from ms_ascend_ops.serving.service import Service, Version

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["OpenAI"])


@router.get("/models")
async def models(request: Request) -> dict[str, Any]:
    """Return the language models; NAME:VERSION is one version, NAME one by the shares of the traffic."""
    service = service_of(request)
    data = []
    for name in service.names():
        versions = [version for version in service.versions(name) if version.is_language_model]
        data += [_described(name, versions[0])] if versions else []
        data += [_described(f"{name}:{version.number}", version) for version in versions]
    return {"object": "list", "data": data}


@router.get("/models/{name}")
async def model(request: Request, name: str) -> dict[str, Any]:
    """Return one of them."""
    base, _, number = name.partition(":")
    service = service_of(request)
    version = service.version(base, number) if number else service.versions(base)[0]
    if not version.is_language_model:
        raise NotFound(f"{base} is no language model")
    return _described(name, version)


@router.post("/completions", openapi_extra=BODIES["completions"])
async def completions(request: Request) -> Response:
    """Continue one text or several, given as texts or as tokens."""
    fields = await object_of(request)
    echo = typed(fields, "echo", bool, False)
    stream = fields.get("stream") is True
    options = options_of(fields, ("prompt", "echo", "response_format"), most=16, least=0 if echo and not stream else 1)
    version = _version_for(request, options.model)
    knows_prompt = echo and options.logprobs is not None
    if knows_prompt and stream:
        raise BadRequest("logprobs with echo are for answers that are not streamed", "logprobs")
    with version.used():
        prompts, texts = await asyncio.to_thread(
            prompt_lists, version, fields.get("prompt"), MOST_CHOICES // options.choices, "prompt", echo
        )
        requests = requests_of(version, options, prompts, "prompt", prompt_logprobs=knows_prompt)
        await _constrain(version, requests, await _grammar(version, fields, None), "response_format")
    form = CompletionForm(version.language_model.tokenizer, texts, options.choices, options.most == 0)
    return await answer_of(request, version, options, requests, form)


@router.post("/chat/completions", openapi_extra=BODIES["chat"])
async def chat_completions(request: Request) -> Response:
    """Answer in a conversation."""
    fields = await object_of(request)
    own = (
        "messages", "max_completion_tokens", "top_logprobs", "response_format", "tools", "tool_choice",
        "parallel_tool_calls",
    )  # fmt: skip
    options = options_of(fields, own, most=None, chat=True)
    typed(fields, "parallel_tool_calls", bool, True)
    tools = tools_of(fields)
    messages = await asyncio.to_thread(messages_of, fields.get("messages"))
    version = _version_for(request, options.model)
    model = version.language_model
    with version.used():
        details: dict[str, Any] = {}
        reader = None
        if tools.tools or any(one["role"] == "tool" or "tool_calls" in one for one in messages):
            from ms_ascend_ops.llm.tool_calls import CallReader  # noqa: PLC0415 - of the extra [llm]

            form = await asyncio.to_thread(model.tool_form)
            given, told = form.conversation(messages, tools.tools)
            tokens = await asyncio.to_thread(chat_tokens, version.name, model, given, told)
            if tools.tools:
                reader = partial(CallReader, form, tools.names)
                details["visible"] = form.visible
        else:
            tokens = await asyncio.to_thread(chat_tokens, version.name, model, messages)
        requests = requests_of(version, options, [tokens], "messages", **details)
        is_forced = tools.is_forced
        await _constrain(
            version, requests, await _grammar(version, fields, tools), "tools" if is_forced else "response_format"
        )
    return await answer_of(request, version, options, requests, ChatForm(model.tokenizer, reader))


@router.post("/embeddings", openapi_extra=BODIES["embeddings"])
async def embeddings(request: Request) -> Response:
    """Compute a vector of length 1 for each text: the mean of the states behind the last layer."""
    fields = await object_of(request)
    return await embedded(request, _version_for(request, model_of(fields)), fields)


async def _grammar(version: Version, fields: Mapping[str, Any], tools: Tools | None) -> Sequence[Any] | None:
    """Return the grammar that an answer must have, if it must have one."""
    schema = schema_of(fields)
    if tools is not None and tools.is_forced:
        if schema is not None:
            raise BadRequest("response_format and a tool_choice that forces a call cannot both be", "response_format")
        form = await asyncio.to_thread(version.language_model.tool_form)
        name = tools.choice if tools.is_name else None
        return form.grammar(tools.tools, name)
    if schema is None:
        return None
    from ms_ascend_ops.llm.constraint import json_grammar  # noqa: PLC0415 - of the extra [llm]

    return json_grammar(schema)


async def _constrain(
    version: Version, requests: Sequence[Any], grammar: Sequence[Any] | None, parameter: str
) -> None:  # fmt: skip
    if grammar is None:
        return
    from ms_ascend_ops.llm.constraint import ConstraintError  # noqa: PLC0415 - of the extra [llm]

    if packages := extras.missing("serve response_format"):
        advice = extras.advice("serve response_format")
        raise BadRequest(f"{parameter} needs {', '.join(packages)} on the server: {advice}", parameter)
    try:
        async with version.compiling:  # others find threads, too
            constraints = await asyncio.to_thread(version.language_model.grammars.open, grammar, len(requests))
    except ConstraintError as error:
        raise BadRequest(f"the schema cannot be used: {error}", parameter) from error
    for one, constraint in zip(requests, constraints, strict=True):
        one.constraint = constraint


def _version_for(request: Request, name: str) -> Version:
    service = service_of(request)
    if not service.ready:
        raise Unavailable("the server is starting or stopping")
    return _version(service, name)


def _version(service: Service, name: str) -> Version:
    base, _, number = name.partition(":")
    version = service.version(base, number or None)
    if not version.is_language_model:
        raise BadRequest(f"{base} is no language model: ask /v2/models/{base}/infer", "model")
    return version


def _described(name: str, version: Version) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": version.loaded_at, "owned_by": "ms_ascend_ops"}
