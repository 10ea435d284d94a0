"""Defines `bench`: the benchmark, in this process."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from ms_ascend_ops.commands.errors import need_extra, reported
from ms_ascend_ops.commands.measuring import measuring, warn_if_busy

__all__ = ["bench"]


def names_of(ctx: click.Context, param: click.Parameter, value: str) -> list[str]:
    """Split names separated by commas."""
    return [name for name in value.replace(",", " ").split() if name]


def chosen_of(option: str, given: list[str], known: list[str]) -> list[str]:
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
MEASURED = ("library", "mindspore", "pynative", "stock", "torch", "torch_compile", "torch_ours", "scipy", "onnx")
CPUS = len(os.sched_getaffinity(0))


@click.command()
@click.option("--ops", callback=names_of, default="", help="E.g. rms_norm,swiglu_grad; default: all, both passes.")
@click.option(
    "--rows",
    is_flag=True,
    help="A few shapes of every kind of operator, for their mean beside the best peer.",
)
@click.option("--shapes", callback=names_of, default="", help="E.g. 128x4096,333x4097; default: the operator's own.")
@click.option("--dtypes", callback=names_of, default="float32,bfloat16", help="Of float32, bfloat16, float16.")
@click.option("--threads", type=click.IntRange(1, CPUS), default=CPUS, help="For every provider.")
@click.option("--providers", callback=names_of, default="", help=f"Of {', '.join(MEASURED)}.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write every figure here.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Write a table of all ratios here.")
@click.option("--plot", type=click.Path(path_type=Path), help="Write bars here (PNG).")
@click.option("--roofline", type=click.Path(path_type=Path), help="Write a roofline here (PNG).")
@click.option("--compare", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="JSON of an older run.")
@click.option("--gate", is_flag=True, help="Fail (exit code 1) if something is slower than it may be.")
@click.option("--tolerance", type=click.FloatRange(min=0), default=0.1, help="By which share a time may be longer.")
@click.option("--quick", is_flag=True, help="Short and rough.")
@click.option("--calls", is_flag=True, help="Instead: what a call costs on tiny tensors, beside MindSpore's ops.add.")
def bench(
    ops: list[str],
    rows: bool,
    shapes: list[str],
    dtypes: list[str],
    threads: int,
    providers: list[str],
    json_path: Path | None,
    markdown: Path | None,
    plot: Path | None,
    roofline: Path | None,
    compare: Path | None,
    gate: bool,
    tolerance: float,
    quick: bool,
    calls: bool,
) -> None:
    """Measure the operators on this CPU against memcpy, stock MindSpore and PyTorch.

    All providers run in this process and alternate, on the same inputs and in the same buffers every time: what fits
    the cache stays there. Before anything is timed its results are compared with ours. `<operator>_grad` is what a
    training step does: forward, then gradient. The process keeps to as many CPUs as there are threads. Figures of a
    busy machine mean nothing.

    `--compare` shows what changed since an older run. `--gate` fails if one of our times grew since then by more than
    the tolerance, or if a case of 1 MiB or more takes us longer than stock MindSpore, or than the fastest of PyTorch,
    torch.compile, ONNX Runtime and SciPy, by more than that, or if there is nothing to compare with.

    On Ctrl-C or SIGTERM, what was measured until then is shown and written, and the exit code is 130.
    """
    need_extra("bench")
    # Libraries read these when they are imported: set them before.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ["OMP_NUM_THREADS"] = str(threads)
    from ms_ascend_ops.profiler.report import console as terminal

    if calls:
        _calls(ops, quick, terminal())
        return
    from ms_ascend_ops.benchmarks import compare as comparison
    from ms_ascend_ops.benchmarks import report
    from ms_ascend_ops.benchmarks.harness import Sampling
    from ms_ascend_ops.benchmarks.providers import PROVIDERS

    dtypes = chosen_of("--dtypes", dtypes, ["float32", "bfloat16", "float16"])
    names = list(PROVIDERS)
    if providers:
        names = chosen_of("--providers", [*providers, *(n for n in names if PROVIDERS[n].is_copy)], names)
    console = terminal()
    cases = _cases(ops, rows, [_shape(text) for text in shapes], dtypes, console)
    with reported():
        old = comparison.read(compare) if compare else None
    warn_if_busy(console)
    sampling = Sampling(rounds=5, timed_seconds=0.005, most_seconds=0.5) if quick else Sampling()
    outcomes = _measure(cases, names, threads, sampling, console)
    if not outcomes:
        raise KeyboardInterrupt

    where = report.machine(threads)
    for part in report.tables(outcomes, where):
        console.print(part, highlight=False, markup=False)
    run = report.as_dict(outcomes, where)
    for line in comparison.means(run):
        console.print(line)
    if markdown:
        markdown.write_text(report.markdown(outcomes, where), encoding="utf-8")
    _write(run, outcomes, {"json": json_path, "bars": plot, "roofline": roofline})
    if old:
        for line in comparison.differences(old, run):
            console.print(line, style="yellow")
        console.print(comparison.changes_table(comparison.changes(old, run), tolerance))
    if len(outcomes) < len(cases):
        raise KeyboardInterrupt(f"{len(outcomes)} of {len(cases)} cases were measured")
    if gate:
        _close(run, old, tolerance)


def _cases(ops: list[str], rows: bool, shapes: list[tuple[int, ...]], dtypes: list[str], console: Any) -> list[Any]:
    """Return the cases to measure."""
    from ms_ascend_ops.benchmarks.rows import rows_of_every_kind
    from ms_ascend_ops.samples.cases import all_cases
    from ms_ascend_ops.samples.operators import names, operator, unmeasured

    measured = [name + "_grad" * gradient for name in names() for gradient in operator(name).passes]
    chosen = chosen_of("--ops", ops, measured)
    if rows:
        return rows_of_every_kind(dtypes, chosen)
    cases, without = all_cases(chosen, dtypes, shapes)
    if not cases:
        raise click.BadParameter(f"none of {', '.join(chosen)} has shapes of that many sizes", param_hint="--shapes")
    if not ops and (missing := unmeasured()):
        console.print(f"not measured: {', '.join(missing)} (no file in samples/ops/)", style="yellow")
    for name in without:
        console.print(f"{name} is left out: it has shapes of another number of sizes", style="yellow")
    return cases


def _calls(ops: list[str], quick: bool, console: Any) -> None:
    """Print what `--calls` shows."""
    from rich.table import Table

    from ms_ascend_ops.benchmarks.calls import measure, start_up
    from ms_ascend_ops.samples.operators import names

    chosen = chosen_of("--ops", ops, list(names()))
    imported, first = start_up(1 if quick else 5)
    console.print(f"import: {imported:.1f} ms, first call: {first:.2f} ms")
    table = Table("operator", "mode", "us a call", "ops.add, us", "ratio")
    with console.status("measuring"):
        for cost in measure(chosen, *((3, 50) if quick else ())):
            table.add_row(cost.operator, cost.mode, f"{cost.us:.1f}", f"{cost.add_us:.1f}", f"{cost.ratio:.2f}")
    console.print(table)


def _measure(cases: list[Any], names: list[str], threads: int, sampling: Any, console: Any) -> list[Any]:
    """Measure all cases, or those before an interruption, and return the outcomes."""
    from ms_ascend_ops.benchmarks.harness import measure

    outcomes: list[Any] = []
    with measuring(console, len(cases)) as run:
        for case in cases:
            outcome = measure(case, names, threads, sampling, run.tell)
            run.advance()
            outcomes.append(outcome)
    return outcomes


def _write(run: dict[str, Any], outcomes: list[Any], paths: dict[str, Path | None]) -> None:
    """Write the files that the arguments name."""
    if paths["json"]:
        paths["json"].write_text(json.dumps(run, indent=2) + "\n", encoding="utf-8")
    if not paths["bars"] and not paths["roofline"]:
        return
    from ms_ascend_ops.benchmarks import plots

    if paths["bars"]:
        plots.bars(outcomes, run["machine"], paths["bars"])
    if paths["roofline"]:
        with reported():
            plots.roofline(outcomes, run["machine"], paths["roofline"], plots.peak_flops())


def _close(run: dict[str, Any], old: dict[str, Any] | None, tolerance: float) -> None:
    """Report the verdict of `--gate`."""
    from ms_ascend_ops.benchmarks import compare as comparison

    pairs = comparison.changes(old, run) if old else []
    if old and not pairs:
        raise click.ClickException("the old run has none of these cases: choose the same --ops, --shapes and --dtypes")
    pairs += comparison.against_peers(run)
    if not pairs:
        raise click.ClickException("nothing to compare with: give an older run, or peers and cases of 1 MiB or more")
    if slow := [pair for pair in pairs if pair.slower(tolerance)]:
        listed = "\n".join(f"  {pair}" for pair in slow)
        raise click.ClickException(f"slower by more than {tolerance:.0%}:\n{listed}")
    click.echo(f"gate: nothing is slower by more than {tolerance:.0%} ({len(pairs)} compared)")
