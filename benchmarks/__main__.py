"""Measure the operators on this CPU against memcpy, stock MindSpore and PyTorch.

    python -m benchmarks                                  every case, a few minutes
    python -m benchmarks --quick --ops rms_norm           a short look
    python -m benchmarks --json out.json --plot out.png

All providers run in this process and take turns, on the same inputs and in the same buffers every time: what fits the
cache stays there. Before anything is timed its results are compared with ours. `<operator>_grad` is what a training
step does: forward, then gradient. The process keeps to as many CPUs as there are threads. Figures of a busy machine
mean nothing.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


def main() -> None:
    """Run the benchmark from the command line."""
    arguments = _parse_arguments()
    # Seen by the libraries when they are imported, so before any of them is.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.threads])
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    os.environ.setdefault("GLOG_v", "3")  # MindSpore: errors only

    from benchmarks import report
    from benchmarks.cases import DTYPES, OPERATORS, SHAPES, Case
    from benchmarks.harness import Effort, measure
    from benchmarks.providers import PROVIDERS

    operators = [name + suffix for name in OPERATORS for suffix in ("", "_grad")]
    chosen = _chosen("--ops", arguments.ops, operators)
    dtypes = _chosen("--dtypes", arguments.dtypes, list(DTYPES))
    names = list(PROVIDERS)
    if arguments.providers:
        names = _chosen("--providers", [*arguments.providers, *(n for n in names if PROVIDERS[n].is_copy)], names)
    shapes = [_shape(text) for text in arguments.shapes] or list(SHAPES)
    effort = Effort(rounds=3, turn_seconds=0.005, most_seconds=0.5) if arguments.quick else Effort()

    cases = [
        Case(op.removesuffix("_grad"), op.endswith("_grad"), rows, cols, dtype)
        for op in chosen
        for dtype in dtypes
        for rows, cols in shapes
    ]
    console = Console()
    load = os.getloadavg()[0]
    if load > 0.5:
        console.print(f"this machine is busy (load {load:.1f}): the figures will be too low", style="yellow")
    outcomes = []
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(cases))
        for case in cases:
            outcomes.append(
                measure(case, names, arguments.threads, effort, lambda text: progress.update(task, description=text))
            )
            progress.advance(task)

    where = report.machine(arguments.threads)
    for part in report.tables(outcomes, where):
        console.print(part, highlight=False, markup=False)
    if arguments.json:
        arguments.json.write_text(json.dumps(report.as_dict(outcomes, where), indent=2) + "\n", encoding="utf-8")
    if arguments.plot:
        report.plot(outcomes, where, arguments.plot)


def _chosen(option: str, given: list[str], known: list[str]) -> list[str]:
    unknown = [name for name in given if name not in known]
    if unknown:
        raise SystemExit(f"python -m benchmarks: {option} must be of {', '.join(known)}, got {', '.join(unknown)}")
    return [name for name in known if name in given] if given else known


def _shape(text: str) -> tuple[int, int]:
    parts = text.split("x")
    if len(parts) != 2 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise SystemExit(f"python -m benchmarks: --shapes must be of the form 2048x4096, got {text}")
    return int(parts[0]), int(parts[1])


def _names(text: str) -> list[str]:
    return [name for name in text.replace(",", " ").split() if name]


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ops", type=_names, default=[], help="e.g. rms_norm,swiglu_grad (default: all, both passes)")
    parser.add_argument("--shapes", type=_names, default=[], help="rows x cols of the output, e.g. 128x4096,333x4097")
    parser.add_argument(
        "--dtypes",
        type=_names,
        default=["float32", "bfloat16"],
        help="of float32, bfloat16, float16 (default: float32,bfloat16)",
    )
    cpus = len(os.sched_getaffinity(0))
    parser.add_argument("--threads", type=int, default=cpus, help="for every provider (default: %(default)s)")
    parser.add_argument(
        "--providers", type=_names, default=[], help="of library, mindspore, stock, torch, torch_compile (default: all)"
    )
    parser.add_argument("--json", type=Path, help="write every figure here")
    parser.add_argument("--plot", type=Path, help="write a picture here (PNG)")
    parser.add_argument("--quick", action="store_true", help="short and rough")
    arguments = parser.parse_args()
    if not 1 <= arguments.threads <= cpus:
        parser.error(f"--threads must be 1 to {cpus}, the CPUs of this process, got {arguments.threads}")
    return arguments


if __name__ == "__main__":
    main()
