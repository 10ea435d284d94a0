"""Defines `llm convert`: a model as a directory of safetensors, or as a bundle."""

from __future__ import annotations

from pathlib import Path

import click

from ms_ascend_ops.commands.errors import need_extra, reported
from ms_ascend_ops.commands.llm.options import MODEL

__all__ = ["convert"]

_MOST_CONTEXT = 2048  # of a bundle, unless --context says more: its cache is a part of the file


@click.command()
@click.argument("model", type=MODEL)
@click.argument("target", type=click.Path(path_type=Path))
@click.option(
    "--dtype", type=click.Choice(["keep", "float32", "float16", "bfloat16"]), default="keep",
    help="Of the weights; keep: as they are, quantized ones, too. Of a bundle: what it calculates in; keep: float32.",
)  # fmt: skip
@click.option("--context", type=click.IntRange(2), help="Of a bundle: most tokens of a sequence; default: to 2048.")
@click.option("--cache-tokens", type=click.IntRange(1), help="Of a bundle: most tokens of all; default: one context.")
@click.option(
    "--cache-dtype",
    type=click.Choice(["float32", "float16", "bfloat16"]),
    help="Of a bundle: keys and values in the cache; default: float16, or bfloat16 with that --dtype.",
)
@click.option(
    "--activations", type=click.Choice(["int8", "float"]),
    help="Of a bundle: what single tokens are where they meet quantized matrices; default: int8, with --chip of an NPU "
    "float.",
)  # fmt: skip
@click.option(
    "--adapter", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A directory with a LoRA adapter to add to the weights; those that it changes become floats.",
)  # fmt: skip
@click.option("--chip", help="Of a bundle: the only chip it may run on, e.g. ascend910b; default: any.")
def convert(
    model: Path, target: Path, dtype: str, context: int | None, cache_tokens: int | None,
    cache_dtype: str | None, activations: str | None, adapter: Path | None, chip: str | None,
) -> None:  # fmt: skip
    """Write MODEL as TARGET: a bundle if that ends with .msbundle, else a directory.

    The directory has config.json, model.safetensors, tokenizer.json, tokenizer_config.json. With a float --dtype other
    programs that know Hugging Face's directories can read it, too. One tensor is in memory at a time.

    The bundle is one file with the decoder as a graph of MindSpore, for prompts and for single tokens, its weights
    (those that are quantized stay so), tokenizer and chat template. `load` takes it on a CPU and on an NPU.

    TARGET is not there before everything is written.
    """
    need_extra("llm")
    packed = target.suffix == ".msbundle"
    given = {
        "--context": context, "--cache-tokens": cache_tokens, "--cache-dtype": cache_dtype,
        "--activations": activations, "--chip": chip,
    }  # fmt: skip
    for name, value in given.items():
        if value is not None and not packed:
            raise click.UsageError(f"{name} is for a bundle, whose name ends with .msbundle")
    with reported():
        import numpy as np

        from ms_ascend_ops.llm.checkpoints import open_checkpoint
        from ms_ascend_ops.llm.checkpoints.writer import write_directory
        from ms_ascend_ops.llm.model import DTYPES, cache_type

        kind = None if dtype == "keep" else np.dtype(DTYPES[dtype])
        checkpoint = open_checkpoint(model)
        if adapter is not None:
            from ms_ascend_ops.llm.finetune.adapter import merged

            checkpoint = merged(checkpoint, adapter)
        if packed:
            from ms_ascend_ops.llm.bundle import write_bundle

            context = context or min(checkpoint.config.context, _MOST_CONTEXT)
            rounding = activations or ("int8" if chip is None or chip.lower() == "cpu" else "float")
            kept = cache_type(cache_dtype, "float32" if kind is None else dtype)
            calculated = kind or np.dtype(np.float32)
            cache_tokens = cache_tokens or context
            write_bundle(checkpoint, target, calculated, True, context, cache_tokens, chip, rounding, kept)
            click.echo(f"{target}: {target.stat().st_size / 2**20:.1f} MiB")
        else:
            size = write_directory(checkpoint, target, kind)
            click.echo(f"{target}: {size / 2**20:.1f} MiB of weights")
    click.echo(f"Run it with: python -m ms_ascend_ops llm generate {target} --prompt 'Once upon a time'")
