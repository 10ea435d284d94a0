"""`llm convert`: a model as a directory of safetensors."""

from __future__ import annotations

from pathlib import Path

import click

from ms_ascend_ops.commands.errors import need_extra, reported
from ms_ascend_ops.commands.llm.options import MODEL

__all__ = ["convert"]


@click.command()
@click.argument("model", type=MODEL)
@click.argument("target", type=click.Path(path_type=Path))
@click.option(
    "--dtype", type=click.Choice(["keep", "float32", "float16", "bfloat16"]), default="keep",
    help="Of the weights; keep: as they are, quantized ones, too.",
)  # fmt: skip
def convert(model: Path, target: Path, dtype: str) -> None:
    """Write MODEL as the directory TARGET: config.json, model.safetensors, tokenizer.json, tokenizer_config.json.

    With a float --dtype other programs that know Hugging Face's directories can read it, too. One tensor is in memory
    at a time, and TARGET is not there before everything is written.
    """
    need_extra("llm")
    with reported():
        import numpy as np

        from ms_ascend_ops.llm.checkpoints import open_checkpoint
        from ms_ascend_ops.llm.checkpoints.writer import write_directory
        from ms_ascend_ops.llm.model import DTYPES

        size = write_directory(open_checkpoint(model), target, None if dtype == "keep" else np.dtype(DTYPES[dtype]))
    click.echo(f"{target}: {size / 2**20:.1f} MiB of weights")
    click.echo(f"Run it with: python -m ms_ascend_ops llm generate {target} --prompt 'Once upon a time'")
