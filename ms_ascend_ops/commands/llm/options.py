"""Defines the options that several of the commands have."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from ms_ascend_ops.commands.group import ExistingPath
from ms_ascend_ops.commands.llm.processes import speak_for_all

if TYPE_CHECKING:
    from ms_ascend_ops.llm.model import LanguageModel
    from ms_ascend_ops.llm.sampling import Sampling

__all__ = ["MODEL", "model_options", "opened", "parallel_option", "sampling_of", "sampling_options"]

F = TypeVar("F", bound=Callable[..., Any])

MODEL = ExistingPath(path_type=Path)

_MODEL = (
    click.option(
        "--dtype", type=click.Choice(["float32", "float16", "bfloat16"]), default="float32",
        help="What the network calculates in.",
    ),
    click.option(
        "--weights", type=click.Choice(["quantized", "float"]), default="quantized",
        help="Keep the matrices that the file has quantized, or make floats of them.",
    ),
    click.option(
        "--activations", type=click.Choice(["int8", "float"]), default="int8",
        help="Where they meet quantized matrices: integers of 8 bits, or what the network calculates "
        "in.",
    ),
    click.option(
        "--cache-dtype", type=click.Choice(["float32", "float16", "bfloat16"]),
        help="Of keys and values in the cache, and so of attention. Default: float16, or bfloat16 with that --dtype.",
    ),
    click.option(
        "--engine", type=click.Choice(["kernels", "mindspore"]), default="kernels",
        help="Call the kernels directly (on a CPU), or through MindSpore.",
    ),
    click.option("--context", type=click.IntRange(2), help="Most tokens of a sequence; default: the model's, to 4096."),
    click.option("--threads", type=click.IntRange(1, 256), help="Of a process. Default: one a CPU."),
    click.option(
        "--adapter", type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="A directory with a LoRA adapter, as `llm finetune` and Hugging Face's PEFT write them.",
    ),
)  # fmt: skip
_SAMPLING = (
    click.option("-n", "--max-tokens", type=click.IntRange(1), default=256, help="Stop after so many tokens."),
    click.option("--temperature", type=click.FloatRange(0), default=0.0, help="0: always the most likely token."),
    click.option("--top-k", type=click.IntRange(0), default=0, help="Only the k most likely tokens; 0: all."),
    click.option(
        "--top-p", type=click.FloatRange(0, 1, min_open=True), default=1.0,
        help="Only the most likely tokens that together have this probability.",
    ),
    click.option(
        "--min-p", type=click.FloatRange(0, 1), default=0.0,
        help="Only tokens at least this many times as likely as the most likely one.",
    ),
    click.option(
        "--repetition-penalty", type=click.FloatRange(0, min_open=True), default=1.0,
        help="Above 1: tokens that occurred become less likely.",
    ),
    click.option("--seed", type=int, help="Of the random numbers; the same seed, the same text."),
    click.option("--stop", "stops", multiple=True, metavar="TEXT", help="Stop before this text; may be repeated."),
)  # fmt: skip


def model_options(function: F) -> F:
    """Return how to load a model."""
    for option in reversed(_MODEL):
        function = option(function)
    return function


def parallel_option(function: F) -> F:
    """Return on how many processes to run."""
    return click.option(
        "--tensor-parallel", type=click.IntRange(1, 1024), default=1, metavar="N",
        help="Processes that share every layer; starts them by msrun, unless it was msrun that started this one.",
    )(function)  # fmt: skip


def sampling_options(function: F) -> F:
    """Return how to choose tokens."""
    for option in reversed(_SAMPLING):
        function = option(function)
    return function


def sampling_of(options: dict[str, Any]) -> Sampling:
    """Take the options of sampling out of those of a command."""
    from ms_ascend_ops.llm.sampling import Sampling

    names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")
    return Sampling(**{name: options.pop(name) for name in names})


def opened(model: Path, options: dict[str, Any], batch: int = 1, cache_tokens: int | None = None) -> LanguageModel:
    """Load a model by the options of a command.

    Raises:
        click.UsageError: an option that a bundle leaves no choice of.
    """
    from ms_ascend_ops.library import set_num_threads
    from ms_ascend_ops.llm.model import LanguageModel, is_bundle

    if is_bundle(model):
        context = click.get_current_context()
        for name in ("dtype", "weights", "activations", "cache_dtype", "engine", "adapter", "tensor_parallel"):
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                option = name.replace("_", "-")
                raise click.UsageError(f"--{option} is not for a bundle: it is as it was exported")

    processes = options.get("tensor_parallel", 1)
    threads = options["threads"]
    if threads is None and processes > 1:
        threads = max(1, len(os.sched_getaffinity(0)) // processes)
    if threads is not None:
        set_num_threads(threads)
    language_model = LanguageModel.from_file(
        model, options["dtype"], options["weights"], options["context"], batch, cache_tokens, options["engine"],
        options["activations"], processes, options["adapter"], options["cache_dtype"],
    )  # fmt: skip
    if language_model.note:
        click.echo(language_model.note, err=True)
    if language_model.group is not None:
        speak_for_all(language_model.group.rank)
    return language_model
