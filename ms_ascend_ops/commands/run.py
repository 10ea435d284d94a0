"""Defines `run`, which runs a script that was written for an NPU on a CPU."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import click

__all__ = ["run"]


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(script: Path, arguments: tuple[str, ...]) -> None:
    """Run SCRIPT with what only an NPU has in MindSpore done by our operators: within `cpu_builtins()`.

    A device "Ascend" that the script asks for is the CPU. All that stands behind SCRIPT are its own arguments.
    """
    from ms_ascend_ops.export.builtins.shims import MissingOperatorError, cpu_builtins, device_is_cpu

    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        with device_is_cpu(), cpu_builtins():
            runpy.run_path(str(script), run_name="__main__")
    except MissingOperatorError as error:
        raise click.ClickException(str(error)) from error
    finally:
        sys.path.remove(str(script.resolve().parent))
