"""Tells which bytes of a copy, or of a product's operands and result, come from HBM, and which from L2.

The model of L2: it starts cold, and a line stays as long as less than its size has been moved since the line was
touched last; what several cores read counts once. A line that several cores read is fetched once; which core comes
first is a matter of chance, so each pays its share. What a kernel writes goes to HBM, except the workspace, which is
read again soon and small. With `warm`, the launch finds in L2 what fits of its tensors, as in a loop that repeats it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ms_ascend_ops.profiler.chip import Chip
from ms_ascend_ops.profiler.trace import WORKSPACE, Array, Kind, Trace

__all__ = ["Traffic", "traffic"]

_STEPS = 1000
_MOST_LINES = 1 << 23  # short ones, of an argument


@dataclass
class Traffic:
    """Holds the bytes that HBM moves for each copy of each core. Other bytes are L2's."""

    hbm_bytes: list[Array]  # per core, float, by event; 0 where the event is no copy


def traffic(trace: Trace, chip: Chip, warm: bool = False) -> Traffic:
    """Follow the copies of all cores through L2."""
    hbm = [np.zeros(len(events)) for events in trace.cores]
    copies = [_moves(events) for events in trace.cores]
    cold = _cold_share(trace, chip) if warm else 1.0
    moved = [_copied(events) for events in trace.cores]
    reading = []
    for argument in range(len(trace.arguments)):
        reads = [
            np.flatnonzero(c & (e["argument"] == argument) & (e["written"] == 0) & (e["pieces"] > 0))
            for c, e in _pairs(copies, trace)
        ]
        if not any(len(indices) for indices in reads):
            continue
        line_bytes = _line_bytes(trace, chip, argument, reads)
        lines, sharers = _read_lines(trace, line_bytes, argument, reads)
        # Data that several cores read takes the space of one copy.
        for core, indices in enumerate(reads):
            for index, part in zip(indices, lines[core], strict=True):
                moved[core][index] = _paid(moved[core][index], sharers[part], line_bytes).sum()
        reading.append((reads, lines, sharers, line_bytes))
    moved = [np.cumsum(amounts) for amounts in moved]
    for reads, lines, sharers, line_bytes in reading:
        _reads(trace, chip, reads, lines, sharers, line_bytes, moved, hbm, cold)
    for core, events in enumerate(trace.cores):
        writes = copies[core] & (events["written"] != 0) & (events["argument"] != WORKSPACE)
        hbm[core][writes] = _moved_bytes(events[writes], chip) * cold
    return Traffic(hbm)


def _moves(events: Array) -> Array:
    return np.asarray((events["kind"] == Kind.COPY) | (events["kind"] == Kind.OPERAND))


def _copied(events: Array) -> Array:
    """Return the bytes that each event copies."""
    return np.asarray(np.where(_moves(events), events["piece_bytes"] * events["pieces"].astype(np.float64), 0.0))


def _pairs(copies: list[Array], trace: Trace) -> zip[tuple[Array, Array]]:
    return zip(copies, trace.cores, strict=True)


def _cold_share(trace: Trace, chip: Chip) -> float:
    """Return the part of a working set that a full L2 does not hold."""
    return max(0.0, 1.0 - chip.l2_bytes / max(1, trace.minimal_bytes))


def _moved_bytes(events: Array, chip: Chip) -> Array:
    """Return the bytes of copies; pieces that lie apart move whole sectors."""
    piece = events["piece_bytes"].astype(np.float64)
    apart = (events["pieces"] > 1) & (events["stride"] > events["piece_bytes"])
    sectors = np.ceil(piece / chip.sector_bytes) * chip.sector_bytes
    room = np.maximum(events["stride"].astype(np.float64), piece)
    return np.asarray(np.where(apart, np.minimum(sectors, room), piece) * events["pieces"])


def _line_bytes(trace: Trace, chip: Chip, argument: int, reads: list[Array]) -> int:
    """Return how many bytes a line counts: the shortest piece's where others lie between, as of heads of a cache.

    A copy of the next head reads the other part of a line, which has not come with the first.
    """
    shortest = chip.line_bytes
    for core, indices in enumerate(reads):
        events = trace.cores[core][indices]
        apart = events[(events["pieces"] > 1) & (events["stride"] > events["piece_bytes"])]
        shortest = min(shortest, int(apart["piece_bytes"].min(initial=shortest)))
    shortest = max(chip.sector_bytes, 1 << max(0, shortest.bit_length() - 1))
    return shortest if trace.arguments[argument].bytes // shortest < _MOST_LINES else chip.line_bytes


def _lines(event: Array, line_bytes: int) -> Array | slice:
    """Return the lines that a copy touches."""
    begin, piece, pieces, stride = (int(event[key]) for key in ("offset", "piece_bytes", "pieces", "stride"))
    if pieces == 1 or stride < piece + line_bytes:
        return slice(begin // line_bytes, (begin + (pieces - 1) * stride + piece - 1) // line_bytes + 1)
    first = (begin + np.arange(pieces, dtype=np.int64) * stride) // line_bytes
    last = (begin + np.arange(pieces, dtype=np.int64) * stride + piece - 1) // line_bytes
    most = int((last - first).max()) + 1
    if most == 1:
        return first
    grid = first[:, None] + np.arange(most)
    return np.asarray(grid[grid <= last[:, None]])


def _read_lines(
    trace: Trace, line_bytes: int, argument: int, reads: list[Array]
) -> tuple[list[list[Array | slice]], Array]:
    """Return the lines that each core reads, and how many cores read each line of the argument."""
    size = trace.arguments[argument].bytes // line_bytes + 2
    sharers = np.zeros(size, np.int32)
    lines: list[list[Array | slice]] = []
    for core, indices in enumerate(reads):
        events = trace.cores[core]
        mine = [_lines(events[index], line_bytes) for index in indices]
        seen = np.zeros(size, bool)
        for part in mine:
            seen[part] = True
        sharers += seen
        lines.append(mine)
    return lines, sharers


def _paid(size: float, sharers: Array, line_bytes: int) -> Array:
    """Return the bytes that each line of a copy pays for: its own, or its share of the line if others read the same."""
    return np.minimum(size / max(1, len(sharers)), line_bytes / sharers)


def _reads(
    trace: Trace,
    chip: Chip,
    reads: list[Array],
    lines: list[list[Array | slice]],
    sharers: Array,
    line_bytes: int,
    moved: list[Array],
    hbm: list[Array],
    cold: float,
) -> None:
    active = sum(len(events) > 0 for events in trace.cores)
    for core, indices in enumerate(reads):
        if not len(indices):
            continue
        last_byte = np.full(len(sharers), -np.inf)
        sizes = _moved_bytes(trace.cores[core][indices], chip)
        for size, index, part in zip(sizes, indices, lines[core], strict=True):
            # Evicted lines are fetched again. The other cores move as much in the meantime.
            new = (moved[core][index] - last_byte[part]) * active > chip.l2_bytes
            last_byte[part] = moved[core][index]
            # Round to steps: cores whose rows lie a little differently stay alike. Less than a line does not matter.
            share = (new * _paid(size, sharers[part], line_bytes)).sum() / size if size > line_bytes else 1.0
            hbm[core][index] = size * round(share * _STEPS) / _STEPS * cold
