"""Defines `llm predict`: tokens a second on an Ascend chip, predicted."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ms_ascend_ops.commands.errors import MissingExtra, need_extra, reported

__all__ = ["predict"]

_PARTS = 4  # of a step, that are shown


@click.command()
@click.argument("model")
@click.option("--type", "kind", type=click.Choice(["float16", "bfloat16", "int8", "int4"]), default="float16",
              help="Of the weights; with int8 and int4 activations are float16.")  # fmt: skip
@click.option("-c", "--contexts", type=click.IntRange(1), multiple=True, default=(128, 2048),
              help="Tokens in the cache behind which a token is predicted; may be repeated.")  # fmt: skip
@click.option("--prompt", type=click.IntRange(2), default=512, help="Tokens of a prompt.")
@click.option("--batch", type=click.IntRange(1), default=1, help="Sequences that get tokens together.")
@click.option("--chip", default="ascend910b2", help="A chip, or a .yaml of your own; `profile --chips` lists them.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write every figure here.")
def predict(
    model: str, kind: str, contexts: tuple[int, ...], prompt: int, batch: int, chip: str, json_path: Path | None
) -> None:
    """Predict tokens a second of MODEL on a chip, by stock operators and by the kernels of this library.

    MODEL is a file or directory, of which only the sizes are read, or llama-2-7b or smollm2-135m.

    Nothing is measured: each kernel runs in the traced build of the host layer, and a timing model of the chip does the
    rest. Stock operators take what a roofline of launch, bytes and FLOPs gives, as in `emulate --trace`.
    """
    from ms_ascend_ops.profiler.record import RecordError, need_sources

    need_extra("llm")
    try:
        need_sources()
    except RecordError as error:
        raise MissingExtra(str(error)) from error
    need_extra("profile")
    with reported():
        from ms_ascend_ops.llm.prediction import predict_step
        from ms_ascend_ops.profiler.chip import load_chip
        from ms_ascend_ops.profiler.record import Recorder, build
        from ms_ascend_ops.profiler.report import console as terminal

        console, config, loaded = terminal(), _config(model), load_chip(chip)
        longest = max(*contexts, prompt)
        if longest > config.context:
            raise click.UsageError(f"{model} was made for {config.context} tokens at most, not for {longest}")
        steps = [(f"prompt of {prompt}", prompt, prompt)]
        steps += [(f"a token behind {context}", 1, context + 1) for context in contexts if context < config.context]
        results = {}
        with Recorder(build(console.print)) as recorder:
            for name, tokens, context in steps:
                with console.status(name) as status:
                    tell = lambda operator, name=name: status.update(f"{name}: {operator}")  # noqa: E731
                    results[name] = predict_step(config, kind, batch, tokens, context, loaded, recorder, tell)
        for name, tokens, _ in steps:
            _print(console, name, batch * tokens, results[name])
        console.print(f"Predicted for {loaded.name}, {kind}, batch {batch}; nothing was measured.")
        if json_path is not None:
            found = {name: {"predicted": True, **asdict(step)} for name, step in results.items()}
            json_path.write_text(
                json.dumps({"model": model, "type": kind, "chip": loaded.name, "steps": found}, indent=2)
            )


def _config(model: str) -> Any:
    from ms_ascend_ops.llm.checkpoints import open_checkpoint
    from ms_ascend_ops.llm.prediction import PRESETS

    if model in PRESETS:
        return PRESETS[model]
    if not Path(model).exists():
        raise FileNotFoundError(f"{model}: no such file, and none of {', '.join(PRESETS)}")
    return open_checkpoint(model).config


def _print(console: Any, name: str, tokens: int, step: Any) -> None:
    from rich.table import Table

    table = Table(title=name, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading, justify in (("", "left"), ("ms", "right"), ("tokens/s", "right"), ("launches", "right"), ("", "left")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for label, us, launches, parts in (
        ("stock", step.stock_us, step.stock_launches, step.stock_parts),
        ("fused", step.us, step.launches, step.parts),
    ):
        largest = ", ".join(f"{part} {100 * time / us:.0f} %" for part, time in list(parts.items())[:_PARTS])
        table.add_row(label, f"{us / 1e3:.2f}", f"{tokens / us * 1e6:,.0f}", str(launches), largest)
    table.add_row("HBM bound", f"{step.bound_us / 1e3:.2f}", f"{tokens / step.bound_us * 1e6:,.0f}", "", step.bound_by)
    console.print(table)
    console.print(f"{step.stock_us / step.us:.2f} times as fast as stock\n", highlight=False)
