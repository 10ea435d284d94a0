"""Forms answers: whole, or as a stream of server-sent events."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from ms_ascend_ops.serving.errors import ServingError
from ms_ascend_ops.serving.http import answered, openai_error
from ms_ascend_ops.serving.language import Generation
from ms_ascend_ops.serving.openai.fields import Options
from ms_ascend_ops.serving.openai.probabilities import of_chat, of_completion
from ms_ascend_ops.serving.openai.prompts import all_texts, usage_of
from ms_ascend_ops.serving.service import Version

__all__ = ["ChatForm", "CompletionForm", "answer_of"]


class CompletionForm:
    """Answers with texts that are continued.

    Args:
        tokenizer: of the model.
        echoes: the text in front of the continuation of each prompt.
        choices: of each prompt.
        silent: the continuation is left out, as max_tokens is 0.
    """

    name, piece_name, prefix = "text_completion", "text_completion", "cmpl"

    def __init__(self, tokenizer: Any, echoes: Sequence[str], choices: int, silent: bool):
        self._tokenizer, self._echoes, self._choices, self.silent = tokenizer, echoes, choices, silent
        self._offsets: dict[int, int] = {}

    def choice(self, index: int, generation: Generation, text: str) -> dict[str, Any]:
        """Return a whole answer."""
        request, echo = generation.request, self._echoes[index // self._choices]
        known = None
        if request.logprobs is not None:
            tokens = [*request.of_prompt, *([] if self.silent else request.token_logprobs)]
            first = request.prompt[0] if request.prompt_logprobs else None
            known = of_completion(self._tokenizer, tokens, 0 if first is not None else len(echo), first)
        return self._made(index, echo + ("" if self.silent else text), request.finish_reason, known)

    def begin(self, index: int) -> list[dict[str, Any]]:
        """Return the first pieces of a stream."""
        echo = self._echoes[index // self._choices]
        self._offsets[index] = len(echo)
        return [self._made(index, echo, None, None)] if echo else []

    def pieces(self, index: int, text: str, tokens: Sequence[Any] | None) -> list[dict[str, Any]]:
        """Return the pieces for a text, with what is known of its tokens."""
        known = None if tokens is None else of_completion(self._tokenizer, tokens, self._offsets[index])
        self._offsets[index] += len(text)
        return [self._made(index, text, None, known)]

    def end(self, index: int, generation: Generation) -> list[dict[str, Any]]:
        """Return the last pieces."""
        return [self._made(index, "", generation.request.finish_reason, None)]

    @staticmethod
    def _made(index: int, text: str, reason: str | None, known: Any) -> dict[str, Any]:
        return {"index": index, "text": text, "logprobs": known, "finish_reason": reason}


class ChatForm:
    """Answers conversations.

    Args:
        tokenizer: of the model.
        reader: makes what finds calls of tools in a text; None: there are no tools.
    """

    name, piece_name, prefix, silent = "chat.completion", "chat.completion.chunk", "chatcmpl", False

    def __init__(self, tokenizer: Any, reader: Any = None):
        self._tokenizer, self._reader = tokenizer, reader
        self._readers: dict[int, Any] = {}

    def choice(self, index: int, generation: Generation, text: str) -> dict[str, Any]:
        """Return a whole answer."""
        request = generation.request
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        calls: list[Any] = []
        if self._reader is not None:
            reader = self._reader()
            parts = [*reader.add(text), *reader.finish(request.finish_reason == "length")]
            calls = [part for part in parts if not isinstance(part, str)]
            words = "".join(part for part in parts if isinstance(part, str))
            if calls:
                message["content"] = words.strip() or None
                message["tool_calls"] = [_call(call) for call in calls]
        known = None if request.logprobs is None else of_chat(self._tokenizer, request.token_logprobs)
        return {"index": index, "message": message, "logprobs": known, "finish_reason": _reason(request, bool(calls))}

    def begin(self, index: int) -> list[dict[str, Any]]:
        """Return the first pieces of a stream."""
        if self._reader is not None:
            self._readers[index] = self._reader()
        return [self._made(index, {"role": "assistant", "content": ""}, None)]

    def pieces(self, index: int, text: str, tokens: Sequence[Any] | None) -> list[dict[str, Any]]:
        """Return the pieces for a text, with what is known of its tokens."""
        known = None if tokens is None else of_chat(self._tokenizer, tokens)
        if self._reader is None:
            return [self._made(index, {"content": text}, None, known)]
        made = self._parts(index, self._readers[index].add(text))
        if known is not None and known["content"]:
            made = made or [self._made(index, {}, None)]
            made[0]["logprobs"] = known
        return made

    def end(self, index: int, generation: Generation) -> list[dict[str, Any]]:
        """Return the last pieces."""
        reader = self._readers.get(index)
        request = generation.request
        left = [] if reader is None else self._parts(index, reader.finish(request.finish_reason == "length"))
        return [*left, self._made(index, {}, _reason(request, reader is not None and reader.calls > 0))]

    def _parts(self, index: int, parts: Sequence[Any]) -> list[dict[str, Any]]:
        made, number = [], self._readers[index].calls - sum(not isinstance(part, str) for part in parts)
        for part in parts:
            if isinstance(part, str):
                made.append(self._made(index, {"content": part}, None))
            else:
                made.append(self._made(index, {"tool_calls": [{"index": number, **_call(part)}]}, None))
                number += 1
        return made

    @staticmethod
    def _made(index: int, delta: dict[str, Any], reason: str | None, known: Any = None) -> dict[str, Any]:
        return {"index": index, "delta": delta, "logprobs": known, "finish_reason": reason}


def _call(call: Any) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": f"call_{secrets.token_hex(12)}", "type": "function", "function": function}


def _reason(request: Any, has_calls: bool) -> str | None:
    return "tool_calls" if has_calls and request.finish_reason == "stop" else request.finish_reason


async def answer_of(
    request: Request, version: Version, options: Options, requests: Sequence[Any], form: CompletionForm | ChatForm
) -> Response:  # fmt: skip
    """Work on requests, a number of choices of each prompt.

    Raises:
        ServingError: the model has too much to do, failed, or was late.
    """
    prompts = [one.prompt for one in requests[:: options.choices]]
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
                async for line in _stream(version, options, generations, prompts, form, head):
                    yield line
            finally:
                for generation in generations:
                    generation.cancel()
                use.__exit__(None, None, None)

        return _Stream(stream(), generations)
    with version.used():
        generations = version.generate(requests)
        try:
            texts = await answered(request, all_texts(generations, version.options.timeout_s))
        finally:
            for generation in generations:
                generation.cancel()
    usage = usage_of(prompts, generations, form.silent)

    def written() -> Response:
        choices = [form.choice(index, *pair) for index, pair in enumerate(zip(generations, texts, strict=True))]
        fields = {**head, "object": form.name, "choices": choices, "usage": usage, "system_fingerprint": None}
        return JSONResponse(fields)

    # Writing probabilities of many tokens takes long.
    return written() if options.logprobs is None else await asyncio.to_thread(written)


class _Stream(StreamingResponse):
    """Writes server-sent events."""

    def __init__(self, content: AsyncIterator[bytes], generations: Sequence[Generation]):
        super().__init__(content, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        self._generations = generations

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            for generation in self._generations:  # also if the client left before the first piece
                generation.cancel()


async def _stream(
    version: Version, options: Options, generations: Sequence[Generation], prompts: Sequence[Sequence[int]],
    form: CompletionForm | ChatForm, head: Mapping[str, Any],
) -> AsyncIterator[bytes]:  # fmt: skip
    def event(choices: list[dict[str, Any]], usage: dict[str, int] | None = None) -> bytes:
        fields = {**head, "object": form.piece_name, "choices": choices, "system_fingerprint": None}
        if options.usage:
            fields["usage"] = usage
        return f"data: {json.dumps(fields, ensure_ascii=False)}\n\n".encode()

    for index in range(len(generations)):
        for first in form.begin(index):
            yield event([first])
    queue: asyncio.Queue[tuple[int, tuple[str, int] | None, BaseException | None]] = asyncio.Queue()

    async def pump(index: int) -> None:
        try:
            async for piece in generations[index].pieces(version.options.timeout_s):
                queue.put_nowait((index, piece, None))
        except ServingError as error:
            queue.put_nowait((index, None, error))
        else:
            queue.put_nowait((index, None, None))

    pumps = [asyncio.ensure_future(pump(index)) for index in range(len(generations))]
    told = [0] * len(generations)  # tokens whose probabilities are out
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
                made = form.end(index, generations[index])
            else:
                text, count = piece
                known = generations[index].request.token_logprobs[told[index] : count]
                told[index] = count
                made = form.pieces(index, text, None if options.logprobs is None else known)
            for one in made:
                yield event([one])
    finally:
        for task in pumps:
            task.cancel()
    if options.usage:
        yield event([], usage_of(prompts, generations))
    yield b"data: [DONE]\n\n"
