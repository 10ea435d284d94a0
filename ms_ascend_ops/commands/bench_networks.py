"""Defines `bench-networks`: whole networks, stock against fused, in this process."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from ms_ascend_ops.commands.bench import CPUS, chosen_of, names_of
from ms_ascend_ops.commands.errors import need_extra, reported
from ms_ascend_ops.commands.measuring import measuring, warn_if_busy

__all__ = ["bench_networks"]


@click.command("bench-networks")
@click.option(
    "--networks",
    callback=names_of,
    default="",
    show_default=False,
    help="E.g. llama,mindone_unet; default: all that are installed.",
)
@click.option("--sizes", callback=names_of, default="small", help="E.g. small,medium; a network has those that it has.")
@click.option("--dtypes", callback=names_of, default="float32", help="Of float32, float16, bfloat16.")
@click.option(
    "--phases",
    default="",
    show_default=False,
    help="Only phases whose name contains this, e.g. prefill, decode, forward, training.",
)
@click.option("--threads", type=click.IntRange(1, CPUS), default=CPUS, help="CPUs that everything gets.")
@click.option(
    "--own-threads",
    callback=names_of,
    default="",
    show_default=False,
    help="Also with as many threads of ours, e.g. 1,2,4.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    help="For each network, size and dtype, about; every phase gets a round. [default: 300, with --quick 60]",
)
@click.option("--memory/--no-memory", default=True, help="Peak memory of each variant, in a process of its own.")
@click.option("--profile", is_flag=True, help="Also the time by operator, in a process of its own.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write every figure here.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Write the tables here.")
@click.option("--plot", type=click.Path(path_type=Path), help="Write bars here (PNG).")
@click.option("--lock", type=click.Path(path_type=Path), help="Measure only while this file is locked (flock).")
@click.option("--quick", is_flag=True, help="Short and rough: 3 rounds at most.")
def bench_networks(
    networks: list[str],
    sizes: list[str],
    dtypes: list[str],
    phases: str,
    threads: int,
    own_threads: list[str],
    seconds: float | None,
    memory: bool,
    profile: bool,
    json_path: Path | None,
    markdown: Path | None,
    plot: Path | None,
    lock: Path | None,
    quick: bool,
) -> None:
    """Measure whole networks on this CPU: stock operators, fused ones, and none of them in their places.

    Prefill, decoding and forward passes are MindIR files that are loaded: the exported network, what `optimize` makes
    of it at levels O2 and O3, and the network without what O2 replaces, which is the ceiling. A training step is that
    of the Python network. All run in this process and alternate; the outputs are compared before anything is timed.
    Networks that are not installed are skipped with a line that says so. Figures of a busy machine mean nothing.

    The seconds of a network are shared out evenly to its phases and what is asked of each (times, memory, profile). A
    phase is measured in at most 15 rounds, in each of which every variant has its turn, and in one at least, however
    long that takes; memory and profile are left out where no time is left. The tables say how many rounds there were.

    On Ctrl-C or SIGTERM, what was measured until then is shown and written, with the names of what is missing. The call
    of a network that is running comes to its end before, which for a large one may be minutes. The exit code is 130.
    """
    need_extra("bench-networks")
    # Libraries read these when they are imported: set them before.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ["OMP_NUM_THREADS"] = str(threads)
    if not all(count.isdigit() and int(count) > 0 for count in own_threads):
        raise click.BadParameter(f"must be numbers above 0, got {', '.join(own_threads)}", param_hint="--own-threads")

    from ms_ascend_ops.benchmarks import report as operators_report
    from ms_ascend_ops.benchmarks.harness import Sampling
    from ms_ascend_ops.benchmarks.networks import report, target
    from ms_ascend_ops.benchmarks.networks.measure import Task
    from ms_ascend_ops.benchmarks.networks.sharing import Machine
    from ms_ascend_ops.profiler.report import console as terminal

    chosen = chosen_of("--networks", networks, list(target.names()))
    dtypes = chosen_of("--dtypes", dtypes, ["float32", "bfloat16", "float16"])
    console = terminal()
    warn_if_busy(console)
    work = []
    for name in chosen:
        if missing := target.missing(name):
            console.print(f"skipped: {target.client(name).LABEL} ({', '.join(missing)} not installed)", style="yellow")
            continue
        known = target.client(name).SIZES
        if unknown := [size for size in sizes if size not in known]:
            console.print(f"{name} has no size {', '.join(unknown)}, but {', '.join(known)}", style="yellow")
        work += [(name, size, dtype) for size in sizes if size in known for dtype in dtypes]
    if not work:
        raise click.ClickException("there is nothing to measure: install a network, or choose another size")
    sampling = (
        Sampling(rounds=3, timed_seconds=0.02)
        if quick
        else Sampling(rounds=15, timed_seconds=0.1, untimed_seconds=0.01)
    )
    seconds = (60.0 if quick else 300.0) if seconds is None else seconds
    console.print(f"{len(work)} to measure, {seconds:g} s each: about {len(work) * seconds / 60:.0f} minutes at most")
    with Machine(lock) as machine:
        task = Task(machine, sampling, seconds, memory, profile, [int(count) for count in own_threads])
        rows, failed, missing = _measure(work, phases, task, console)

    where, unmeasured = operators_report.machine(threads), failed + missing
    for part in report.tables(rows, where):
        console.print(part, highlight=False, markup=False)
    if json_path:
        json_path.write_text(json.dumps(report.as_dict(rows, where, unmeasured), indent=2) + "\n", encoding="utf-8")
    if markdown:
        markdown.write_text(report.markdown(rows, where, unmeasured), encoding="utf-8")
    if plot:
        with reported():
            from ms_ascend_ops.benchmarks.networks import plots

            plots.bars(rows, where, plot)
    if missing:
        raise KeyboardInterrupt(f"missing are {'; '.join(missing)}")


def _measure(
    work: list[tuple[str, str, str]], phases: str, task: Any, console: Any
) -> tuple[list[Any], list[str], list[str]]:
    """Measure all networks, or those before an interruption.

    Return their rows, and names of what failed and what is missing.
    """
    import mindspore as ms

    from ms_ascend_ops.benchmarks.networks import report
    from ms_ascend_ops.benchmarks.networks.measure import measure

    ms.set_context(mode=ms.GRAPH_MODE)
    rows: list[Any] = []
    failed: list[str] = []

    def keep(row: Any) -> None:
        rows.append(row)
        console.print(report.line(row), markup=False, highlight=False)

    missing = [" ".join(item) for item in work]
    with measuring(console, len(work)) as run:
        for item in work:
            try:
                measure(*item, lambda phase: phases in phase, task, run.tell, keep)
            except Exception as error:  # whatever MindSpore or the network raises is the reason
                run.check()
                reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
                failed.append(f"{missing[0]} ({reason})")
                console.print(f"skipped: {failed[-1]}", style="yellow", markup=False)
            run.advance()
            del missing[0]
    for row in rows:
        if row.omitted:
            left_out = f"{row.name}: no time was left for {'; '.join(row.omitted)} (--seconds)"
            console.print(left_out, style="yellow", markup=False)
    if run.interrupted and missing:
        done = [row.phase for row in rows if f"{row.network} {row.size} {row.dtype}" == missing[0]]
        missing[0] += f" (but {', '.join(done)})" * bool(done)
    if not rows and run.interrupted:
        raise KeyboardInterrupt(f"missing are {'; '.join(missing)}")
    if not rows:
        raise click.ClickException("nothing was measured: the reasons stand above")
    return rows, failed, missing
