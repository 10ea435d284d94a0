"""Predicted times on an emulated device: each stream has a clock, and what it ran goes into a trace.

Kernels of this library take what the model of the chip (`ms_ascend_ops.profiler`) says of what they did. CANN's own
operators, of which there is no kernel here, and copies take the time that their bytes need.
"""

from __future__ import annotations

import ctypes
import json
import threading
from math import prod
from pathlib import Path
from typing import Any

from ms_ascend_ops.device.operators.calls import read_call
from ms_ascend_ops.device.operators.memory import DTYPES, Tensor
from ms_ascend_ops.profiler.chip import Chip, chip_names, load_chip
from ms_ascend_ops.profiler.prediction import predict
from ms_ascend_ops.profiler.worker import last_trace

__all__ = ["Clock", "chip_of"]

_LINK_GB_PER_S = 25.0  # assumption: PCIe 4.0 with 16 lanes between host and device
_KERNEL = "kernel"


def chip_of(soc: str) -> Chip:
    """The description of the chip that CANN calls so.

    Raises:
        KeyError: there is none.
    """
    return {chip.soc: chip for chip in map(load_chip, chip_names())}[soc]


class Clock:
    """Predicts what commands of streams take, and keeps them."""

    def __init__(self, device: int, chip: Chip, library: Path | None):
        self._device = device
        self._chip = chip
        # Of the traced build; of another one kernels are taken for what their bytes need.
        self._library = ctypes.CDLL(str(library)) if library is not None else None
        if self._library is not None and not hasattr(self._library, "MsAscendTraceJson"):
            self._library = None
        self._known: dict[Any, float] = {}
        self._lock = threading.Lock()
        self._rows: list[dict[str, Any]] = []

    def spend(self, stream: int, what: str, call: bytes, count: int, begin_ns: int) -> int:
        """The nanoseconds that a command takes which begins at this time of its stream.

        Args:
            stream: its number.
            what: "call", "copy" (within the device), "host copy" or "set".
            call: of a call its bytes.
            count: of the others, how many bytes they move.
            begin_ns: the time.
        """
        name, us, source = self._call(call) if what == "call" else (what, self._transfer_us(what, count), "bytes")
        row = {"ph": "X", "name": name, "pid": self._device, "tid": stream, "ts": begin_ns / 1e3, "dur": us}
        with self._lock:
            self._rows.append(row | {"args": {"predicted from": source}})
        return round(us * 1e3)

    def write(self, path: Path) -> None:
        """Write the trace, for chrome://tracing and ui.perfetto.dev."""
        name = f"device {self._device}, {self._chip.name}: predicted times"
        rows: list[dict[str, Any]] = [
            {"ph": "M", "name": "process_name", "pid": self._device, "args": {"name": name}},
            *(
                {
                    "ph": "M",
                    "name": "thread_name",
                    "pid": self._device,
                    "tid": stream,
                    "args": {"name": f"stream {stream}"},
                }
                for stream in sorted({row["tid"] for row in self._rows})
            ),
        ]
        data = {"predicted": True, "chip": self._chip.name, "traceEvents": rows + self._rows}
        path.write_text(json.dumps(data), encoding="utf-8")

    def _name(self, what: str, name: str, **place: int) -> dict[str, Any]:
        return {"ph": "M", "name": what, "pid": self._device, **place, "args": {"name": name}}

    def _call(self, data: bytes) -> tuple[str, float, str]:
        name, values = read_call(data)
        tensors = [tensor for value in values for tensor in _tensors(value)]
        if name != _KERNEL or self._library is None:
            shown = values[0] if name == _KERNEL else name
            return shown, self._chip.launch_us + self._memory_us(sum(map(_bytes, tensors))), "bytes"
        shapes = tuple((tensor.code, tensor.shape) for tensor in tensors)
        key = (*values[:5], shapes)
        if key not in self._known:
            self._known[key] = predict(last_trace(self._library), self._chip)[0].us
        return values[0], self._known[key], "the kernel's instructions"

    def _transfer_us(self, what: str, count: int) -> float:
        if what == "host copy":
            return count / (_LINK_GB_PER_S * 1e3)
        return self._memory_us(2 * count if what == "copy" else count)

    def _memory_us(self, count: float) -> float:
        return count / (self._chip.hbm_gb_per_s * self._chip.hbm_efficiency * 1e3)


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [item for item in value if isinstance(item, Tensor)] if isinstance(value, list) else []


def _bytes(tensor: Tensor) -> int:
    known = DTYPES.get(tensor.code)
    return prod(tensor.shape) * known[1].itemsize if known else 0
