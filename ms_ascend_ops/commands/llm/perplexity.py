"""Defines `llm perplexity`: how well a model predicts a text."""

from __future__ import annotations

import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

import click

from ms_ascend_ops.commands.errors import need_extra, reported
from ms_ascend_ops.commands.llm.options import MODEL, model_options, opened, parallel_option
from ms_ascend_ops.commands.llm.processes import on_processes

__all__ = ["perplexity"]


@click.command()
@click.argument("model", type=MODEL)
@click.argument("text", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--window", type=click.IntRange(2), default=512, help="Tokens that are predicted together.")
@click.option("--most", type=click.IntRange(1), help="Windows at most; default: all of the text.")
@click.option(
    "--step", type=click.IntRange(1),
    help="Tokens to calculate at once, at most; default: as many as fit.",
)  # fmt: skip
@click.option("--peers", is_flag=True, help="llama.cpp on the same tokens, too, if llama-cpp-python is installed.")
@model_options
@parallel_option
def perplexity(
    model: Path, text: Path, window: int, most: int | None, step: int | None, peers: bool, **options: Any
) -> None:
    """Print the perplexity of MODEL on the file TEXT.

    The text is cut into windows. In each the second half is predicted, from all before it in the window, as llama.cpp
    does. The figure is lower the better the text was predicted.
    """
    need_extra("llm")
    processes = options["tensor_parallel"]
    if processes > 1 and peers:
        raise click.UsageError("--peers is for one process")
    if on_processes(processes):
        return
    with reported():
        from ms_ascend_ops.library import get_num_threads
        from ms_ascend_ops.llm.perplexity import LlamaCpp

        language_model = opened(model, options, cache_tokens=window)
        tokenizer = language_model.tokenizer
        content = text.read_text("utf-8")
        tokens = tokenizer.encode(content)
        ours = _measured("", language_model.executor, tokens, window, most, tokenizer.begin_token, step)
        if peers:
            try:
                peer = LlamaCpp(model, window, get_num_threads())
            except ImportError as error:
                click.echo(f"llama.cpp: not installed ({error.name})")
                return
            same = peer.tokens(content) == tokenizer.encode(content, begin=False)
            click.echo(f"llama.cpp cuts the text into {'the same' if same else 'other'} tokens; it predicts ours")
            theirs = _measured("llama.cpp: ", peer, tokens, window, most, tokenizer.begin_token)
            click.echo(f"difference {100 * (ours / theirs - 1):+.3f} % of llama.cpp's perplexity")


def _measured(
    label: str, predictor: Any, tokens: list[int], window: int, most: int | None, begin: int | None,
    step: int | None = None,
) -> float:  # fmt: skip
    from ms_ascend_ops.llm.perplexity import Perplexity
    from ms_ascend_ops.llm.perplexity import perplexity as measured

    start = time.perf_counter()
    result: Perplexity | None = None
    for result in islice(measured(predictor, tokens, window, begin, step), most):
        if sys.stderr.isatty():
            click.echo(f"\r{label}{result.value:.4f} after {result.tokens} tokens", nl=False, err=True)
    assert result is not None
    if sys.stderr.isatty():
        click.echo("\r", nl=False, err=True)
    click.echo(
        f"{label}perplexity {result.value:.4f} +- {result.error:.4f} over {result.tokens} tokens, windows of {window}, "
        f"{time.perf_counter() - start:.1f} s"
    )
    return result.value
