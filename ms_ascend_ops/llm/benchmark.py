"""How fast an executor works: prompts, and single tokens behind some context."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ms_ascend_ops.llm.executor import BLOCK, Chunk, Executor

__all__ = ["PEERS", "Speed", "llama_cpp", "measured", "transformers"]


@dataclass(frozen=True)
class Speed:
    """Medians at one length of context."""

    context: int
    prompt_s: float  # all of the context as a prompt
    token_s: float  # one token behind it, for all sequences of a batch
    batch: int = 1

    @property
    def prompt_rate(self) -> float:
        """Tokens of a prompt a second."""
        return self.context / self.prompt_s

    @property
    def token_rate(self) -> float:
        """Tokens of all answers a second."""
        return self.batch / self.token_s


def measured(executor: Executor, context: int, batch: int, tokens: int, runs: int) -> Speed:
    """Measure; the first prompt, for which programs are made, does not count."""
    ids = np.random.default_rng(0).integers(0, executor.config.vocabulary, context).tolist()
    blocks = -(-(context + tokens) // BLOCK)
    own = [list(range(row * blocks, (row + 1) * blocks)) for row in range(batch)]

    def prompt(row: int) -> None:
        for first in range(0, context, executor.chunk):
            executor.step([Chunk(ids[first : first + executor.chunk], first, own[row])])

    prompts = []
    for run in range(max(runs + 1, batch)):
        start = time.perf_counter()
        prompt(run % batch)
        prompts.append(time.perf_counter() - start)
    singles = []
    for place in range(tokens):
        start = time.perf_counter()
        executor.step([Chunk(ids[:1], context + place, own[row]) for row in range(batch)])
        singles.append(time.perf_counter() - start)
    return Speed(context, statistics.median(prompts[1:] or prompts), statistics.median(singles[tokens // 4 :]), batch)


def llama_cpp(path: Path, threads: int) -> Callable[[int, int, int], Speed]:
    """llama.cpp by llama-cpp-python, on the same GGUF file.

    Raises:
        ImportError: it is not installed.
        ValueError: it cannot load the file.
    """
    from llama_cpp import Llama  # noqa: PLC0415

    def measure(context: int, tokens: int, runs: int) -> Speed:
        model = Llama(str(path), n_ctx=context + tokens, n_threads=threads, n_threads_batch=threads, verbose=False)
        ids = np.random.default_rng(0).integers(0, model.n_vocab(), context).tolist()
        prompts = []
        for _ in range(runs + 1):
            model.reset()
            prompts.append(_timed(lambda: model.eval(ids)))
        singles = [_timed(lambda: model.eval(ids[:1])) for _ in range(tokens)]
        return Speed(context, statistics.median(prompts[1:]), statistics.median(singles[tokens // 4 :]))

    return measure


def transformers(path: Path, threads: int) -> Callable[[int, int, int], Speed]:
    """Transformers on PyTorch, in float32.

    Raises:
        ImportError: they are not installed.
        ValueError: they cannot load the file.
    """
    import torch  # noqa: PLC0415
    from transformers import AutoModelForCausalLM  # noqa: PLC0415

    torch.set_num_threads(threads)
    where: dict[str, Any] = {"gguf_file": path.name} if path.is_file() else {}
    folder = path.parent if path.is_file() else path
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **where).eval()

    def measure(context: int, tokens: int, runs: int) -> Speed:
        ids = torch.randint(0, model.config.vocab_size, (1, context), generator=torch.Generator().manual_seed(0))
        with torch.inference_mode():
            prompts = [_timed(lambda: model(ids, logits_to_keep=1)) for _ in range(runs + 1)]
            cache = model(ids, logits_to_keep=1).past_key_values
            singles = [_timed(lambda: model(ids[:, :1], past_key_values=cache)) for _ in range(tokens)]
        return Speed(context, statistics.median(prompts[1:]), statistics.median(singles[tokens // 4 :]))

    return measure


PEERS = {"llama.cpp": llama_cpp, "transformers": transformers}


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
