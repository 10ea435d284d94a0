"""Fresh environments and folders, and commands in them. Needs Python alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["ROOT", "Environment", "StepError", "run"]

ROOT = Path(__file__).parents[2]
# What a developer has set, and a user has not.
DEVELOPERS = ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE")


class StepError(Exception):
    """A step that did not do what it should; the text says why."""


def run(*command: object, cwd: Path, label: str = "", **variables: str) -> str:
    """Run a command as a user would, and return what it printed.

    Raises:
        StepError: its exit code is not 0; with the last lines of its output.
    """
    began = time.monotonic()
    environment = {name: value for name, value in os.environ.items() if name not in DEVELOPERS}
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**environment, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    label = label or " ".join(map(str, command))
    if done.returncode:
        last = "\n".join(f"    {line}" for line in done.stdout.splitlines()[-30:])
        raise StepError(f"{label}: exit code {done.returncode}\n{last}")
    print(f"ok      {label} ({time.monotonic() - began:.0f} s)", flush=True)
    return done.stdout


class Environment:
    """A virtual environment with nothing but pip."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        run(
            sys.executable,
            "-m",
            "venv",
            "--clear",
            self.folder,
            cwd=ROOT,
            label=f"a fresh environment in {folder.name}",
        )

    @property
    def python(self) -> Path:
        return self.folder / "bin/python"

    def delete(self) -> None:
        """2 GB with MindSpore, 5 with PyTorch and what it has for GPUs."""
        shutil.rmtree(self.folder)

    def pip(self, *arguments: object, cwd: Path = ROOT) -> str:
        shown = " ".join(Path(str(argument)).name if "/" in str(argument) else str(argument) for argument in arguments)
        return run(self.python, "-m", "pip", *arguments, cwd=cwd, label=f"pip {shown}")

    def script(self, name: str, *arguments: object, cwd: Path) -> str:
        """Run a console script, or Python."""
        label = " ".join([name, *map(str, arguments)])
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return run(self.folder / "bin" / name, *arguments, cwd=cwd, label=label, PATH=path)
