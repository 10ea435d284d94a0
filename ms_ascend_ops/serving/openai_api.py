"""OpenAI's API (`/v1/...`) for language models: completions of texts and conversations, as one answer or as a stream.

Source: https://platform.openai.com/docs/api-reference. Fields that are not supported are refused unless they have the
value that changes nothing. Beside OpenAI's there are top_k, min_p and repetition_penalty.
"""

from __future__ import annotations

import asyncio
import json
import reprlib
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from ms_ascend_ops.serving.errors import BadRequest, NotFound, ServingError, Unavailable
from ms_ascend_ops.serving.http import answered, object_of, openai_error, service_of
from ms_ascend_ops.serving.language import Generation, chat_tokens, prompt_tokens
from ms_ascend_ops.serving.service import Service, Version

if TYPE_CHECKING:
    from ms_ascend_ops.llm.sampling import Sampling

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["OpenAI"])

_MOST_CHOICES = 64
_MOST_STOPS = 16
_MOST_MESSAGES = 10_000
_ROLES = ("system", "developer", "user", "assistant")
# Fields that do nothing here, and those that do something elsewhere, with the values that change nothing.
_IGNORED = ("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key")
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "best_of": (None, 1),
    "suffix": (None, ""),
    "logprobs": (None, False, 0),
    "top_logprobs": (None, 0),
    "logit_bias": (None, {}),
    "presence_penalty": (None, 0, 0.0),
    "frequency_penalty": (None, 0, 0.0),
    "tools": (None, []),
    "tool_choice": (None, "none", "auto"),
    "parallel_tool_calls": (None, True, False),
    "functions": (None, []),
    "function_call": (None, "none", "auto"),
    "response_format": (None, {"type": "text"}),
    "modalities": (None, ["text"]),
    "reasoning_effort": (None,),
}
_COMMON = (
    "model", "max_tokens", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed", "stop", "n",
    "stream", "stream_options",
)  # fmt: skip


@dataclass(frozen=True)
class _Options:
    """What completions and chats have in common."""

    model: str
    most: int | None  # tokens
    sampling: Sampling
    stop: tuple[str, ...]
    choices: int
    stream: bool
    usage: bool  # as the last piece of a stream


@router.get("/models")
async def models(request: Request) -> dict[str, Any]:
    """The language models; NAME:VERSION is one version, NAME one by the shares of the traffic."""
    service = service_of(request)
    data = []
    for name in service.names():
        versions = [version for version in service.versions(name) if version.is_language_model]
        data += [_described(name, versions[0])] if versions else []
        data += [_described(f"{name}:{version.number}", version) for version in versions]
    return {"object": "list", "data": data}


@router.get("/models/{name}")
async def model(request: Request, name: str) -> dict[str, Any]:
    """One of them."""
    base, _, number = name.partition(":")
    service = service_of(request)
    version = service.version(base, number) if number else service.versions(base)[0]
    if not version.is_language_model:
        raise NotFound(f"{base} is no language model")
    return _described(name, version)


@router.post("/completions")
async def completions(request: Request) -> Response:
    """Continue one text or several, given as texts or as tokens."""
    fields = await object_of(request)
    options = _options(fields, ("prompt", "echo"), most=16)
    echo = _typed(fields, "echo", bool, False)
    version = _version_for(request, options.model)
    with version.used():
        prompts, texts = await asyncio.to_thread(_prompts, version, fields.get("prompt"), options.choices, echo)

    def choice(index: int, text: str, reason: str | None) -> dict[str, Any]:
        return {"index": index, "text": text, "logprobs": None, "finish_reason": reason}

    form = _Form("text_completion", "text_completion", "cmpl", choice, choice, texts, None)
    return await _answer(request, version, options, prompts, form)


