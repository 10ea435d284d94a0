"""`bench`: the benchmark, in this process."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

__all__ = ["bench"]


def _names(ctx: click.Context, param: click.Parameter, value: str) -> list[str]:
    """Names separated by commas."""
    return [name for name in value.replace(",", " ").split() if name]


def _chosen(option: str, given: list[str], known: list[str]) -> list[str]:
    unknown = [name for name in given if name not in known]
    if unknown:
        raise click.BadParameter(f"must be of {', '.join(known)}, got {', '.join(unknown)}", param_hint=option)
    return [name for name in known if name in given] if given else known


def _shape(text: str) -> tuple[int, ...]:
    parts = text.split("x")
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise click.BadParameter(f"must be of the form 2048x4096, got {text}", param_hint="--shapes")
    return tuple(int(part) for part in parts)


# Named here too: the table in benchmarks/providers stands behind the imports that wait.
MEASURED = ("library", "mindspore", "pynative", "stock", "torch", "torch_compile", "onnx")
CPUS = len(os.sched_getaffinity(0))


@click.command()
@click.option("--ops", callback=_names, default="", help="E.g. rms_norm,swiglu_grad; default: all, both passes.")
@click.option("--shapes", callback=_names, default="", help="E.g. 128x4096,333x4097; default: the operator's own.")
@click.option("--dtypes", callback=_names, default="float32,bfloat16", help="Of float32, bfloat16, float16.")
@click.option("--threads", type=click.IntRange(1, CPUS), default=CPUS, help="For every provider.")
@click.option("--providers", callback=_names, default="", help=f"Of {', '.join(MEASURED)}.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write every figure here.")
@click.option("--plot", type=click.Path(path_type=Path), help="Write a picture here (PNG).")
@click.option("--quick", is_flag=True, help="Short and rough.")
def bench(
    ops: list[str],
    shapes: list[str],
    dtypes: list[str],
    threads: int,
    providers: list[str],
    json_path: Path | None,
    plot: Path | None,
    quick: bool,
) -> None:
    """Measure the operators on this CPU against memcpy, stock MindSpore and PyTorch.

    All providers run in this process and take turns, on the same inputs and in the same buffers every time: what fits
    the cache stays there. Before anything is timed its results are compared with ours. `<operator>_grad` is what a
    training step does: forward, then gradient. The process keeps to as many CPUs as there are threads. Figures of a
    busy machine mean nothing.
    """
    # Seen by the libraries when they are imported, so before any of them is.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ["OMP_NUM_THREADS"] = str(threads)
    os.environ.setdefault("GLOG_v", "3")  # MindSpore: errors only

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from ms_ascend_ops.benchmarks import report
    from ms_ascend_ops.benchmarks.cases import all_cases
    from ms_ascend_ops.benchmarks.harness import Effort, measure
    from ms_ascend_ops.benchmarks.operators import names as operator_names
    from ms_ascend_ops.benchmarks.operators import operator
    from ms_ascend_ops.benchmarks.providers import PROVIDERS

    measured = [name + "_grad" * gradient for name in operator_names() for gradient in operator(name).passes]
    chosen = _chosen("--ops", ops, measured)
    dtypes = _chosen("--dtypes", dtypes, ["float32", "bfloat16", "float16"])
    names = list(PROVIDERS)
    if providers:
        names = _chosen("--providers", [*providers, *(n for n in names if PROVIDERS[n].is_copy)], names)
    cases, without = all_cases(chosen, dtypes, [_shape(text) for text in shapes])
    if not cases:
        raise click.BadParameter(f"none of {', '.join(chosen)} has shapes of that many sizes", param_hint="--shapes")
    effort = Effort(rounds=3, turn_seconds=0.005, most_seconds=0.5) if quick else Effort()

    console = Console()
    for name in without:
        console.print(f"{name} is left out: it has shapes of another number of sizes", style="yellow")
    load = os.getloadavg()[0]
    if load > 0.5:
        console.print(f"this machine is busy (load {load:.1f}): the figures will be too low", style="yellow")
    outcomes = []
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(cases))
        for case in cases:
            outcomes.append(measure(case, names, threads, effort, lambda text: progress.update(task, description=text)))
            progress.advance(task)

    where = report.machine(threads)
    for part in report.tables(outcomes, where):
        console.print(part, highlight=False, markup=False)
    if json_path:
        json_path.write_text(json.dumps(report.as_dict(outcomes, where), indent=2) + "\n", encoding="utf-8")
    if plot:
        report.plot(outcomes, where, plot)
