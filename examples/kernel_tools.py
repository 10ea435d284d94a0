"""Makes a slow, wrong kernel right and fast with the checked and the traced build: `python examples/kernel_tools.py`.

docs/kernel_tools.md tells the story. The three versions are in examples/kernel_tools/; each multiplies the rows of a
matrix by a factor of their own: y[r, c] = x[r, c] * scale[r].
"""

import ctypes
import subprocess
import sys
from pathlib import Path

import click
import numpy as np

from ms_ascend_ops.commands.errors import need_extra
from ms_ascend_ops.profiler.chip import load_chip
from ms_ascend_ops.profiler.prediction import predict
from ms_ascend_ops.profiler.record import build
from ms_ascend_ops.profiler.report import comparison, console, show
from ms_ascend_ops.profiler.worker import last_trace


def run(library, version, rows, cols):
    """Returns how far the result is from NumPy's."""
    random = np.random.default_rng(0)
    x = random.standard_normal((rows, cols), np.float32)
    scale = random.standard_normal(rows, np.float32)
    y = np.full_like(x, np.nan)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (x, scale, y)]
    library.RowScale(version.encode(), *pointers, ctypes.c_uint64(rows), ctypes.c_uint32(cols))
    return np.abs(y - x * scale[:, None]).max()


def check(library, version, rows, cols):
    """Run in a process of its own, which the checked build ends at the first broken rule."""
    command = [sys.executable, __file__, "--in-checked", str(library), version, str(rows), str(cols)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def profile(library, version, rows, cols, chip):
    error = run(library, version, rows, cols)
    assert error == 0, f"{version} is off by {error}"
    return predict(last_trace(library), chip)[0]


@click.command()
@click.option("--rows", default=8192)
@click.option("--cols", default=256)
@click.option("--chip", default="ascend910b2")
def main(rows, cols, chip):
    """Check the three versions of row_scale, then predict the two that are right."""
    need_extra("profile")
    checked = build(click.echo, "checked", "row_scale")
    for version in ("wrong", "slow", "fast"):
        done = check(checked, version, 96, cols)
        click.echo(f"{version}: {'passes' if done.returncode == 0 else done.stderr.strip()}")
    traced = ctypes.CDLL(str(build(click.echo, "traced", "row_scale")))
    slow, fast = (profile(traced, version, rows, cols, load_chip(chip)) for version in ("slow", "fast"))
    show(console(), comparison(slow, [("fast", fast)], "slow"))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--in-checked"]:
        path, version, rows, cols = sys.argv[2:]
        difference = run(ctypes.CDLL(str(Path(path))), version, int(rows), int(cols))
        sys.exit(0 if difference == 0 else f"the result is off by {difference}")
    main()
