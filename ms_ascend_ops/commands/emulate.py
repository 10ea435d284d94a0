"""Defines `emulate`, which runs a program on an emulated Ascend device."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import click

from ms_ascend_ops.commands.errors import reported

__all__ = ["emulate"]


class _Program(click.Command):
    """Leaves what stands behind SCRIPT, `-m MODULE` or `-c CODE` to the program, as Python itself does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        taking_a_value = {
            name for option in self.params if not getattr(option, "is_flag", True) for name in option.opts
        }
        place = 0
        while place < len(args) and args[place].startswith("-") and args[place] not in ("-m", "-c", "--"):
            place += 2 if args[place] in taking_a_value else 1
        if args[place : place + 1] in (["-m"], ["-c"]):
            args, ctx.obj = args[:place], args[place:]
        return super().parse_args(ctx, args)


@click.command(cls=_Program, context_settings={"allow_interspersed_args": False})
@click.option("--chip", default="ascend910b2", metavar="CHIP", help="ascend910b1 to b4, ascend910_93, or a .yaml file.")
@click.option("--devices", type=click.IntRange(1, 16), default=1, help="How many of them.")
@click.option(
    "--memory", metavar="SIZE", help="Memory of a device, like 8GiB.  [default: the chip's, or this machine's]"
)
@click.option("--check", is_flag=True, help="Hold kernels and copies to every rule of the chip.")
@click.option(
    "--trace", type=click.Path(dir_okay=False, path_type=Path), help="Write a timeline of predicted NPU time."
)
@click.option("--print-environment", is_flag=True, help="Print what a shell, an IDE or pytest needs instead.")
@click.argument("script", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def emulate(
    ctx: click.Context,
    chip: str,
    devices: int,
    memory: str | None,
    check: bool,
    trace: Path | None,
    print_environment: bool,
    script: str | None,
    arguments: tuple[str, ...],
) -> None:
    """Run SCRIPT, `-m MODULE` or `-c CODE` on an emulated Ascend device.

    What follows SCRIPT, MODULE or CODE are its own arguments. The program is run unchanged, by MindSpore's own Ascend
    backend or by torch_npu.
    """
    from ms_ascend_ops.device.environment import Settings, environment, other_cann, parse_bytes
    from ms_ascend_ops.device.stubs import plugin_failure

    if check and trace is not None:
        raise click.UsageError("--check and --trace exclude each other: the kernels are another build for each")
    program = ctx.obj or ([script, *arguments] if script is not None else None)
    if ctx.obj and len(ctx.obj) < 2:
        raise click.UsageError(f"{ctx.obj[0]} needs an argument")
    if program is None and not print_environment:
        raise click.UsageError("a SCRIPT, -m MODULE or -c CODE is missing")
    if ctx.obj is None and script is not None and not Path(script).exists():
        raise click.UsageError(f"there is no {script}")
    if trace is not None and not trace.resolve().parent.is_dir():
        raise click.UsageError(f"--trace {trace}: there is no folder {trace.resolve().parent}")
    build = "checked" if check else "fast" if trace is None else "traced"
    with reported():
        settings = Settings(
            chip=chip,
            devices=devices,
            memory_bytes=None if memory is None else parse_bytes(memory),
            build=build,
            library=_kernels(build),
            trace=None if trace is None else trace.resolve(),
        )
        variables = environment(settings, os.environ)
    for folder in other_cann(os.environ):
        click.echo(f"ms_ascend_ops: the CANN in {folder} is not used: this is the emulated device's own", err=True)
    if print_environment:
        for name in sorted(name for name, value in variables.items() if os.environ.get(name) != value):
            click.echo(f"export {name}={shlex.quote(variables[name])}")
        return
    if shutil.which("g++") is None:
        click.echo("ms_ascend_ops: there is no g++, which MindSpore calls for custom operators: install it", err=True)
    click.echo(f"ms_ascend_ops: emulated {settings.describe()}; times are not an NPU's", err=True)
    if failure := plugin_failure(variables):
        click.echo(
            f"ms_ascend_ops: MindSpore's Ascend plugin does not load, so it stays on the CPU: {failure}", err=True
        )
    assert program is not None
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *_python_options(), *program], variables)


def _kernels(build: str) -> Path:
    """Return the library with this build of the kernels; one that observes them is built from their sources, once."""
    from ms_ascend_ops.library import LIBRARY

    if build == "fast":
        return LIBRARY
    from ms_ascend_ops.profiler.record import build as build_observed

    option = "--check" if build == "checked" else "--trace"
    return build_observed(lambda line: click.echo(f"ms_ascend_ops: {line}", err=True), build, purpose=option)


def _python_options() -> list[str]:
    """Return those that this Python was started with, as far as they concern a program."""
    import subprocess

    return list(subprocess._args_from_interpreter_flags())  # type: ignore[attr-defined]
