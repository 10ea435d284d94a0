"""Measures how fast networks work, in turn: prompts, and single tokens behind some context."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ms_ascend_ops.llm.executor import BLOCK, Chunk, Executor
from ms_ascend_ops.llm.network import Network

__all__ = ["PEERS", "Engine", "Own", "Speed", "Stock", "chart", "measured"]

_ROUND = 8  # tokens of one engine before it is the next one's turn
_WARM = 8  # first tokens, which do not count: programs are made, loops are compiled


@dataclass(frozen=True)
class Speed:
    """Holds medians at one length of context."""

    context: int
    prompt_s: float  # all of the context as a prompt
    token_s: float  # one token behind it, for all sequences of a batch
    batch: int = 1

    @property
    def prompt_rate(self) -> float:
        """Return the tokens of a prompt a second."""
        return self.context / self.prompt_s

    @property
    def token_rate(self) -> float:
        """Return the tokens of all answers a second."""
        return self.batch / self.token_s


class Engine(Protocol):
    """Takes the steps that `measured` times."""

    batch: int  # sequences that get tokens together

    def begin(self, context: int, room: int) -> None:
        """Be ready for prompts of one length, and sequences of `room` tokens."""

    def prompt(self, ids: Sequence[int]) -> None:
        """Calculate the prompt of one sequence, from its beginning."""

    def token(self, token: int, place: int) -> None:
        """Calculate a token at a place behind the prompt, for each sequence."""


class Own:
    """Runs an executor of this library."""

    def __init__(self, executor: Executor, batch: int = 1):
        self.batch = batch
        self._executor = executor
        self._blocks: list[list[int]] = []
        self._row = 0

    def begin(self, context: int, room: int) -> None:
        """See `Engine`."""
        blocks = -(-room // BLOCK)
        self._blocks = [list(range(row * blocks, (row + 1) * blocks)) for row in range(self.batch)]

    def prompt(self, ids: Sequence[int]) -> None:
        """See `Engine`; one sequence after the other."""
        size, blocks = self._executor.chunk, self._blocks[self._row % self.batch]
        for first in range(0, len(ids), size):
            self._executor.step([Chunk(ids[first : first + size], first, blocks)])
        self._row += 1

    def token(self, token: int, place: int) -> None:
        """See `Engine`."""
        self._executor.step([Chunk([token], place, blocks) for blocks in self._blocks])


class Stock:
    """Run the same weights, as floats, in a network of MindSpore's own operators, as graphs."""

    batch = 1

    def __init__(self, network: Network):
        self._network = network
        self._model: Any = None

    def begin(self, context: int, room: int) -> None:
        """See `Engine`."""
        from ms_ascend_ops.llm.stock import StockModel  # noqa: PLC0415 - MindSpore

        self._model = StockModel(self._network, room)

    def prompt(self, ids: Sequence[int]) -> None:
        """See `Engine`."""
        self._model.prompt(ids)

    def token(self, token: int, place: int) -> None:
        """See `Engine`."""
        self._model.token(token, place)


class LlamaCpp:
    """Runs llama.cpp by llama-cpp-python, on the same GGUF file.

    Raises:
        ImportError: it is not installed.
    """

    batch = 1

    def __init__(self, path: Path, threads: int):
        from llama_cpp import Llama  # noqa: PLC0415

        self._make: Callable[[int], Any] = lambda room: Llama(
            str(path), n_ctx=room, n_threads=threads, n_threads_batch=threads, verbose=False
        )
        self._model: Any = None

    def begin(self, context: int, room: int) -> None:
        """See `Engine`."""
        self._model = self._make(room)

    def prompt(self, ids: Sequence[int]) -> None:
        """See `Engine`."""
        self._model.reset()
        self._model.eval(ids)

    def token(self, token: int, place: int) -> None:
        """See `Engine`."""
        self._model.eval([token])


class Transformers:
    """Runs Transformers on PyTorch, in float32.

    Raises:
        ImportError: they are not installed.
    """

    batch = 1

    def __init__(self, path: Path, threads: int):
        import torch  # noqa: PLC0415
        from transformers import AutoModelForCausalLM  # noqa: PLC0415

        torch.set_num_threads(threads)
        where: dict[str, Any] = {"gguf_file": path.name} if path.is_file() else {}
        folder = path.parent if path.is_file() else path
        self._model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **where).eval()
        self._torch: Any = torch
        self._cache: Any = None

    def begin(self, context: int, room: int) -> None:
        """See `Engine`."""

    def prompt(self, ids: Sequence[int]) -> None:
        """See `Engine`."""
        with self._torch.inference_mode():
            self._cache = self._model(self._torch.tensor([list(ids)]), logits_to_keep=1).past_key_values

    def token(self, token: int, place: int) -> None:
        """See `Engine`."""
        with self._torch.inference_mode():
            self._model(self._torch.tensor([[token]]), past_key_values=self._cache)


PEERS: Mapping[str, Callable[[Path, int], Engine]] = {"llama.cpp": LlamaCpp, "transformers": Transformers}


def measured(
    engines: Mapping[str, Engine], vocabulary: int, context: int, tokens: int, runs: int
) -> dict[str, Speed]:  # fmt: skip
    """Measure engines in turn: a prompt each, again and again, then some tokens each.

    Args:
        engines: by name.
        vocabulary: tokens are drawn from it.
        context: tokens of the prompt.
        tokens: to measure behind it; some more come first.
        runs: prompts to measure; one more comes first, and each sequence of a batch needs one.
    """
    ids = np.random.default_rng(0).integers(0, vocabulary, context).tolist()
    room = context + tokens + _WARM
    for engine in engines.values():
        engine.begin(context, room)
    prompts: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(max(runs + 1, *(engine.batch for engine in engines.values()))):
        for name, engine in engines.items():
            prompts[name].append(_timed(lambda: engine.prompt(ids)))  # noqa: B023 - it is called here
    singles: dict[str, list[float]] = {name: [] for name in engines}
    for first in range(0, tokens + _WARM, _ROUND):
        for name, engine in engines.items():
            for place in range(first, min(first + _ROUND, tokens + _WARM)):
                singles[name].append(_timed(lambda: engine.token(ids[0], context + place)))  # noqa: B023
    return {
        name: Speed(
            context, statistics.median(prompts[name][1:]), statistics.median(singles[name][_WARM:]), engine.batch
        )
        for name, engine in engines.items()
    }


def chart(speeds: Sequence[Mapping[str, Speed]], title: str, path: Path) -> None:
    """Draw bars of both figures for each engine, a group for each length of context.

    Args:
        speeds: what `measured` gave, for each length.
        title: of the picture.
        path: where to, .svg or .png.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    figure.suptitle(title, fontsize=10)
    kinds: tuple[tuple[str, Callable[[Speed], float]], ...] = (
        ("prompt, tokens a second (more is better)", lambda speed: speed.prompt_rate),
        ("one token, ms (less is better)", lambda speed: speed.token_s * 1e3),
    )
    for axes, (label, value) in zip(figure.subplots(1, 2), kinds, strict=True):
        names = list(speeds[0])
        for place, name in enumerate(names):
            at = [group + (place - (len(names) - 1) / 2) * 0.8 / len(names) for group in range(len(speeds))]
            bars = axes.bar(at, [value(speed[name]) for speed in speeds], 0.8 / len(names), label=name)
            axes.bar_label(bars, fmt=lambda height: f"{height:,.{0 if height >= 100 else 1}f}", fontsize=7)
        axes.set_xticks(range(len(speeds)), [f"{next(iter(speed.values())).context} tokens" for speed in speeds])
        axes.set_title(label, fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8, frameon=False)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
