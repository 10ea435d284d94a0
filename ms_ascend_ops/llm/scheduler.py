"""Batches continuously: requests of any length join and leave, and share the steps of the network."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ms_ascend_ops.llm.constraint import Constraint
from ms_ascend_ops.llm.executor import BLOCK, Chunk, Executor
from ms_ascend_ops.llm.paged_cache import BlockPool, SequenceBlocks
from ms_ascend_ops.llm.sampling import Sampler, Sampling, TokenLogprob, log_probability
from ms_ascend_ops.llm.text import StopFilter
from ms_ascend_ops.llm.tokenizer import TextStream, Tokenizer

__all__ = ["Request", "Scheduler"]

Array = np.ndarray[Any, Any]

_WAIT_S = 0.05  # for a constraint, where there is nothing else to do


@dataclass
class Request:
    """Says what to generate, and holds what was generated so far."""

    prompt: Sequence[int]
    max_tokens: int = 128
    sampling: Sampling = field(default_factory=Sampling)
    stop: Sequence[str] = ()  # texts at which to stop; they are not given out
    stop_tokens: Sequence[int] = ()
    on_text: Callable[[str], None] | None = None  # gets each piece of text, which ends between characters
    visible: frozenset[int] = frozenset()  # tokens of control whose names are a part of the text
    logprobs: int | None = None  # note down the probability of each token, and so many of the most likely ones
    prompt_logprobs: bool = False  # also of the tokens of the prompt, none of which then comes from the cache
    constraint: Constraint | None = None  # tells which tokens may follow
    embed: bool = False  # generate nothing: `embedding` is the mean of the states behind the last layer

    tokens: list[int] = field(default_factory=list, init=False)
    text: str = field(default="", init=False)
    reused: int = field(default=0, init=False)  # tokens of the prompt that were in the cache already
    token_logprobs: list[TokenLogprob] = field(default_factory=list, init=False)  # without that of a stop token
    of_prompt: list[TokenLogprob] = field(default_factory=list, init=False)  # from its second token on
    embedding: Array | None = field(default=None, init=False)
    # "stop": a stop token or text; "length": max_tokens, or the context is full; "cancelled"; "error"; None: goes on.
    finish_reason: str | None = field(default=None, init=False)
    context_full: bool = field(default=False, init=False)  # it ended because there is no room for another token
    error: str | None = field(default=None, init=False)
    begun: float | None = field(default=None, init=False)  # when it was first worked on, by time.monotonic()


class _Sequence:
    """Holds a request that is being worked on."""

    def __init__(self, request: Request, pool: BlockPool, tokenizer: Tokenizer | None):
        self.request = request
        self.blocks = SequenceBlocks(pool)
        self.sampler = Sampler(request.sampling, request.prompt)
        self.tokens = list(request.prompt)  # with those that were generated
        self.computed = 0  # tokens whose keys and values are in the cache
        self.stream = None if tokenizer is None else TextStream(tokenizer, request.prompt, request.visible)
        self.filter = StopFilter(request.stop)
        self.held: Array | None = None  # logits that wait for the constraint
        self.total: Array | float = 0.0  # of the states of an embedding

    @property
    def pending(self) -> int:
        return len(self.tokens) - self.computed

    @property
    def wants_every_row(self) -> bool:
        """Tell whether what the network says of the prompt is wanted, too."""
        return self.request.embed or self.request.prompt_logprobs

    @property
    def in_prompt(self) -> bool:
        """Tell whether pieces of the prompt are left, of which each is a step of its own."""
        return self.pending > 1 or (self.pending == 1 and self.wants_every_row and not self.request.tokens)

    def reset(self) -> None:
        """Give its place up: all is calculated again."""
        self.blocks.release()
        self.computed, self.held, self.total = 0, None, 0.0
        self.request.of_prompt.clear()


class Scheduler:
    """Works on requests: each `step` is a piece of one prompt, and a token for every sequence behind its prompt.

    A sequence gets the tokens that it would get alone, as far as products of several rows give a row the bits that it
    has alone: on a CPU those of up to 8 rows do, of 4 where packed weights meet x that is not rounded (docs/llm.md).

    Args:
        executor: who runs the network, with its cache.
        tokenizer: for requests with texts that end them.
        batch: sequences that are worked on at once.
    """

    def __init__(self, executor: Executor, tokenizer: Tokenizer | None = None, batch: int = 8):
        if batch < 1:
            raise ValueError(f"scheduler: batch must be at least 1, got {batch}")
        self._executor = executor
        self._tokenizer = tokenizer
        self._batch = batch
        self.pool = BlockPool(executor.blocks, BLOCK)
        self._waiting: deque[_Sequence] = deque()
        self._running: list[_Sequence] = []

    @property
    def busy(self) -> bool:
        """Tell whether there is a request to work on."""
        return bool(self._waiting or self._running)

    def submit(self, request: Request) -> None:
        """Take a request.

        Args:
            request: its prompt and how to go on.

        Raises:
            ValueError: it can never be worked on.
        """
        vocabulary = self._executor.config.vocabulary
        room = min(self._executor.context, self._executor.blocks * BLOCK)
        if not request.prompt:
            raise ValueError("request: prompt must have at least 1 token, got 0")
        if len(request.prompt) >= room:
            raise ValueError(
                f"request: prompt must have fewer tokens than the context ({room}), got {len(request.prompt)}"
            )
        if wrong := [token for token in request.prompt if not 0 <= token < vocabulary]:
            raise ValueError(f"request: tokens of prompt must be >= 0 and < {vocabulary}, got {wrong[0]}")
        if request.embed and not hasattr(self._executor, "states"):
            raise ValueError("request: this model has no states to make embeddings of; one that is no bundle has")
        if request.max_tokens < 1:
            raise ValueError(f"request: max_tokens must be at least 1, got {request.max_tokens}")
        if request.stop and self._tokenizer is None:
            raise ValueError("request: stop needs a tokenizer")
        self._waiting.append(_Sequence(request, self.pool, self._tokenizer))

    def cancel(self, request: Request) -> None:
        """Stop working on a request.

        Args:
            request: one that was submitted.
        """
        for sequence in [*self._running, *self._waiting]:
            if sequence.request is request:
                self._finish(sequence, "cancelled")

    def run(self) -> None:
        """Work until nothing is left."""
        while self.busy:
            self.step()

    def step(self) -> None:
        """Compute a piece of the prompt of the first sequence that is not through it, then a token for all that are."""
        self._admit()
        self._take_held()
        # Those that get their first token now go on in the next step, so that no step is longer than it has to be.
        behind_prompt = [one for one in self._running if one.pending == 1 and not one.in_prompt]
        in_prompt = next((sequence for sequence in self._running if sequence.in_prompt), None)
        if in_prompt is not None:
            self._piece(in_prompt)
        ready = []
        for sequence in behind_prompt:
            if sequence in self._running and self._has_room(sequence):
                ready.append(sequence)
        ready = [sequence for sequence in ready if sequence in self._running]  # a later one may have taken its room
        if ready:
            chunks = [Chunk(one.tokens[-1:], one.computed, one.blocks.blocks) for one in ready]
            logits = self._executor.step(chunks)
            for sequence, row in zip(ready, logits, strict=True):
                self._computed(sequence, 1)
                self._next_token(sequence, row)
        elif in_prompt is None:
            self._wait()

    def _take_held(self) -> None:
        """Go on with sequences whose constraint has said by now what may follow."""
        for sequence in list(self._running):
            if sequence.held is not None:
                logits, sequence.held = sequence.held, None
                self._next_token(sequence, logits)

    def _wait(self) -> None:
        """Wait if nothing but constraints is worked on: leave the processor to them."""
        waiting = next((one.request.constraint for one in self._running if one.held is not None), None)
        if waiting is not None:
            waiting.ready(_WAIT_S)

    def _admit(self) -> None:
        while self._waiting and len(self._running) < self._batch:
            sequence = self._waiting[0]
            sequence.computed = 0 if sequence.wants_every_row else sequence.blocks.reuse(sequence.tokens)
            if not sequence.blocks.grow(len(sequence.tokens)):
                sequence.blocks.release()
                return
            if sequence.request.begun is None:
                sequence.request.begun = time.monotonic()
            sequence.request.reused = max(sequence.request.reused, sequence.computed)
            self._running.append(self._waiting.popleft())

    def _piece(self, sequence: _Sequence) -> None:
        count = min(sequence.pending, self._executor.chunk)
        piece = sequence.tokens[sequence.computed : sequence.computed + count]
        chunk = Chunk(piece, sequence.computed, sequence.blocks.blocks)
        if sequence.request.embed:
            sequence.total = sequence.total + self._executor.states(chunk).sum(axis=0, dtype=np.float64)  # type: ignore[attr-defined]
            self._computed(sequence, count)
            if sequence.pending == 0:
                sequence.request.embedding = np.asarray(sequence.total) / len(sequence.tokens)
                self._finish(sequence, "stop")
            return
        logits = self._executor.step([chunk], every_row=sequence.wants_every_row)
        if sequence.request.prompt_logprobs:
            self._note_prompt(sequence, logits)
        self._computed(sequence, count)
        if sequence.pending == 0:
            self._next_token(sequence, logits[-1])

    def _note_prompt(self, sequence: _Sequence, logits: Array) -> None:
        request, first = sequence.request, sequence.computed + 1
        for row, token in zip(logits, request.prompt[first : first + len(logits)], strict=False):  # the last predicts
            request.of_prompt.append(log_probability(row, token, request.logprobs or 0))

    def _has_room(self, sequence: _Sequence) -> bool:
        """Find a block for the next token, if need be that of the sequence that came last, which has to wait then."""
        while not sequence.blocks.grow(len(sequence.tokens)):
            last = self._running[-1]
            if last is sequence and len(self._running) == 1:
                sequence.request.context_full = True
                self._finish(sequence, "length")
                return False
            self._running.remove(last)
            last.reset()
            self._waiting.appendleft(last)
            if last is sequence:
                return False
        return True

    def _computed(self, sequence: _Sequence, count: int) -> None:
        sequence.computed += count
        sequence.blocks.written(sequence.tokens[: sequence.computed])

    def _next_token(self, sequence: _Sequence, logits: Array) -> None:
        request, constraint = sequence.request, sequence.request.constraint
        if constraint is not None and not constraint.ready():
            sequence.held = logits  # others do not wait for it
            return
        try:
            allowed = None if constraint is None else constraint.allowed()
            if allowed is not None and not len(allowed):  # the text is complete
                self._finish(sequence, "stop")
                return
            token = sequence.sampler.choose(logits, allowed)
            request.tokens.append(token)
            sequence.tokens.append(token)
            if token in request.stop_tokens:
                self._finish(sequence, "stop")
                return
            if request.logprobs is not None:
                request.token_logprobs.append(log_probability(logits, token, request.logprobs))
            if constraint is not None:
                constraint.advance(token)
            if sequence.stream is not None:
                self._give(request, sequence.filter.add(sequence.stream.add(token)))
        except Exception as error:
            # One request must not end the others: a callback that raises, an overflow in its numbers.
            request.error = f"{type(error).__name__}: {error}"
            self._finish(sequence, "error")
            return
        request.context_full = len(sequence.tokens) >= self._executor.context
        if sequence.filter.stopped:
            self._finish(sequence, "stop")
        elif len(request.tokens) >= request.max_tokens or request.context_full:
            self._finish(sequence, "length")

    def _finish(self, sequence: _Sequence, reason: str) -> None:
        request = sequence.request
        request.finish_reason = reason
        sequence.blocks.release()
        if sequence in self._running:
            self._running.remove(sequence)
        else:
            self._waiting.remove(sequence)
        if sequence.stream is not None and reason != "error":
            rest = sequence.filter.add(sequence.stream.finish()) + sequence.filter.finish()
            try:
                self._give(request, rest)
            except Exception as error:
                request.error = f"{type(error).__name__}: {error}"
                request.finish_reason = "error"

    def _give(self, request: Request, text: str) -> None:
        if text:
            request.text += text
            if request.on_text is not None:
                request.on_text(text)
