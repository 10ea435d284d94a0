"""Defines `llm quantize`: a model with smaller weights."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ms_ascend_ops.commands.errors import need_extra, reported
from ms_ascend_ops.commands.llm.options import MODEL

if TYPE_CHECKING:
    from ms_ascend_ops.llm.checkpoints import Checkpoint
    from ms_ascend_ops.llm.quantize.build import Samples

__all__ = ["quantize"]

_TEXT = click.Path(exists=True, dir_okay=False, path_type=Path)
_KINDS = click.Choice(["int4", "int8"])


@click.command()
@click.argument("model", type=MODEL)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="A directory that is not there yet."
)
@click.option("--type", "kind", type=_KINDS, help="Of the linear layers. Default: int4.")
@click.option(
    "--embedding",
    type=click.Choice(["int4", "int8", "float16", "bfloat16", "float32"]),
    help="The type of the embedding and of the last product. Default: int8.",
)
@click.option("--group-size", type=click.IntRange(32), default=32, help="Columns of a matrix with one scale.")
@click.option("--samples", type=_TEXT, help="A text: scale columns by the activations that it causes, before rounding.")
@click.option(
    "--bound",
    type=click.FloatRange(0, min_open=True),
    help="Choose the type of every layer: predictions diverge by at most this many nats a token. With --samples.",
)
@click.option(
    "--held-out", type=_TEXT, help="A text to check on. Default: the second half of what is used of --samples."
)
@click.option("--tokens", type=click.IntRange(2), default=1024, help="Tokens of the samples, and to check on, at most.")
@click.option("--window", type=click.IntRange(2), default=256, help="Tokens that are predicted together.")
@click.option("--threads", type=click.IntRange(1, 256), help="Default: one a CPU.")
def quantize(
    model: Path, output: Path, kind: str | None, embedding: str | None, group_size: int, samples: Path | None,
    bound: float | None, held_out: Path | None, tokens: int, window: int, threads: int | None,
) -> None:  # fmt: skip
    """Write MODEL with rounded weights as the directory --output, which the other commands can run.

    A file that has 4 bits already may become larger: its last line says so.

    Weights are rounded to the nearest, by groups of columns. With --samples, columns with large activations are scaled
    first (as AWQ does), and the divergence of the result's predictions is measured on text that was not used for that.
    With --bound each layer gets a type of its own, from int4 to float32; the table says why, and is written into the
    directory as quantization.txt. A model that is quantized already is rounded again. OUTPUT is not there before
    everything is written.
    """
    need_extra("llm")
    if bound is not None and samples is None:
        raise click.UsageError("--bound needs --samples")
    if bound is not None and (kind or embedding):
        raise click.UsageError("either --bound or --type and --embedding: with a bound the types are chosen")
    if held_out is not None and samples is None:
        raise click.UsageError("--held-out needs --samples")
    with reported():
        from ms_ascend_ops.library import set_num_threads
        from ms_ascend_ops.llm.checkpoints import open_checkpoint
        from ms_ascend_ops.llm.checkpoints.writer import check_target, write_directory
        from ms_ascend_ops.llm.quantize.build import calibrated_checkpoint, mixed_checkpoint
        from ms_ascend_ops.llm.quantize.units import rounded_checkpoint

        check_target(output)  # before minutes of work
        if threads is not None:
            set_num_threads(threads)
        source = open_checkpoint(model)
        kind, embedding = kind or "int4", embedding or "int8"
        lines: list[str] = []
        if samples is None:
            checkpoint = rounded_checkpoint(source, kind, embedding, group_size)
        else:
            given = _samples(source, samples, held_out, window, tokens)
            if bound is None:
                result = calibrated_checkpoint(source, kind, embedding, group_size, given, _progress)
            else:
                result = mixed_checkpoint(source, bound, group_size, given, _progress)
            _progress("")
            measured, checkpoint = result.measured, result.checkpoint
            lines = [
                *result.lines,
                f"divergence on {measured.tokens} held-out tokens: {measured.value:.3g} +- {measured.error:.2g} nats a "
                + ("token" if bound is None else f"token, the bound is {bound:g}")
                + f"; the likeliest token is the same for {measured.same:.1%}",
            ]
        files = {"quantization.txt": "\n".join(lines) + "\n"} if lines else {}
        size = write_directory(checkpoint, output, None, files)
    for line in lines:
        click.echo(line)
    click.echo(f"{output}: {size / 2**20:.1f} MiB of weights, {_beside(size, model)}")
    click.echo(f"Run it with: python -m ms_ascend_ops llm generate {output} --prompt 'Once upon a time'")


def _beside(size: int, model: Path) -> str:
    """Return how large a result is beside what it was made of."""
    before = sum(file.stat().st_size for file in (model.glob("*.safetensors") if model.is_dir() else [model]))
    words = f"than the {before / 2**20:.1f} MiB of {model}"
    if size < before:
        return f"{1 - size / before:.0%} smaller {words}"
    return f"{size / before - 1:.0%} LARGER {words}, which are quantized already"


def _samples(source: Checkpoint, samples: Path, held_out: Path | None, window: int, tokens: int) -> Samples:
    from ms_ascend_ops.llm.checkpoint_text import load_tokenizer
    from ms_ascend_ops.llm.quantize.build import Samples

    if window > source.config.context:
        raise ValueError(f"{source.path}: --window must be at most {source.config.context}, the context, got {window}")
    tokenizer = load_tokenizer(source)
    texts = [None if path is None else tokenizer.encode(path.read_text("utf-8")) for path in (samples, held_out)]
    assert texts[0] is not None
    try:
        return Samples.of(texts[0], texts[1], window, tokens)
    except ValueError as error:
        raise ValueError(f"{samples}: {error}") from error


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{text:70}\r", nl=False, err=True)
