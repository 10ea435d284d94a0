"""Defines `llm generate`, which continues a text."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ms_ascend_ops.commands.errors import need_extra, reported
from ms_ascend_ops.commands.llm.options import (
    MODEL,
    model_options,
    opened,
    parallel_option,
    sampling_of,
    sampling_options,
)
from ms_ascend_ops.commands.llm.processes import on_processes

if TYPE_CHECKING:
    from ms_ascend_ops.llm.scheduler import Request

__all__ = ["generate"]


@click.command()
@click.argument("model", type=MODEL)
@click.option("-p", "--prompt", "prompts", multiple=True, help="The text; may be repeated. Default: stdin.")
@click.option(
    "-f", "--file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A file with the text."
)
@click.option("--chat", is_flag=True, help="The text is a question: put it into the model's chat template.")
@click.option("--system", help="With --chat: what the model is told first.")
@click.option("--timings", is_flag=True, help="Say on stderr how long it took.")
@sampling_options
@model_options
@parallel_option
def generate(
    model: Path, prompts: tuple[str, ...], file: Path | None, chat: bool, system: str | None, timings: bool,
    max_tokens: int, stops: tuple[str, ...], **options: Any,
) -> None:  # fmt: skip
    """Continue a text with MODEL, and print what comes as it comes.

    With several prompts the answers come when all are there, each behind its prompt.
    """
    need_extra("llm")
    if bool(prompts) + bool(file) > 1:
        raise click.UsageError("either --prompt or --file, not both")
    if system is not None and not chat:
        raise click.UsageError("--system is for --chat")
    if on_processes(options["tensor_parallel"], None if prompts or file else sys.stdin.read):
        return
    with reported():
        sampling = sampling_of(options)
        texts = prompts or (file.read_text("utf-8") if file else sys.stdin.read(),)
        if not all(texts):
            raise click.UsageError("the text is empty; give one with --prompt, --file, or on stdin")
        start = time.perf_counter()
        language_model = opened(model, options, batch=len(texts))
        loaded_s = time.perf_counter() - start
        given: list[Any] = list(texts)
        if chat:
            told = [] if system is None else [{"role": "system", "content": system}]
            given = [language_model.chat_tokens([*told, {"role": "user", "content": text}]) for text in texts]
        single = len(texts) == 1
        requests = [
            language_model.request(
                one, max_tokens, sampling, stops, (lambda text: click.echo(text, nl=False)) if single else None
            )
            for one in given
        ]
        for request in requests:
            language_model.scheduler.submit(request)
        start, first_s = time.perf_counter(), 0.0
        while language_model.scheduler.busy:
            language_model.scheduler.step()
            first_s = first_s or (time.perf_counter() - start if requests[0].tokens else 0.0)
        seconds = time.perf_counter() - start
        if errors := [request.error for request in requests if request.error]:
            raise RuntimeError(errors[0])
    if single:
        click.echo()
    else:
        for text, request in zip(texts, requests, strict=True):
            click.echo(f"{click.style(text, bold=True)}{' ' if chat else ''}{request.text}\n")
    _say_what_is_full(requests, language_model.executor.context)
    if timings:
        count = sum(len(request.tokens) for request in requests)
        click.echo(
            f"loaded in {loaded_s:.2f} s; {sum(len(request.prompt) for request in requests)} tokens of prompts, first "
            f"answer token after {first_s * 1e3:.0f} ms; {count} tokens in {seconds:.2f} s", err=True,
        )  # fmt: skip


def _say_what_is_full(requests: Sequence[Request], context: int) -> None:
    for number in [number for number, request in enumerate(requests, 1) if request.context_full]:
        which = "" if len(requests) == 1 else f"of prompt {number} "
        click.echo(f"[the text {which}ends as the context of {context} tokens is full; see --context]", err=True)
