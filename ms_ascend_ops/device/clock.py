"""Predicts times on an emulated device: each stream has a clock, and what it ran goes into a trace.

Kernels of this library take what the model of the chip (`ms_ascend_ops.profiler`) says of what they did. CANN's own
operators, of which there is no kernel here, take what a roofline says (roofline.py), and copies what their bytes need.
"""

from __future__ import annotations

import ctypes
import json
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ms_ascend_ops.device.operators.calls import read_call
from ms_ascend_ops.device.roofline import cost, tensor_bytes, tensors_of
from ms_ascend_ops.profiler.chip import Chip, chip_names, load_chip
from ms_ascend_ops.profiler.prediction import predict
from ms_ascend_ops.profiler.worker import last_trace

__all__ = ["Clock", "chip_of", "summary"]

_LINK_GB_PER_S = 25.0  # assumption: PCIe 4.0 with 16 lanes between host and device
_KERNEL = "kernel"
_HOST_COPY = "host copy"


def chip_of(soc: str) -> Chip:
    """Return the description of the chip that CANN calls so.

    Raises:
        KeyError: there is none.
    """
    return {chip.soc: chip for chip in map(load_chip, chip_names())}[soc]


class Clock:
    """Predicts what commands of streams take, and keeps them."""

    def __init__(self, device: int, chip: Chip, library: Path | None):
        self._device = device
        self._chip = chip
        # This needs the traced build; without it kernels take the time that their bytes need.
        self._library = ctypes.CDLL(str(library)) if library is not None else None
        if self._library is not None and not hasattr(self._library, "MsAscendTraceJson"):
            self._library = None
        self._known: dict[Any, tuple[float, str]] = {}
        self._lock = threading.Lock()
        self._rows: list[dict[str, Any]] = []

    def spend(self, stream: int, what: str, call: bytes, count: int, begin_ns: int) -> int:
        """Return the nanoseconds that a command takes which begins at this time of its stream.

        Args:
            stream: its number.
            what: "call", "copy" (within the device), "host copy" or "set".
            call: of a call its bytes.
            count: of the others, how many bytes they move.
            begin_ns: the time.
        """
        name, us, arguments = self._call(call) if what == "call" else self._transfer(what, count)
        row = {"ph": "X", "name": name, "pid": self._device, "tid": stream, "ts": begin_ns / 1e3, "dur": us}
        with self._lock:
            self._rows.append(row | {"args": arguments})
        return round(us * 1e3)

    @property
    def has_predictions(self) -> bool:
        """Tell whether kernels' times are predicted from their instructions: the library is the traced build."""
        return self._library is not None

    def is_known(self, call: bytes) -> bool:
        """Tell whether a launch equal to this one was predicted, so that no trace of this one is needed."""
        return self._launch(read_call(call)[1]) in self._known

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

    def report(self) -> str:
        """Return where the predicted time goes, by operator, as a table."""
        return summary(f"device {self._device}, {self._chip.name}", self._rows)

    def _name(self, what: str, name: str, **place: int) -> dict[str, Any]:
        return {"ph": "M", "name": what, "pid": self._device, **place, "args": {"name": name}}

    def _call(self, data: bytes) -> tuple[str, float, dict[str, Any]]:
        name, values = read_call(data)
        if name != _KERNEL:
            found = cost(name, values, self._chip)
            return name, found.us, _arguments("CANN", "a roofline", found.bound, found.bytes, found.flops)
        tensors = [tensor for value in values for tensor in tensors_of(value)]
        count = sum(map(tensor_bytes, tensors))
        if self._library is None:
            us = self._chip.launch_us + self._memory_us(count)
            return values[0], us, _arguments("ours", "bytes", "HBM", count)
        key = self._launch(values)
        if key not in self._known:
            predicted = predict(last_trace(self._library), self._chip)[0]
            self._known[key] = predicted.us, predicted.bound_by
        us, bound = self._known[key]
        return values[0], us, _arguments("ours", "the kernel's instructions", bound, count)

    def _launch(self, values: list[Any]) -> Any:
        """Return what launches have in common that take the same time: kernel, tiling, and the shapes of tensors."""
        tensors = [tensor for value in values for tensor in tensors_of(value)]
        return (*values[:5], tuple((tensor.code, tensor.shape) for tensor in tensors))

    def _transfer(self, what: str, count: int) -> tuple[str, float, dict[str, Any]]:
        if what == _HOST_COPY:
            return what, count / (_LINK_GB_PER_S * 1e3), _arguments("copies", "bytes", "link", count)
        us = self._memory_us(2 * count if what == "copy" else count)
        return what, us, _arguments("copies", "bytes", "HBM", count)

    def _memory_us(self, count: float) -> float:
        return count / (self._chip.hbm_gb_per_s * self._chip.hbm_efficiency * 1e3)


def summary(where: str, rows: Iterable[Mapping[str, Any]], most: int = 20) -> str:
    """Return a table of predicted times by operator: calls, time, share, and what bounds most of it; and idle time.

    Copies between host and device are apart: those of weights would hide everything else.

    Args:
        where: what it is of, for the title.
        rows: complete events of a trace ("ph": "X"), times in microseconds.
        most: so many operators are listed; the rest is one line.
    """
    groups: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    calls: dict[tuple[str, str], int] = defaultdict(int)
    streams: dict[Any, list[float]] = {}
    host_us = 0.0
    for row in rows:
        if row["name"] == _HOST_COPY:
            host_us += row["dur"]
        else:
            key = row["args"]["by"], row["name"]
            groups[key][row["args"]["bound"]] += row["dur"]
            calls[key] += 1
        begin, end = row["ts"], row["ts"] + row["dur"]
        seen = streams.setdefault(row["tid"], [begin, end, 0.0])
        streams[row["tid"]] = [min(seen[0], begin), max(seen[1], end), seen[2] + row["dur"]]
    times = sorted(((sum(bounds.values()), key) for key, bounds in groups.items()), reverse=True)
    total = sum(us for us, _ in times)
    lines = [f"predicted time of {where}: {total / 1e3:.3f} ms in {sum(calls.values())} commands; no NPU measured it"]
    lines += [f"{'operator':<44} {'by':<6} {'calls':>6} {'us':>10} {'share':>6}  bound"]
    for us, key in times[:most]:
        bounds = groups[key]
        bound = max(bounds, key=lambda name: bounds[name])
        lines.append(f"{key[1][:44]:<44} {key[0]:<6} {calls[key]:>6} {us:>10.1f} {us / (total or 1):>6.1%}  {bound}")
    if rest := times[most:]:
        us, count = sum(us for us, _ in rest), sum(calls[key] for _, key in rest)
        lines.append(f"{f'{len(rest)} more':<44} {'':<6} {count:>6} {us:>10.1f} {us / (total or 1):>6.1%}")
    for by in ("ours", "CANN", "copies"):
        us = sum(one for one, key in times if key[0] == by)
        lines.append(f"all of {by}: {us:.1f} us, {us / (total or 1):.1%}")
    lines.append(f"copies between host and device, not counted above: {host_us:.1f} us")
    for stream, (begin, end, busy) in sorted(streams.items()):
        idle = max(0.0, end - begin - busy)
        lines.append(f"stream {stream}: {end - begin:.1f} us, of which {idle:.1f} us wait for other streams")
    return "\n".join(lines)


def _arguments(by: str, source: str, bound: str, count: float, work: float = 0.0) -> dict[str, Any]:
    found = {"by": by, "predicted from": source, "bound": bound, "bytes": count}
    return found | ({"flops": work} if work else {})
