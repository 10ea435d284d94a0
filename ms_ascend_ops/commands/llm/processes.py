"""Runs a command on several processes: msrun starts it again as often, and what the first process says comes
out here.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import click

from ms_ascend_ops.llm.parallel import started_by_msrun

__all__ = ["on_processes", "speak_for_all"]

# The folder with the pipes of a command that started msrun, in the environment of its processes.
_PIPES = "MS_ASCEND_OPS_PIPES"
_OUT, _ERRORS = "out", "errors"


def on_processes(count: int, text: Callable[[], str] | None = None) -> bool:
    """Run this command line by msrun on so many processes of this machine, and wait for them.

    Args:
        count: how many.
        text: reads stdin, where the command needs it: these processes have none, and get it by --file.

    Returns:
        Whether they ran. False: this is one of them, or the only one that is wanted.

    Raises:
        click.ClickException: one of them failed.
    """
    if count == 1:
        return False
    if started_by_msrun():
        if text is not None:
            raise click.UsageError("under msrun the text must come from --prompt or --file, not from stdin")
        return False
    with tempfile.TemporaryDirectory(prefix="ms_ascend_ops-") as name:
        folder = Path(name)
        for pipe in (_OUT, _ERRORS):
            os.mkfifo(folder / pipe)
        arguments = sys.argv[1:]
        if text is not None:
            (folder / "text").write_text(text(), "utf-8")
            arguments += ["--file", str(folder / "text")]
        msrun = [
            sys.executable, "-m", "mindspore.parallel.cluster.run", f"--worker_num={count}",
            f"--local_worker_num={count}", "--join=True", f"--log_dir={folder}", f"--master_port={_free_port()}",
            f"--tail_worker_log={count}",  # of none
            "python", "-m", "ms_ascend_ops",
        ]  # fmt: skip
        environment = {"GLOG_v": "3"} | os.environ | {_PIPES: name}
        environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment.get('PATH', '')}"
        with (folder / "msrun.log").open("w") as log:
            process = subprocess.Popen(
                [*msrun, *arguments], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            said = _relayed(process, folder)
        except KeyboardInterrupt:
            process.send_signal(2)  # msrun ends the others
            process.wait()
            raise
        if process.returncode == 0:
            return True
        messages = [line for rank in range(count) for line in _errors(folder / f"worker_{rank}.log")]
        if not said and messages:
            raise click.ClickException(messages[0])
        raise click.ClickException(f"one of {count} processes failed, so that all were ended")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _relayed(process: subprocess.Popen[Any], folder: Path) -> bool:
    """Pass on what the first process writes, until all have ended. Returns whether it told of an error."""
    pipes = {
        os.open(folder / _OUT, os.O_RDONLY | os.O_NONBLOCK): sys.stdout,
        os.open(folder / _ERRORS, os.O_RDONLY | os.O_NONBLOCK): sys.stderr,
    }
    said = False
    try:
        while True:
            ended = process.poll() is not None
            ready, _, _ = select.select(list(pipes), [], [], 0.1)
            came = False
            for pipe in ready:
                data = os.read(pipe, 1 << 16)
                came = came or bool(data)
                _write(pipes[pipe], data)
                said = said or (pipes[pipe] is sys.stderr and b"Error" in data)
            if ended and not came:
                return said
            if not came:
                select.select([], [], [], 0.02)  # a pipe that nobody has opened yet is always ready
    finally:
        for pipe in pipes:
            os.close(pipe)


def _write(stream: IO[str], data: bytes) -> None:
    if data:
        click.echo(data, file=stream, nl=False)


def _errors(log: Path) -> list[str]:
    if not log.is_file():
        return []
    lines = log.read_text("utf-8", "replace").splitlines()
    return [line.partition("Error: ")[2] for line in lines if line.startswith(("Error: ", "RuntimeError: "))]


def speak_for_all(rank: int) -> None:
    """Let the first process alone print: into the pipes of the command that started msrun, if one did."""
    if rank:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends
    elif _PIPES in os.environ:
        folder = Path(os.environ[_PIPES])
        sys.stdout, sys.stderr = ((folder / pipe).open("w", buffering=1) for pipe in (_OUT, _ERRORS))
