"""Defines `llm bench`: tokens a second."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ms_ascend_ops.commands.errors import need_extra, reported
from ms_ascend_ops.commands.llm.options import MODEL, model_options, opened, parallel_option
from ms_ascend_ops.commands.llm.processes import on_processes

if TYPE_CHECKING:
    from ms_ascend_ops.llm.benchmark import Engine

__all__ = ["bench"]

_OWN = "ms_ascend_ops"


@click.command()
@click.argument("model", type=MODEL)
@click.option(
    "-c", "--contexts", type=click.IntRange(1), multiple=True, default=(128, 512), help="Lengths of prompts to measure."
)
@click.option("--batch", type=click.IntRange(1), default=1, help="Sequences that get tokens together.")
@click.option("--tokens", type=click.IntRange(4), default=32, help="Tokens to measure behind each prompt.")
@click.option("--runs", type=click.IntRange(1), default=3, help="How often to measure a prompt.")
@click.option(
    "--peers", is_flag=True,
    help="Measure operators of MindSpore, too, and llama.cpp and Transformers where they are installed.",
)  # fmt: skip
@click.option("--chart", type=click.Path(dir_okay=False, path_type=Path), help="Also draw it: a file .svg or .png.")
@model_options
@parallel_option
def bench(
    model: Path, contexts: tuple[int, ...], batch: int, tokens: int, runs: int, peers: bool, chart: Path | None,
    **options: Any,
) -> None:  # fmt: skip
    """Measure MODEL on this machine: tokens of prompts a second, and tokens of answers behind them.

    Medians, of random tokens, of all in turn. Peers calculate one sequence, whatever --batch says, with as many
    threads. The network of MindSpore's own operators is in --dtype with weights as floats, and so is one of this
    library beside it, with a cache of that type.
    """
    need_extra("llm")
    processes = options["tensor_parallel"]
    if processes > 1 and peers:
        raise click.UsageError("--peers is for one process")
    if chart is not None:
        if chart.suffix not in (".svg", ".png"):
            raise click.UsageError(f"--chart must end with .svg or .png, got {chart.name}")
        need_extra("bench")
    if on_processes(processes):
        return
    with reported():
        from ms_ascend_ops.library import get_num_threads
        from ms_ascend_ops.llm import benchmark
        from ms_ascend_ops.llm.model import is_bundle

        if peers and is_bundle(model):
            raise click.UsageError("--peers is not for a bundle: others cannot read it")
        longest = max(contexts) + tokens + 8
        options["context"] = options["context"] or longest
        if options["context"] < longest:
            raise click.UsageError(f"--context must be at least {longest}, for these --contexts and --tokens")
        cache_tokens = (longest + 32) * batch
        language_model = opened(model, options, batch, cache_tokens)
        engines: dict[str, Engine] = {_OWN: benchmark.Own(language_model.executor, batch)}
        stock = f"MindSpore, {options['dtype']}", f"{_OWN}, {options['dtype']}"
        if peers:
            engines |= _peers(model, options, cache_tokens, *stock)
        shared = f", {processes} processes" if processes > 1 else ""
        title = f"{model.name}, {options['dtype']}, {get_num_threads()} threads, batch {batch}{shared}"
        click.echo(title)
        width = max(map(len, engines)) + 2
        click.echo(f"{'':{width}}{'context':>8}{'prompt tokens/s':>18}{'ms a token':>13}{'tokens/s':>11}")
        all_speeds = []
        for context in contexts:
            speeds = benchmark.measured(engines, language_model.config.vocabulary, context, tokens, runs)
            all_speeds.append(speeds)
            for name, speed in speeds.items():
                click.echo(
                    f"{name:{width}}{speed.context:>8}{speed.prompt_rate:>18.1f}{speed.token_s * 1e3:>13.2f}"
                    f"{speed.token_rate:>11.1f}"
                )
            if stock[0] in speeds:
                theirs, ours = (speeds[name] for name in stock)
                click.echo(
                    f"{stock[0]} / {stock[1]}: first token {theirs.prompt_s / ours.prompt_s:.2f}, "
                    f"a token {theirs.token_s / ours.token_s:.2f}"
                )
        if chart is not None:
            benchmark.chart(all_speeds, title, chart)


def _peers(model: Path, options: dict[str, Any], cache_tokens: int, stock: str, own: str) -> dict[str, Engine]:
    """Return what is measured beside."""
    from ms_ascend_ops.library import get_num_threads
    from ms_ascend_ops.llm import benchmark
    from ms_ascend_ops.llm.executor import ProgramExecutor

    found: dict[str, Engine] = {}
    if options["dtype"] == "bfloat16":
        click.echo("MindSpore: in graphs on a CPU it reshapes no bfloat16")
    else:
        floats = options | {"weights": "float", "cache_dtype": options["dtype"], "engine": "kernels"}
        executor = opened(model, floats, 1, cache_tokens).executor
        assert isinstance(executor, ProgramExecutor)
        found = {own: benchmark.Own(executor), stock: benchmark.Stock(executor.network)}
    for name, load in benchmark.PEERS.items():
        try:
            found[name] = load(model, get_num_threads())
        except ImportError as error:
            click.echo(f"{name}: not installed ({error.name})")
    return found
