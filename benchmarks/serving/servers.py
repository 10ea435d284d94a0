"""Starts the servers that are measured: this package's, the same application under Ray Serve, and stock
MindSpore under it.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

__all__ = ["Memory", "ours", "ray"]


@contextlib.contextmanager
def ours(model: Path, port: int, *options: str) -> Iterator[list[int]]:
    """Run `python -m ms_ascend_ops serve` within the block. Yields the process ids."""
    command = [
        sys.executable, "-m", "ms_ascend_ops", "serve", f"network={model}", "--port", str(port), "--no-grpc", *options,
    ]  # fmt: skip
    process = subprocess.Popen(command)
    try:
        _wait(port, process)
        yield [process.pid]
    finally:
        process.terminate()
        process.wait(60)


@contextlib.contextmanager
def ray(model: Path, port: int, replicas: int, stock: bool) -> Iterator[list[int]]:
    """Run Ray Serve on this machine within the block; with `stock` it serves a network of MindSpore's operators, which
    `serve.batch` batches.
    """
    command = [sys.executable, "-m", "ms_ascend_ops.benchmarks.serving.ray_process", str(port), str(replicas)]
    process = subprocess.Popen([*command, "stock" if stock else str(model)])
    try:
        _wait(port, process, 180)
        yield _replicas()
    finally:
        process.terminate()
        process.wait(60)


def _wait(port: int, process: subprocess.Popen[bytes], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while True:
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError("the server did not start")
        with contextlib.suppress(OSError):
            if urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=5).status == 200:
                return
        time.sleep(0.2)


def _replicas() -> list[int]:
    """Return the processes of Ray's replicas, by the title that Ray gives them."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdecimal() and re.match(rb"ray::ServeReplica", (folder / "cmdline").read_bytes()):
                found.append(int(folder.name))
    return sorted(found)


class Memory(threading.Thread):
    """Takes the resident memory of processes each second, in MiB."""

    def __init__(self, processes: list[int]):
        super().__init__(daemon=True)
        self._processes = processes
        self._end = threading.Event()
        self.samples: list[float] = []

    def run(self) -> None:
        while not self._end.wait(1):
            total = 0
            for number in self._processes:
                with contextlib.suppress(OSError, ValueError):
                    total += int(Path(f"/proc/{number}/statm").read_text().split()[1])
            self.samples.append(total * os.sysconf("SC_PAGE_SIZE") / 2**20)

    def line(self) -> str:
        """Describe it for people: after a tenth of the time, at the middle and at the end."""
        self._end.set()
        count = len(self.samples)
        if count < 3:
            return "memory: too short to tell"
        first, middle, last = (self.samples[index] for index in (count // 10, count // 2, count - 1))
        return f"memory {first:.0f}, {middle:.0f}, {last:.0f} MiB after 10, 50 and 100 % of the time"
