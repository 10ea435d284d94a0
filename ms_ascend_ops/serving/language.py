"""Runs a language model in a thread that works on its requests, all of them together (continuous batching)."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ms_ascend_ops.serving.errors import BadRequest, Busy, Deadline, ServingError, Unavailable
from ms_ascend_ops.serving.metrics import ModelMetrics
from ms_ascend_ops.serving.settings import ModelOptions

if TYPE_CHECKING:
    from ms_ascend_ops.llm.model import LanguageModel
    from ms_ascend_ops.llm.scheduler import Request

__all__ = ["Generation", "LanguageWorker", "chat_tokens", "open_model", "prompt_tokens"]

_log = logging.getLogger(__name__)


class Generation:
    """Iterates over pieces of the text of a request that a worker has.

    When it is left before the end, `cancel` gives its place to others.
    """

    def __init__(self, worker: LanguageWorker, request: Request, loop: asyncio.AbstractEventLoop):
        self.request = request
        self.started = time.monotonic()
        self.first: float | None = None  # s from the request to the first text
        self._worker = worker
        self._loop = loop
        self._events: asyncio.Queue[tuple[str, int] | None] = asyncio.Queue()
        request.on_text = self._text

    async def pieces(self, timeout_s: float) -> AsyncIterator[tuple[str, int]]:
        """Yield the text, piece by piece, with the number of tokens whose probabilities are known by then.

        Raises:
            Deadline: it is not done in time.
            ServingError: the model failed.
        """
        until = time.monotonic() + timeout_s
        try:
            while (piece := await asyncio.wait_for(self._events.get(), until - time.monotonic())) is not None:
                yield piece
        except asyncio.TimeoutError as error:
            raise Deadline(f"the answer was not complete within {timeout_s:g} s", of_client=False) from error
        finally:
            self.cancel()
        if self.request.error is not None and self.request.error.startswith("ConstraintError"):
            raise BadRequest(self.request.error.partition(": ")[2], "response_format")
        if self.request.error is not None:
            raise ServingError(f"the model failed: {self.request.error}")
        if self.request.finish_reason == "cancelled":
            raise Unavailable("the model was unloaded")

    def cancel(self) -> None:
        """Stop working on it, if it is not done."""
        self._worker.cancel(self)

    # The methods below run in the thread of the worker.

    def _text(self, piece: str) -> None:
        if self.first is None:
            self.first = time.monotonic() - self.started
        self._put((piece, len(self.request.token_logprobs)))

    def finished(self) -> None:
        """Note that there will be no more."""
        self._put(None)

    def _put(self, event: tuple[str, int] | None) -> None:
        with suppress(RuntimeError):  # the loop has ended, and with it who waited
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)


class LanguageWorker:
    """Runs the scheduler of a model in a thread of its own. `submit` and `cancel` are for any other."""

    def __init__(
        self, name: str, make: Callable[[], LanguageModel], metrics: ModelMetrics, batch: int, queue: int = 128
    ):  # fmt: skip
        self._make = make
        self._batch = batch
        self._metrics = metrics
        self._queue = queue
        self._condition = threading.Condition()
        self._new: list[Generation] = []
        self._cancelled: list[Generation] = []
        self._open: dict[int, Generation] = {}  # all that have no answer, by id()
        self._closing = False
        self.loaded: Future[LanguageModel] = Future()
        self.ended: Future[None] = Future()
        threading.Thread(target=self._run_thread, name=f"serve {name}", daemon=True).start()

    @property
    def open(self) -> int:
        """Return the number of requests without an answer."""
        return len(self._open)

    def submit(self, requests: Sequence[Request]) -> list[Generation]:
        """Take requests of one client; all or none. For the thread of an event loop.

        Raises:
            BadRequest: these are more than it ever takes.
            Busy: too many wait.
            Unavailable: it was closed.
        """
        loop = asyncio.get_running_loop()
        most = self._queue + self._batch
        if len(requests) > most:
            raise BadRequest(f"the model takes at most {most} prompts and choices at once, got {len(requests)}")
        with self._condition:
            if self._closing:
                raise Unavailable("the model is being unloaded")
            if len(self._open) + len(requests) > most:
                raise Busy(f"the model has {len(self._open)} of at most {most} requests: come again later")
            generations = [Generation(self, request, loop) for request in requests]
            self._new += generations
            self._open.update((id(one), one) for one in generations)
            self._condition.notify()
        return generations

    def cancel(self, generation: Generation) -> None:
        """Stop working on a request."""
        with self._condition:
            if id(generation) in self._open:
                self._cancelled.append(generation)
                self._condition.notify()

    def close(self) -> None:
        """Take no more requests. Those that it has are completed; `ended` tells when."""
        with self._condition:
            self._closing = True
            self._condition.notify()

    def _run_thread(self) -> None:
        try:
            self._work()
        finally:
            self.ended.set_result(None)

    def _work(self) -> None:
        try:
            model = self._make()
        except BaseException as error:
            self.loaded.set_exception(error)
            return
        self.loaded.set_result(model)
        scheduler = model.scheduler
        while True:
            with self._condition:
                while not (self._new or self._cancelled or self._closing or scheduler.busy):
                    self._condition.wait()
                new, self._new = self._new, []
                cancelled, self._cancelled = self._cancelled, []
                if not new and not scheduler.busy and self._closing:
                    return
            for one in new:
                try:
                    scheduler.submit(one.request)
                except ValueError as error:
                    one.request.error = str(error)
                    one.request.finish_reason = "error"
            for one in cancelled:
                if one.request.finish_reason is None:
                    scheduler.cancel(one.request)
                    self._metrics.cancelled()
            try:
                if scheduler.busy:
                    scheduler.step()
            except Exception as error:
                # The failing request is unknown; start the next ones with nothing of these.
                _log.exception("a step of the language model failed")
                for one in list(self._open.values()):
                    if one.request.finish_reason is None:
                        scheduler.cancel(one.request)
                        one.request.error = f"{type(error).__name__}: {error}"
                        one.request.finish_reason = "error"
            self._report()

    def _report(self) -> None:
        with self._condition:
            done = [one for one in self._open.values() if one.request.finish_reason is not None]
            for one in done:
                del self._open[id(one)]
            self._metrics.working_on(min(len(self._open), self._batch))
            self._metrics.queued(max(len(self._open) - self._batch, 0))
        for one in done:
            request = one.request
            if one.first is not None:
                self._metrics.first_token(one.first)
            name = "fail" if request.finish_reason in ("error", "cancelled") else "success"
            now = time.monotonic()
            self._metrics.statistics.add(name, now - one.started)
            if request.begun is not None:
                self._metrics.waited(request.begun - one.started)
                if name == "success":  # for Triton an answer is a run
                    self._metrics.statistics.ran(now - request.begun, 1, 1)
            self._metrics.counted(
                {"prompt": len(request.prompt), "reused": request.reused, "generated": len(request.tokens)}
            )
            one.finished()


def open_model(path: Path, options: ModelOptions) -> LanguageModel:
    """Load a GGUF file or a directory of Hugging Face's.

    Raises:
        ValueError: it cannot be read, or a package of the extra [llm] is missing.
    """
    from ms_ascend_ops import extras  # noqa: PLC0415

    if packages := extras.missing("llm"):
        raise ValueError(f"language models need {', '.join(packages)}: {extras.advice('llm')}")
    from ms_ascend_ops.llm.model import LanguageModel  # noqa: PLC0415

    return LanguageModel.from_file(
        path, options.dtype, options.weights, options.context, options.batch, options.cache_tokens, options.engine
    )


def prompt_tokens(name: str, model: LanguageModel, text: str, field: str = "prompt") -> list[int]:
    """Return the tokens of a text that a model of this name is to continue, and that a field of a request has.

    Raises:
        BadRequest: it has more than the context; no more of it is worked on than that takes.
    """
    from ms_ascend_ops.llm.tokenizer import TooManyTokensError  # noqa: PLC0415 - of the extra [llm]

    try:
        return model.tokenizer.encode_at_most(model.executor.context, text)
    except TooManyTokensError as error:
        raise BadRequest(
            f"the context of {name} is {model.executor.context} tokens: the {field} has {error.count}", field
        ) from error


def chat_tokens(
    name: str, model: LanguageModel, messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> list[int]:  # fmt: skip
    """Return the tokens of a conversation with a model of this name, which may call tools.

    Raises:
        BadRequest: the model has no chat template, it refuses these messages, or there are too many tokens.
    """
    from ms_ascend_ops.llm.chat_template import TemplateError  # noqa: PLC0415 - of the extra [llm]
    from ms_ascend_ops.llm.tokenizer import TooManyTokensError  # noqa: PLC0415

    most = model.executor.context
    characters = sum(len(message["content"]) for message in messages)
    if characters > most * max(model.tokenizer.longest, 64):
        raise BadRequest(
            f"the context of {name} is {most} tokens: the messages have {characters} characters", "messages"
        )
    try:
        return model.chat_tokens(messages, tools, most=most)
    except TooManyTokensError as error:
        raise BadRequest(f"the context of {name} is {most} tokens: the prompt has {error.count}", "messages") from error
    except TemplateError as error:
        raise BadRequest(error.reason, "messages") from error
    except ValueError as error:
        raise BadRequest(str(error), "messages") from error
