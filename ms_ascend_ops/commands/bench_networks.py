"""`bench-networks`: whole networks, stock against fused, in this process."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from ms_ascend_ops.commands.bench import CPUS, chosen_of, names_of
from ms_ascend_ops.commands.errors import reported

__all__ = ["bench_networks"]


@click.command("bench-networks")
@click.option("--networks", callback=names_of, default="", help="Default: all that are installed.")
@click.option("--sizes", callback=names_of, default="small", help="E.g. small,medium; a network has those that it has.")
@click.option("--dtypes", callback=names_of, default="float32", help="Of float32, float16, bfloat16.")
@click.option("--phases", default="", help="Only phases whose name contains this, e.g. decode.")
@click.option("--threads", type=click.IntRange(1, CPUS), default=CPUS, help="CPUs that everything gets.")
@click.option("--own-threads", callback=names_of, default="", help="Also with as many threads of ours, e.g. 1,2,4.")
@click.option("--memory/--no-memory", default=True, help="Peak memory of each variant, in a process of its own.")
@click.option("--profile", is_flag=True, help="Also the time by operator, in a process of its own.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write every figure here.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Write the tables here.")
@click.option("--plot", type=click.Path(path_type=Path), help="Write bars here (PNG).")
@click.option("--lock", type=click.Path(path_type=Path), help="Measure only while this file is locked (flock).")
@click.option("--quick", is_flag=True, help="Short and rough.")
def bench_networks(
    networks: list[str],
    sizes: list[str],
    dtypes: list[str],
    phases: str,
    threads: int,
    own_threads: list[str],
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
    of the Python network. All run in this process and take turns; the outputs are compared before anything is timed.
    Networks that are not installed are skipped with a line that says so. Figures of a busy machine mean nothing.
    """
    # Seen by the libraries when they are imported, so before any of them is.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ["OMP_NUM_THREADS"] = str(threads)
    os.environ.setdefault("GLOG_v", "3")  # MindSpore: errors only
    if not all(count.isdigit() and int(count) > 0 for count in own_threads):
        raise click.BadParameter(f"must be numbers above 0, got {', '.join(own_threads)}", param_hint="--own-threads")

    from rich.console import Console

    from ms_ascend_ops.benchmarks import report as operators_report
    from ms_ascend_ops.benchmarks.networks import report, subject

    chosen = chosen_of("--networks", networks, list(subject.names()))
    dtypes = chosen_of("--dtypes", dtypes, ["float32", "bfloat16", "float16"])
    console = Console()
    load = os.getloadavg()[0]
    if load > 0.5:
        console.print(f"this machine is busy (load {load:.1f}): the figures will be too low", style="yellow")
    work = []
    for name in chosen:
        if missing := subject.missing(name):
            console.print(f"skipped: {subject.client(name).LABEL} ({', '.join(missing)} not installed)", style="yellow")
            continue
        known = subject.client(name).SIZES
        if unknown := [size for size in sizes if size not in known]:
            console.print(f"{name} has no size {', '.join(unknown)}, but {', '.join(known)}", style="yellow")
        work += [(name, size, dtype) for size in sizes if size in known for dtype in dtypes]
    if not work:
        raise click.ClickException("there is nothing to measure: install a network, or choose another size")
    rows = _measure(work, phases, [int(count) for count in own_threads], memory, profile, lock, quick, console)

    where = operators_report.machine(threads)
    for part in report.tables(rows, where):
        console.print(part, highlight=False, markup=False)
    if json_path:
        json_path.write_text(json.dumps(report.as_dict(rows, where), indent=2) + "\n", encoding="utf-8")
    if markdown:
        markdown.write_text(report.markdown(rows, where), encoding="utf-8")
    if plot:
        with reported():
            from ms_ascend_ops.benchmarks.networks import plots

            plots.bars(rows, where, plot)


def _measure(
    work: list[tuple[str, str, str]],
    phases: str,
    own_threads: list[int],
    memory: bool,
    profile: bool,
    lock: Path | None,
    quick: bool,
    console: Any,
) -> list[Any]:
    """The rows of all networks, or of those before an interruption."""
    import mindspore as ms
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from ms_ascend_ops.benchmarks.harness import Effort
    from ms_ascend_ops.benchmarks.networks.measure import TRAINING, Machine, measure, training

    ms.set_context(mode=ms.GRAPH_MODE)
    long = Effort(rounds=15, turn_seconds=0.1, settle_seconds=0.01, most_seconds=6.0)
    effort = Effort(rounds=3, turn_seconds=0.02, most_seconds=0.5) if quick else long
    rows: list[Any] = []
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Machine(lock) as machine, Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(work))

        def tell(text: str) -> None:
            progress.update(task, description=text)

        try:
            for name, size, dtype in work:
                options = {"machine": machine, "memory": memory, "profile": profile, "threads": own_threads}
                try:
                    rows += measure(name, size, dtype, lambda phase: phases in phase, effort, tell, **options)
                    if phases in TRAINING and (
                        row := training(name, size, dtype, effort, tell, machine=machine, memory=memory)
                    ):
                        rows.append(row)
                except Exception as error:  # whatever MindSpore or the network raises is the reason
                    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
                    console.print(f"skipped: {name} {size} {dtype} ({reason})", style="yellow", markup=False)
                progress.advance(task)
        except KeyboardInterrupt:
            console.print("interrupted: what was measured before is shown", style="yellow")
    if not rows:
        raise click.ClickException("nothing was measured: the reasons stand above")
    return rows
