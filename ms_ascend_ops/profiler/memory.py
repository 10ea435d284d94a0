"""Which bytes of a copy come from HBM, and which from L2.

The model of L2: it starts cold, and a line stays as long as less than its size has been moved since the line was
touched last. A line that several cores read is fetched once; which core comes first is a matter of chance, so each pays
its share. What a kernel writes goes to HBM, except the workspace, which is read again soon and small. With `warm`, the
launch finds in L2 what fits of its tensors, as in a loop that repeats it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ms_ascend_ops.profiler.chip import Chip
from ms_ascend_ops.profiler.trace import WORKSPACE, Array, Kind, Trace

__all__ = ["Traffic", "traffic"]

_STEPS = 1000


@dataclass
class Traffic:
    """Of each core and each event that is a copy: the bytes that HBM moves. The rest is L2's."""

    hbm_bytes: list[Array]  # per core, float, by event; 0 where the event is no copy


def traffic(trace: Trace, chip: Chip, warm: bool = False) -> Traffic:
    """Follow the copies of all cores through L2."""
    hbm = [np.zeros(len(events)) for events in trace.cores]
    copies = [events["kind"] == Kind.COPY for events in trace.cores]
    cold = _cold_share(trace, chip) if warm else 1.0
    for argument in range(len(trace.arguments)):
        reads = [
            np.flatnonzero(c & (e["argument"] == argument) & (e["written"] == 0)) for c, e in _pairs(copies, trace)
        ]
        _reads(trace, chip, argument, reads, hbm, cold)
    for core, events in enumerate(trace.cores):
        writes = copies[core] & (events["written"] != 0) & (events["argument"] != WORKSPACE)
        hbm[core][writes] = _moved_bytes(events[writes], chip) * cold
    return Traffic(hbm)


def _pairs(copies: list[Array], trace: Trace) -> zip[tuple[Array, Array]]:
    return zip(copies, trace.cores, strict=True)


def _cold_share(trace: Trace, chip: Chip) -> float:
    """The part of a working set that a full L2 does not hold."""
    return max(0.0, 1.0 - chip.l2_bytes / max(1, trace.minimal_bytes))


def _moved_bytes(events: Array, chip: Chip) -> Array:
    """Bytes of copies; pieces that lie apart move whole sectors."""
    piece = events["piece_bytes"].astype(np.float64)
    apart = (events["pieces"] > 1) & (events["stride"] > events["piece_bytes"])
    sectors = np.ceil(piece / chip.sector_bytes) * chip.sector_bytes
    room = np.maximum(events["stride"].astype(np.float64), piece)
    return np.asarray(np.where(apart, np.minimum(sectors, room), piece) * events["pieces"])


def _lines(event: Array, line_bytes: int) -> Array | slice:
    """The lines that a copy touches."""
    begin, piece, pieces, stride = (int(event[key]) for key in ("offset", "piece_bytes", "pieces", "stride"))
    if pieces == 1 or stride <= piece + line_bytes:
        return slice(begin // line_bytes, (begin + (pieces - 1) * stride + piece - 1) // line_bytes + 1)
    first = (begin + np.arange(pieces, dtype=np.int64) * stride) // line_bytes
    last = (begin + np.arange(pieces, dtype=np.int64) * stride + piece - 1) // line_bytes
    most = int((last - first).max()) + 1
    if most == 1:
        return first
    grid = first[:, None] + np.arange(most)
    return np.asarray(grid[grid <= last[:, None]])


def _reads(trace: Trace, chip: Chip, argument: int, reads: list[Array], hbm: list[Array], cold: float) -> None:
    if not any(len(indices) for indices in reads):
        return
    line = chip.line_bytes
    count = trace.arguments[argument].bytes // line + 2
    sharers = np.zeros(count, np.int32)  # cores that read a line
    last_core = np.full(count, -1, np.int32)
    last_byte = np.zeros(count)
    active = sum(len(events) > 0 for events in trace.cores)
    fresh: list[list[Array | None]] = []  # of each read: whether its core sees a line for the first time
    for core, indices in enumerate(reads):
        events = trace.cores[core]
        is_copy = events["kind"] == Kind.COPY
        moved = np.cumsum(np.where(is_copy, events["piece_bytes"] * events["pieces"].astype(np.float64), 0.0))
        core_fresh: list[Array | None] = []
        for index in indices:
            lines = _lines(events[index], line)
            # Forgotten lines are fetched again. The other cores move as much in the meantime.
            new = (last_core[lines] != core) | ((moved[index] - last_byte[lines]) * active > chip.l2_bytes)
            sharers[lines] += last_core[lines] != core
            last_core[lines] = core
            last_byte[lines] = moved[index]
            core_fresh.append(new)
        fresh.append(core_fresh)
    for core, indices in enumerate(reads):
        events = trace.cores[core]
        sizes = _moved_bytes(events[indices], chip)
        for position, index in enumerate(indices):
            new = fresh[core][position]
            assert new is not None
            # In steps: cores whose rows lie a little differently stay alike. What is less than a line is not worth it.
            share = (new / sharers[_lines(events[index], line)]).mean() if sizes[position] > line else 1.0
            hbm[core][index] = sizes[position] * round(share * _STEPS) / _STEPS * cold
