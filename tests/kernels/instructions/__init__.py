"""Instructions of the hot loops, counted by valgrind: free of the noise that times have."""

import math
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]  # where the package lies that is tested
COUNTS = Path(__file__).with_name("counts.yaml")
UNIT = "x86-64-v3"  # valgrind knows AVX2, and no AVX-512
LAUNCHES = " + "  # between launches that take turns
FEW, MANY = 2, 4  # launches; the third and the fourth are replayed


def expected():
    """{"rms_norm 64,4100 4100": {dtype: instructions for each element}}"""
    return yaml.safe_load(COUNTS.read_text(encoding="utf-8"))


def measured(cases, folder):
    """The same for (text, dtype) pairs, of the library that is installed."""
    processes = os.cpu_count() or 1
    with ThreadPoolExecutor(processes) as pool:
        parts = pool.map(lambda first: _measured(cases[first::processes], folder), range(min(processes, len(cases))))
        found = {pair: count for part in parts for pair, count in part.items()}
    result = {}
    for text, dtype in cases:
        result.setdefault(text, {})[dtype] = found[text, dtype]
    return result


def _measured(cases, folder):
    """{(text, dtype): instructions for each element}, one after the other."""
    arguments = [
        LAUNCHES.join(launch.replace(" ", f" {dtype} ", 1) for launch in text.split(LAUNCHES)) for text, dtype in cases
    ]
    command = [
        "valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/%p", "--collect-atstart=no",
        "--toggle-collect=AscendC::host::PoolExecutor::Launch*",
        sys.executable, "-m", "tests.kernels.instructions.count",
    ]  # fmt: skip
    environment = os.environ | {
        "MS_ASCEND_OPS_VECTOR_UNIT": UNIT,
        "MS_ASCEND_OPS_NUM_THREADS": "1",
        "MS_ASCEND_OPS_COMPILE": "0",  # or it would depend on the time when a loop is no longer interpreted
    }
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, env=environment, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    totals = [
        int(re.search(r"^totals: (\d+)", (Path(folder) / child).read_text(), re.MULTILINE)[1])
        for child in done.stdout.split()
    ]
    result = {}
    for (text, dtype), few, many in zip(cases, totals[::2], totals[1::2], strict=True):
        result[text, dtype] = (many - few) / (MANY - FEW) / largest(text)
    return result


def largest(text):
    """Elements of the largest input."""
    shapes = [shape for launch in text.split(LAUNCHES) for shape in launch.split()[1:]]
    return max(math.prod(map(int, shape.split(","))) for shape in shapes)
