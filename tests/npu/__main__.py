"""python -m tests.npu: what a user with an NPU runs once (`bash build.sh test-npu`). One file is the result."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--device", type=click.Choice(["Ascend", "CPU"]), default="Ascend", help="CPU tries the script itself.")
@click.option(
    "--report", type=click.Path(path_type=Path), default=Path("npu-report.txt"), help="Where the result goes."
)
@click.option("--ops", default="", help="Operators, separated by commas; default: all.")
@click.option("--dtypes", default="float16,bfloat16,float32", help="Of float16, bfloat16, float32.")
@click.option("--rounds", type=click.IntRange(min=0), default=50, help="Timed calls for each figure; 0: no timing.")
@click.option("--small", is_flag=True, help="Inputs of a few elements where calls are timed: of an emulated device.")
def main(device: str, report: Path, ops: str, dtypes: str, rounds: int, small: bool) -> None:
    """Check every operator on this device and write one report.

    Accuracy of forward and gradient against float64, a MindIR round trip, and times beside CANN's own operator, with
    bandwidth. The report can be attached to a bug report as it is. The exit code is 1 if a check failed.
    """
    import mindspore as ms

    from ms_ascend_ops import registry
    from tests.npu import smoke

    chosen = [name for name in ops.split(",") if name] or list(registry.names())
    if unknown := sorted(set(chosen) - set(registry.names())):
        raise click.BadParameter(f"there is no operator {', '.join(unknown)}", param_hint="--ops")
    if ms.get_context("device_target") != device:
        ms.set_device(device)
    lines = smoke.environment(device)
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            for dtype in dtypes.split(","):
                for result in smoke.check(name, dtype, Path(folder), rounds, small):
                    lines.append(str(result))
                    failures += result.status == "FAILED"
                    click.echo(str(result))
    lines.append(f"{failures} failed")
    report.write_text("\n".join(lines) + "\n", encoding="utf-8")
    click.echo(f"{failures} failed; report: {report.resolve()}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main(prog_name="python -m tests.npu")
