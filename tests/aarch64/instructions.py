"""Instructions of the hot loops on aarch64, beside those of x86-64 in tests/kernels/instructions/counts.yaml.

`python -m tests.aarch64.instructions [KERNEL ...]`, after `bash build.sh cross-test aarch64`. Needs a qemu with
plugins, as the package qemu-user has and qemu-user-static has not. Loops are interpreted, by vector units that are
optimised as those of a wheel.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys

from tests.kernels.instructions import FEW, LAUNCHES, MANY, ROOT, expected, largest

PLUGIN = ROOT / "tests/aarch64/count_instructions.c"
STAGE, MACHINE = ROOT / "build/aarch64/stage", ROOT / "build/aarch64/machine"
UNITS = ("armv8", "armv8-bf16")
MARK = 0x7FFF0061  # of the plugin


def launches(*cases):
    """Run on the emulated machine. A case is of text and dtype."""
    from tests.kernels.instructions.count import prepare  # noqa: PLC0415 - the library of that machine

    for text, dtype in cases:
        runs = []
        for launch in text.split(LAUNCHES):
            name, *shapes = launch.split()
            runs.append(prepare(name, dtype, [tuple(map(int, shape.split(","))) for shape in shapes]))
        for times in (FEW, MANY - FEW):
            _mark()
            for run in runs * times:
                run()
        _mark()


def _mark():
    with contextlib.suppress(ProcessLookupError):
        os.getpriority(os.PRIO_PROCESS, MARK)


def measured(cases, unit):
    """{(text, dtype): instructions for each element} of a vector unit."""
    plugin, python = ROOT / "build/aarch64/count_instructions.so", "python{}.{}".format(*sys.version_info[:2])
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", plugin, PLUGIN], check=True)
    variables = {
        "PYTHONHOME": MACHINE / "system/usr",
        "PYTHONPATH": f"{STAGE}:{MACHINE}/site",
        "MS_ASCEND_OPS_VECTOR_UNIT": unit,
        "MS_ASCEND_OPS_NUM_THREADS": "1",
        "MS_ASCEND_OPS_COMPILE": "0",
    }
    settings = [word for name, value in variables.items() for word in ("-E", f"{name}={value}")]
    command = ["qemu-aarch64", "-cpu", "max", "-plugin", plugin, "-L", MACHINE / "system", *settings]
    code = f"from tests.aarch64.instructions import launches; launches(*{cases!r})"
    command += [MACHINE / "system/usr/bin" / python, "-c", code]
    done = subprocess.run(command, cwd=STAGE, capture_output=True, text=True, check=False)
    marks = list(map(int, re.findall(r"^instructions (\d+)$", done.stderr, re.MULTILINE)))
    if done.returncode or len(marks) != 3 * len(cases):
        sys.exit(done.stderr[-3000:])
    return {
        case: (marks[3 * at + 2] - marks[3 * at + 1]) / (MANY - FEW) / largest(case[0]) for at, case in enumerate(cases)
    }


def main():
    if shutil.which("qemu-aarch64") is None or not STAGE.is_dir():
        sys.exit("This needs qemu-aarch64 of the package qemu-user, and `bash build.sh cross-test aarch64` before it")
    table = {text: counts for text, counts in expected().items() if not sys.argv[1:] or text.split()[0] in sys.argv[1:]}
    cases = [(text, dtype) for text, counts in table.items() for dtype in counts]
    found = [measured(cases, unit) for unit in UNITS]
    for text, dtype in cases:
        counts = " ".join(f"{unit} {count[text, dtype]:.2f}" for unit, count in zip(UNITS, found, strict=True))
        print(f"{text} {dtype}: {counts} x86-64-v3 {table[text][dtype]:.2f}")


if __name__ == "__main__":
    main()