@router.post("/chat/completions")
async def chat_completions(request: Request) -> Response:
    """Answer in a conversation."""
    fields = await object_of(request)
    options = _options(fields, ("messages", "max_completion_tokens"), most=None)
    if fields.get("max_completion_tokens") is not None:
        options = replace(options, most=_integer(fields, "max_completion_tokens", None, 1))
    messages = await asyncio.to_thread(_messages, fields.get("messages"))
    version = _version_for(request, options.model)
    with version.used():
        tokens = await asyncio.to_thread(chat_tokens, version.name, version.language_model, messages)

    def choice(index: int, text: str, reason: str | None) -> dict[str, Any]:
        message = {"role": "assistant", "content": text, "refusal": None}
        return {"index": index, "message": message, "logprobs": None, "finish_reason": reason}

    def delta(index: int, text: str, reason: str | None) -> dict[str, Any]:
        return {"index": index, "delta": {"content": text} if text else {}, "logprobs": None, "finish_reason": reason}

    begin = {"delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
    form = _Form("chat.completion", "chat.completion.chunk", "chatcmpl", choice, delta, [""], begin)
    return await _answer(request, version, options, [tokens], form)


@dataclass(frozen=True)
class _Form:
    """What tells completions from chats in an answer."""

    name: str
    piece_name: str
    prefix: str
    choice: Callable[[int, str, str | None], dict[str, Any]]
    piece: Callable[[int, str, str | None], dict[str, Any]]
    echoes: Sequence[str]  # before the text of each prompt
    begin: dict[str, Any] | None  # the first piece of each choice


async def _answer(
    request: Request, version: Version, options: _Options, prompts: Sequence[Sequence[int]], form: _Form
) -> Response:  # fmt: skip
    requests = _requests(version, options, prompts)
    head = {"id": f"{form.prefix}-{secrets.token_hex(12)}", "created": int(time.time()), "model": options.model}
    if options.stream:
        # The use begins before the answer does, so that an error of it has a status.
        use = version.used()
        use.__enter__()
        try:
            generations = version.generate(requests)
        except BaseException:
            use.__exit__(None, None, None)
            raise

        async def stream() -> AsyncIterator[bytes]:
            try:
                async for line in _stream(version, options, generations, len(prompts), form, head):
                    yield line
            finally:
                for generation in generations:
                    generation.cancel()
                use.__exit__(None, None, None)

        return _Stream(stream(), generations)
    with version.used():
        generations = version.generate(requests)
        try:
            texts = await answered(request, _all(generations, version.options.timeout_s))
        finally:
            for generation in generations:
                generation.cancel()
    choices = []
    for index, (generation, text) in enumerate(zip(generations, texts, strict=True)):
        echo = form.echoes[index // options.choices]
        choices.append(form.choice(index, echo + text, generation.request.finish_reason))
    usage = _usage(prompts, generations)
    return JSONResponse({**head, "object": form.name, "choices": choices, "usage": usage, "system_fingerprint": None})


class _Stream(StreamingResponse):
    """Server-sent events."""

    def __init__(self, content: AsyncIterator[bytes], generations: Sequence[Generation]):
        super().__init__(content, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        self._generations = generations

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            for generation in self._generations:  # also if the client left before the first piece
                generation.cancel()


async def _all(generations: Sequence[Generation], timeout_s: float) -> list[str]:
    return list(await asyncio.gather(*(_whole(generation, timeout_s) for generation in generations)))


async def _whole(generation: Generation, timeout_s: float) -> str:
    return "".join([piece async for piece in generation.pieces(timeout_s)])


async def _stream(
    version: Version, options: _Options, generations: Sequence[Generation], prompts: int, form: _Form,
    head: Mapping[str, Any],
) -> AsyncIterator[bytes]:  # fmt: skip
    def event(choices: list[dict[str, Any]], usage: dict[str, int] | None = None) -> bytes:
        fields = {**head, "object": form.piece_name, "choices": choices, "system_fingerprint": None}
        if options.usage:
            fields["usage"] = usage
        return f"data: {json.dumps(fields, ensure_ascii=False)}\n\n".encode()

    for index in range(len(generations)):
        if form.begin is not None:
            yield event([{"index": index, **form.begin}])
        elif form.echoes[index // options.choices]:
            yield event([form.piece(index, form.echoes[index // options.choices], None)])
    queue: asyncio.Queue[tuple[int, str | None, BaseException | None]] = asyncio.Queue()

    async def pump(index: int) -> None:
        try:
            async for piece in generations[index].pieces(version.options.timeout_s):
                queue.put_nowait((index, piece, None))
        except ServingError as error:
            queue.put_nowait((index, None, error))
        else:
            queue.put_nowait((index, None, None))

    pumps = [asyncio.ensure_future(pump(index)) for index in range(len(generations))]
    try:
        left = len(pumps)
        while left:
            index, piece, error = await queue.get()
            if isinstance(error, ServingError):  # the status is out already
                fields = {"error": openai_error(error.status, error.message, error.code, error.parameter)}
                yield f"data: {json.dumps(fields)}\n\n".encode()
                return
            if piece is None:
                left -= 1
                yield event([form.piece(index, "", generations[index].request.finish_reason)])
            else:
                yield event([form.piece(index, piece, None)])
    finally:
        for one in pumps:
            one.cancel()
    if options.usage:
        every = len(generations) // prompts
        yield event([], _usage([one.request.prompt for one in generations[::every]], generations))
    yield b"data: [DONE]\n\n"


def _usage(prompts: Sequence[Sequence[int]], generations: Sequence[Generation]) -> dict[str, Any]:
    prompt = sum(map(len, prompts))
    generated = sum(len(generation.request.tokens) for generation in generations)
    reused = sum(generation.request.reused for generation in generations[:: len(generations) // len(prompts)])
    return {
        "prompt_tokens": prompt,
        "completion_tokens": generated,
        "total_tokens": prompt + generated,
        "prompt_tokens_details": {"cached_tokens": reused},
    }


def _requests(version: Version, options: _Options, prompts: Sequence[Sequence[int]]) -> list[Any]:
    model = version.language_model
    context = model.executor.context
    requests = []
    for prompt in prompts:
        if not prompt:
            raise BadRequest("the prompt must have at least 1 token", "prompt")
        if len(prompt) + (options.most or 1) > context:
            raise BadRequest(
                f"the context of {version.name} is {context} tokens: the prompt has {len(prompt)}, and "
                f"{options.most or 1} are to be generated", "prompt",
            )  # fmt: skip
        for choice in range(options.choices):
            sampling = options.sampling
            if sampling.seed is not None:
                sampling = replace(sampling, seed=sampling.seed + choice)
            most = options.most or context - len(prompt)
            requests.append(model.request(prompt, most, sampling, options.stop))
    return requests


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


def _options(fields: Mapping[str, Any], own: Sequence[str], most: int | None) -> _Options:
    for name, value in fields.items():
        if name in _COMMON or name in own or name in _IGNORED:
            continue
        if name not in _NEUTRAL:
            raise BadRequest(f"there is no field {name[:64]!r}", name[:64])
        if not any(type(value) is type(neutral) and value == neutral for neutral in _NEUTRAL[name]):
            raise BadRequest(f"{name} is not supported", name)
    model = _typed(fields, "model", str, None)
    if model is None:
        raise BadRequest("the field model is missing", "model")
    stream = _typed(fields, "stream", bool, False)
    stream_options = _typed(fields, "stream_options", dict, {})
    if stream_options and not stream:
        raise BadRequest("stream_options needs stream", "stream_options")
    usage = _typed(stream_options, "include_usage", bool, False)
    return _Options(
        model, _integer(fields, "max_tokens", most, 1), _sampling(fields), _stops(fields.get("stop")),
        _integer(fields, "n", 1, 1, _MOST_CHOICES) or 1, stream, usage,
    )  # fmt: skip


def _sampling(fields: Mapping[str, Any]) -> Sampling:
    from ms_ascend_ops.llm.sampling import Sampling  # noqa: PLC0415 - of the extra [llm]

    try:
        return Sampling(
            temperature=_float(fields, "temperature", 1.0, 2.0),
            top_p=_float(fields, "top_p", 1.0, 1.0),
            top_k=_integer(fields, "top_k", 0, 0) or 0,
            min_p=_float(fields, "min_p", 0.0, 1.0),
            repetition_penalty=_float(fields, "repetition_penalty", 1.0, 100.0),
            seed=_seed(fields),
        )
    except ValueError as error:
        raise BadRequest(str(error)) from error


def _seed(fields: Mapping[str, Any]) -> int | None:
    seed = _integer(fields, "seed", None, -(2**63), 2**63)
    return None if seed is None else seed % 2**63  # the generator takes no negative ones


def _stops(stop: Any) -> tuple[str, ...]:
    stops = [stop] if isinstance(stop, str) else [] if stop is None else stop
    if not isinstance(stops, list) or len(stops) > _MOST_STOPS or not all(isinstance(one, str) for one in stops):
        raise BadRequest(f"stop must be a text or a list of at most {_MOST_STOPS}", "stop")
    if any(not one or len(one) > 1000 for one in stops):
        raise BadRequest("a stop text must have 1 to 1000 characters", "stop")
    return tuple(stops)


def _prompts(version: Version, prompt: Any, choices: int, echo: bool) -> tuple[list[list[int]], list[str]]:
    """The tokens of each prompt, given as texts or as tokens, one or several; and the texts, if asked for."""
    if isinstance(prompt, str) or (isinstance(prompt, list) and prompt and type(prompt[0]) is int):
        prompt = [prompt]
    if not isinstance(prompt, list) or not prompt or len(prompt) * choices > _MOST_CHOICES:
        raise BadRequest(f"prompt must be 1 to {_MOST_CHOICES // choices} texts or lists of tokens", "prompt")
    model, tokens = version.language_model, []
    vocabulary, context = model.config.vocabulary, model.executor.context
    for one in prompt:
        if isinstance(one, str):
            tokens.append(prompt_tokens(version.name, model, _text(one, "prompt")))
        elif isinstance(one, list) and len(one) > context:
            raise BadRequest(f"the context of {version.name} is {context} tokens: the prompt has {len(one)}", "prompt")
        elif isinstance(one, list) and all(type(token) is int for token in one):
            if not all(0 <= token < vocabulary for token in one):
                raise BadRequest(f"tokens must be 0 to {vocabulary - 1}", "prompt")
            tokens.append(one)
        else:
            raise BadRequest(f"prompt must be texts or lists of tokens, got {reprlib.repr(one)}", "prompt")
    return tokens, [model.tokenizer.decode(prompt) if echo else "" for prompt in tokens]


def _messages(messages: Any) -> list[dict[str, str]]:
    if not isinstance(messages, list) or not 1 <= len(messages) <= _MOST_MESSAGES:
        raise BadRequest(f"messages must be a list of 1 to {_MOST_MESSAGES}", "messages")
    checked: list[dict[str, str]] = []
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(role, str) or role not in _ROLES:
            raise BadRequest(f"a message must have a role of {', '.join(_ROLES)}, got {reprlib.repr(role)}", "messages")
        content = message.get("content")
        if isinstance(content, list):
            content = "".join(map(_part, content))
        if not isinstance(content, str):
            raise BadRequest(f"the content of a message must be a text, got {reprlib.repr(content)}", "messages")
        # Templates know no developer, which newer clients say instead of system.
        checked.append({"role": "system" if role == "developer" else role, "content": _text(content, "messages")})
    return checked


def _part(part: Any) -> str:
    text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
    if not isinstance(text, str):
        raise BadRequest("parts of a message must be texts", "messages")
    return text


def _text(text: str, parameter: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:  # a half of a surrogate pair, which JSON can have
        raise BadRequest(
            f"{parameter} holds half of a character (U+{ord(text[error.start]):04X})", parameter
        ) from error
    return text


def _typed(fields: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, kind):
        raise BadRequest(f"{name} must be of type {kind.__name__}, got {reprlib.repr(value)}", name)
    return value


def _integer(fields: Mapping[str, Any], name: str, default: int | None, least: int, most: int = 2**31) -> int | None:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise BadRequest(f"{name} must be an integer from {least} to {most}, got {reprlib.repr(value)}", name)
    return value


def _float(fields: Mapping[str, Any], name: str, default: float, most: float) -> float:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, int | float) or isinstance(value, bool) or not -1e9 < value <= most:  # nor NaN
        raise BadRequest(f"{name} must be a number up to {most:g}, got {reprlib.repr(value)}", name)
    return float(value)
