"""`llm bench`: tokens a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ms_ascend_ops.commands.errors import need_extra, reported
from ms_ascend_ops.commands.llm.options import MODEL, model_options, opened, parallel_option
from ms_ascend_ops.commands.llm.processes import on_processes, started_by_msrun

__all__ = ["bench"]


@click.command()
@click.argument("model", type=MODEL)
@click.option(
    "-c", "--contexts", type=click.IntRange(1), multiple=True, default=(128, 512), help="Lengths of prompts to measure."
)
@click.option("--batch", type=click.IntRange(1), default=1, help="Sequences that get tokens together.")
@click.option("--tokens", type=click.IntRange(4), default=32, help="Tokens to measure behind each prompt.")
@click.option("--runs", type=click.IntRange(1), default=3, help="How often to measure a prompt.")
@click.option("--peers", is_flag=True, help="Measure llama.cpp and Transformers, too, where they are installed.")
@model_options
@parallel_option
def bench(
    model: Path, contexts: tuple[int, ...], batch: int, tokens: int, runs: int, peers: bool, **options: Any
) -> None:
    """Measure MODEL on this machine: tokens of prompts a second, and tokens of answers behind them.

    Medians, of random tokens. Peers calculate one sequence, whatever --batch says, with as many threads.
    """
    need_extra("llm")
    processes = options["tensor_parallel"]
    if processes > 1 and not started_by_msrun():
        on_processes(processes)
        return
    if processes > 1 and peers:
        raise click.UsageError("--peers is for one process")
    with reported():
        from ms_ascend_ops.library import get_num_threads
        from ms_ascend_ops.llm.benchmark import PEERS, measured

        longest = max(contexts) + tokens
        options["context"] = options["context"] or longest
        if options["context"] < longest:
            raise click.UsageError(f"--context must be at least {longest}, for these --contexts and --tokens")
        language_model = opened(model, options, batch, (longest + 32) * batch)
        shared = f", {processes} processes" if processes > 1 else ""
        click.echo(f"{model.name}, {options['dtype']}, {get_num_threads()} threads, batch {batch}{shared}")
        click.echo(f"{'':14}{'context':>8}{'prompt tokens/s':>18}{'ms a token':>13}{'tokens/s':>11}")
        for context in contexts:
            _print("ms_ascend_ops", measured(language_model.executor, context, batch, tokens, runs))
        for name, load in PEERS.items() if peers else ():
            try:
                measure = load(model, get_num_threads())
            except ImportError as error:
                click.echo(f"{name}: not installed ({error.name})")
                continue
            for context in contexts:
                _print(name, measure(context, tokens, runs))


def _print(name: str, speed: Any) -> None:
    click.echo(
        f"{name:14}{speed.context:>8}{speed.prompt_rate:>18.1f}{speed.token_s * 1e3:>13.2f}{speed.token_rate:>11.1f}"
    )
