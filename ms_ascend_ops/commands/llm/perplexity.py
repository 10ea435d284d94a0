"""`llm perplexity`: how well a model predicts a text."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from ms_ascend_ops.commands.errors import need_extra, reported
from ms_ascend_ops.commands.llm.options import MODEL, model_options, opened

__all__ = ["perplexity"]


@click.command()
@click.argument("model", type=MODEL)
@click.argument("text", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--window", type=click.IntRange(2), default=512, help="Tokens that are predicted together.")
@click.option("--most", type=click.IntRange(1), help="Windows at most; default: all of the text.")
@model_options
def perplexity(model: Path, text: Path, window: int, most: int | None, **options: Any) -> None:
    """Print the perplexity of MODEL on the file TEXT.

    The text is cut into windows. In each the second half is predicted, from all before it in the window, as llama.cpp
    does. The figure is lower the better the text was predicted.
    """
    need_extra("llm")
    with reported():
        from itertools import islice

        from ms_ascend_ops.llm.perplexity import Perplexity
        from ms_ascend_ops.llm.perplexity import perplexity as measured

        language_model = opened(model, options, cache_tokens=window)
        tokens = language_model.tokenizer.encode(text.read_text("utf-8"))
        start = time.perf_counter()
        result: Perplexity | None = None
        windows = measured(language_model.executor, tokens, window, language_model.tokenizer.begin_token)
        for result in islice(windows, most):
            if sys.stderr.isatty():
                click.echo(f"\r{result.value:.4f} after {result.tokens} tokens", nl=False, err=True)
        assert result is not None
    if sys.stderr.isatty():
        click.echo("\r", nl=False, err=True)
    click.echo(
        f"perplexity {result.value:.4f} +- {result.error:.4f} over {result.tokens} tokens, windows of {window}, "
        f"{time.perf_counter() - start:.1f} s"
    )
