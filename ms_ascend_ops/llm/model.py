"""Holds a model with all that it takes to use it: network, cache, tokenizer, chat template."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from ms_ascend_ops.llm.chat_template import ChatTemplate
from ms_ascend_ops.llm.checkpoint_text import check_vocabulary, load_template, load_tokenizer, template_of
from ms_ascend_ops.llm.checkpoints import open_checkpoint
from ms_ascend_ops.llm.constraint import Grammars
from ms_ascend_ops.llm.executor import BLOCK, Executor, ProgramExecutor, check_memory
from ms_ascend_ops.llm.linear import rounding_of
from ms_ascend_ops.llm.network import load_network
from ms_ascend_ops.llm.parallel import Group, check_job, join, partition
from ms_ascend_ops.llm.sampling import Sampling
from ms_ascend_ops.llm.scheduler import Request, Scheduler
from ms_ascend_ops.llm.tokenizer import Tokenizer
from ms_ascend_ops.llm.tool_calls import ToolForm, tool_form

__all__ = ["DTYPES", "Completion", "LanguageModel", "cache_type", "is_bundle"]

DTYPES: Mapping[str, Any] = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}

_MOST_CONTEXT = 4096  # unless `context` says more


@dataclass(frozen=True)
class Completion:
    """Holds what was generated."""

    text: str
    tokens: tuple[int, ...]
    prompt_tokens: int
    finish_reason: str  # "stop" or "length"
    context_full: bool = False  # "length", as there is no room for another token


class LanguageModel:
    """Generates text with a language model. `from_file` opens one.

    Args:
        executor: who runs the network, with its cache.
        tokenizer: texts to tokens and back.
        template: how a conversation becomes a text; None: the model continues texts only.
        batch: sequences that are worked on at once.
        group: processes that each hold a part; all must get the same requests in the same order.
    """

    def __init__(
        self, executor: Executor, tokenizer: Tokenizer, template: ChatTemplate | None = None, batch: int = 8,
        group: Group | None = None,
    ):  # fmt: skip
        self.executor = executor
        self.config = executor.config
        self.tokenizer = tokenizer
        self.template = template
        self.scheduler = Scheduler(executor, tokenizer, batch)
        self.stop_tokens = self.config.end_tokens
        self.grammars = Grammars(tokenizer, self.config.vocabulary, self.config.end_tokens)
        self.note = ""  # what the file is read as, where that takes much more than it says
        self._tool_form: ToolForm | None = None
        self.group = group  # processes that each hold a part; all must get the same requests in the same order
        # They must choose the same tokens: give them the same random numbers.
        own_seed = int(np.random.default_rng().integers(1 << 24)) if group else 0
        self._seeds = np.random.default_rng(group.shared(own_seed)) if group else None

    @classmethod
    def from_file(
        cls, path: str | Path, dtype: str = "float32", weights: str = "quantized", context: int | None = None,
        batch: int = 8, cache_tokens: int | None = None, engine: str = "kernels", activations: str = "int8",
        tensor_parallel: int = 1, adapter: str | Path | None = None, cache_dtype: str | None = None,
    ) -> LanguageModel:  # fmt: skip
        """Open a GGUF file, a directory of Hugging Face's, or a bundle of `llm convert`.

        Args:
            path: the file or directory. A bundle has types, cache and engine of its own: they are not for it.
            dtype: "float32", "float16" or "bfloat16": what the network calculates in.
            weights: "quantized": matrices stay as the file has them; "float": they become `dtype`.
            context: positions of a sequence at most; without it that of the model, or 4096 if that is less.
            batch: sequences that are worked on at once.
            cache_tokens: positions of all sequences; without it one full context, or 512 for each of the batch.
            engine: "kernels": on a CPU, without MindSpore; "mindspore": by its PyNative mode.
            activations: "int8": they meet matrices that stay quantized as integers of 8 bits, by groups; "float":
                they stay `dtype`.
            tensor_parallel: processes that share the work, each with a part of every layer. msrun must have started
                them (docs/parallel.md), and all must make the same calls.
            adapter: a directory with an adapter of `llm finetune`, or of Hugging Face's PEFT, of the kind LoRA. The
                weights that it changes become floats.
            cache_dtype: "float32", "float16" or "bfloat16": of keys and values in the cache, and so of attention;
                without it float16, or `dtype` if that is bfloat16.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file cannot be read, an argument is not allowed, the layers cannot be divided among so many
                processes, or msrun started another number.
            RuntimeError: with tensor_parallel, msrun did not start this process.
        """
        if dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
        kept = cache_type(cache_dtype, dtype)
        quantized, quantize_x = _quantized(weights), rounding_of(activations)
        if is_bundle(path):
            if tensor_parallel > 1 or adapter is not None:
                raise ValueError(f"{path}: a bundle runs as it was exported, on one process and without adapter")
            return cls._from_bundle(Path(path), context, batch, cache_tokens)
        checkpoint = open_checkpoint(path)
        if adapter is not None:
            from ms_ascend_ops.llm.finetune.adapter import merged  # noqa: PLC0415

            checkpoint = merged(checkpoint, adapter)
        most = checkpoint.config.context
        context = min(most, _MOST_CONTEXT) if context is None else context
        if not 2 <= context <= most:
            raise ValueError(f"{path}: context must be 2 to {most}, which the model was made for, got {context}")
        blocks = -(-max(context, cache_tokens or 512 * batch) // BLOCK)
        check_memory(str(path), checkpoint.config, blocks, context, np.dtype(kept).itemsize)
        tokenizer = load_tokenizer(checkpoint)
        template = load_template(checkpoint, tokenizer)
        if engine not in ("kernels", "mindspore"):
            raise ValueError(f"engine must be kernels or mindspore, got {engine!r}")
        part, group = None, None
        if tensor_parallel != 1:
            part = partition(checkpoint, check_job(tensor_parallel, "tensor parallel"), tensor_parallel, quantized)
            group = join(tensor_parallel)
            part = partition(checkpoint, group.rank, group.size, quantized)
        network = load_network(checkpoint, DTYPES[dtype], quantized, quantize_x, part, group)
        executor: Executor
        if engine == "mindspore":
            from ms_ascend_ops.llm.mindspore_executor import MindSporeExecutor  # noqa: PLC0415 - takes seconds

            executor = MindSporeExecutor(network, blocks, context, cache_dtype=kept)
        else:
            executor = ProgramExecutor(network, blocks, context, cache_dtype=kept)
        model = cls(executor, tokenizer, template, batch, group)
        model.note = checkpoint.note if quantized else ""
        return model

    @classmethod
    def _from_bundle(cls, path: Path, context: int | None, batch: int, cache_tokens: int | None) -> LanguageModel:
        from ms_ascend_ops.llm.bundle import open_bundle  # noqa: PLC0415 - MindSpore

        held = open_bundle(path)
        executor, config = held.executor, held.executor.config
        if context is not None:
            if not 2 <= context <= executor.context:
                raise ValueError(f"{path}: context must be 2 to {executor.context}, as exported, got {context}")
            executor.context = context
        if cache_tokens is not None and cache_tokens > executor.blocks * BLOCK:
            raise ValueError(f"{path}: its cache has room for {executor.blocks * BLOCK} tokens, not for {cache_tokens}")
        check_vocabulary(path, held.tokenizer, config)
        return cls(executor, held.tokenizer, template_of(path, held.template, held.tokenizer), batch)

    def generate(
        self, prompt: str | Sequence[int], max_tokens: int = 128, sampling: Sampling | None = None,
        stop: Sequence[str] = (), on_text: Callable[[str], None] | None = None,
    ) -> Completion:  # fmt: skip
        """Continue a text, or tokens.

        Args:
            prompt: a text, or tokens.
            max_tokens: tokens of the answer at most.
            sampling: how tokens are chosen; None: the most likely one.
            stop: texts that end the answer and are no part of it.
            on_text: called with each piece of the text.

        Raises:
            ValueError: the prompt does not fit the context, or an argument is not allowed.
            RuntimeError: the numbers overflowed, or `on_text` raised.
        """
        request = self.request(prompt, max_tokens, sampling, stop, on_text)
        self.scheduler.submit(request)
        while request.finish_reason is None:
            self.scheduler.step()
        if request.error is not None:
            raise RuntimeError(request.error)
        return Completion(
            request.text, tuple(request.tokens), len(request.prompt), request.finish_reason, request.context_full
        )

    def stream(
        self, prompt: str | Sequence[int], max_tokens: int = 128, sampling: Sampling | None = None,
        stop: Sequence[str] = (),
    ) -> Iterator[str]:  # fmt: skip
        """Continue a text, piece by piece. Who leaves the loop ends the request.

        Args:
            prompt: a text, or tokens.
            max_tokens: tokens of the answer at most.
            sampling: how tokens are chosen; None: the most likely one.
            stop: texts that end the answer and are no part of it.
        """
        pieces: list[str] = []
        request = self.request(prompt, max_tokens, sampling, stop, pieces.append)
        self.scheduler.submit(request)
        try:
            while request.finish_reason is None:
                self.scheduler.step()
                yield from pieces
                pieces.clear()
        finally:
            if request.finish_reason is None:
                self.scheduler.cancel(request)
        if request.error is not None:
            raise RuntimeError(request.error)

    def request(
        self, prompt: str | Sequence[int], max_tokens: int = 128, sampling: Sampling | None = None,
        stop: Sequence[str] = (), on_text: Callable[[str], None] | None = None, **details: Any,
    ) -> Request:  # fmt: skip
        """Make a request for `self.scheduler`, with this model's tokens of the end.

        Args:
            prompt: a text, or tokens.
            max_tokens: tokens of the answer at most.
            sampling: how tokens are chosen; None: the most likely one.
            stop: texts that end the answer and are no part of it.
            on_text: called with each piece of the text.
            **details: more fields of the request.
        """
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)
        sampling = sampling or Sampling()
        if self._seeds is not None and sampling.seed is None:
            sampling = replace(sampling, seed=int(self._seeds.integers(1 << 31)))
        return Request(ids, max_tokens, sampling, stop, self.stop_tokens, on_text, **details)

    def tool_form(self) -> ToolForm:
        """Return how the model writes calls of tools, which takes a template to tell the first time.

        Raises:
            ValueError: it has no chat template.
        """
        if self.template is None:
            raise ValueError("the model has no chat template; it continues texts only")
        if self._tool_form is None:
            self._tool_form = tool_form(self.template, self.tokenizer)
        return self._tool_form

    def chat_tokens(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None, most: int | None = None,
    ) -> list[int]:  # fmt: skip
        """Return the tokens of a conversation, up to where the answer begins.

        Args:
            messages: role and content of each.
            tools, documents: what the template may tell the model of, as transformers hands them over.
            most: tokens at most; work on a longer conversation ends early.

        Raises:
            ValueError: the model has no chat template, it fails, or there are more tokens.
        """
        if self.template is None:
            raise ValueError("the model has no chat template; it continues texts only")
        text = self.template.render(messages, tools=tools, documents=documents)
        return self.tokenizer.encode_chat(text, most)


def cache_type(cache_dtype: str | None, dtype: str) -> Any:
    """Return the type of the cache of a network that calculates in `dtype`.

    Raises:
        ValueError: there is no such type.
    """
    if cache_dtype is None:
        return DTYPES["float16" if dtype == "float32" else dtype]
    if cache_dtype not in DTYPES:
        raise ValueError(f"cache_dtype must be one of {', '.join(DTYPES)}, got {cache_dtype!r}")
    return DTYPES[cache_dtype]


def is_bundle(path: str | Path) -> bool:
    """Tell whether a file is a zip archive, which no other file of a model is."""
    if not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _quantized(weights: str) -> bool:
    if weights not in ("float", "quantized"):
        raise ValueError(f"weights must be float or quantized, got {weights!r}")
    return weights == "quantized"
