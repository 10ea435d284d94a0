"""Holds what all commands have in common: lazy imports, `--verbose`, near names, and how an interruption ends."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

from ms_ascend_ops.suggestions import near_files, suggestion

__all__ = ["ExistingPath", "LazyGroup", "is_verbose", "plain"]

_VERBOSE = "MS_ASCEND_OPS_VERBOSE"

# Programs of the user's, and a server, which has a log of its own, say what they want.
_THEIR_OWN_LOG = frozenset({"emulate", "run", "serve"})

# MindSpore puts such a line, then a title, in front of developers' details.
_SECTION = "\n- C++ Call Stack"


class LazyGroup(click.Group):
    """Imports commands when they run: most of them need MindSpore, `--help` does not."""

    def __init__(self, *args: Any, package: str, table: Mapping[str, str], root: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._package, self._table, self._root = package, table, root

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._table:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"{self._package}.{name}"), name)
        if cmd_name not in _THEIR_OWN_LOG:
            _add_verbose(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self._table and not name.startswith("-") and not ctx.resilient_parsing:
            known = suggestion(name, self._table) or f"; `{ctx.command_path} --help` lists them"
            raise click.UsageError(f"there is no command '{name}'{known}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(self._table.items()))

    def invoke(self, ctx: click.Context) -> Any:
        if not self._root:
            return super().invoke(ctx)
        with _interruption() as interruption:
            try:
                return super().invoke(ctx)
            except (KeyboardInterrupt, Exception) as error:
                # MindSpore's compiler replaces an interruption by another error.
                if not isinstance(error, KeyboardInterrupt) and not interruption.happened:
                    raise
                text = str(error) if isinstance(error, KeyboardInterrupt) else ""
                click.echo(f"interrupted{': ' if text else ''}{text}", err=True)
        raise click.exceptions.Exit(130)


@dataclass
class _Interruption:
    happened: bool = False


@contextmanager
def _interruption() -> Iterator[_Interruption]:
    """Raise KeyboardInterrupt on Ctrl-C within the block, as always, and remember it."""
    made = _Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield made
        return

    def interrupt(*_: Any) -> None:
        made.happened = True
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield made
    finally:
        signal.signal(signal.SIGINT, before)


def _add_verbose(command: click.Command) -> None:
    if isinstance(command, LazyGroup):
        return
    if isinstance(command, click.Group):
        for one in command.commands.values():
            _add_verbose(one)
    elif not any(parameter.name == "verbose" for parameter in command.params):
        text = "Show what MindSpore logs, and all of its errors."
        command.params.append(
            click.Option(["--verbose"], is_flag=True, expose_value=False, is_eager=True, callback=_quiet, help=text)
        )


def _quiet(ctx: click.Context, param: click.Parameter, verbose: bool) -> None:
    """Silence MindSpore before it is imported: it warns of what no user of a command can change."""
    if verbose:
        os.environ[_VERBOSE] = "1"
        os.environ.setdefault("GLOG_v", "2")
    else:
        os.environ.pop(_VERBOSE, None)
        os.environ.setdefault("GLOG_v", "4")


def is_verbose() -> bool:
    """Tell whether the command was called with --verbose."""
    return os.environ.get(_VERBOSE) == "1"


def plain(error: BaseException) -> str:
    """Return the message of an error for the user of a command: of MindSpore's, the line that says what is wrong."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    text = str(error).strip()
    if is_verbose() or _SECTION not in text:
        return text
    lines = [line.strip() for line in text.partition(_SECTION)[0].splitlines() if line.strip(" -")]
    return f"{lines[0] if lines else type(error).__name__} (--verbose shows all that MindSpore says)"


class ExistingPath(click.Path):
    """Accepts a path that must exist; of a mistyped one it names what is called alike."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(exists=True, **kwargs)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from pathlib import Path

        path = Path(os.fspath(value))
        if not path.exists():
            self.fail(f"there is no {path}{near_files(path)}", param, ctx)
        return super().convert(value, param, ctx)
