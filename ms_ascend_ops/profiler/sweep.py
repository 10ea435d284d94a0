"""Tries other tilings of a kernel: which of them the model finds fastest.

A tiling is changed from outside, without touching the kernel: the platform that its tiling function is told (cores,
bytes of the Unified Buffer), the number of buffers in its queues, or a field of its tiling data. The kernel runs with
every one of them, and one that changes the results is no candidate.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ms_ascend_ops.profiler.launches import Case, Profile, profile
from ms_ascend_ops.profiler.program import ProgramError
from ms_ascend_ops.profiler.record import Recorder, RecordError

__all__ = ["Attempt", "cases", "default_axes", "sweep"]

_ROUNDINGS = 64  # of the results: sums in another order differ by a few
_PLATFORM = {"cores": "cores", "ub_bytes": "ub_bytes", "buffers": "buffers"}


@dataclass
class Attempt:
    """Holds one tiling: its profile, or why there is none."""

    case: Case
    profile: Profile | None
    problem: str = ""


def default_axes(base: Profile) -> dict[str, list[int]]:
    """Returns what to try by default: parts of the Unified Buffer, buffers, cores, and the size of a tile."""
    ub = base.chip.ub_bytes
    axes = {"ub_bytes": [ub * part // 8 // 32 * 32 for part in (2, 3, 4, 6, 8)], "buffers": [1, 2]}
    rows = int(base.trace.tiling.get("tileRows", 0))
    if rows > 1:
        axes["tileRows"] = sorted({max(1, rows // 4), max(1, rows // 2), rows})
    return axes


def cases(base: Case, axes: Mapping[str, Sequence[int]]) -> Iterable[Case]:
    """Yield all combinations."""
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        platform = {_PLATFORM[name]: value for name, value in chosen.items() if name in _PLATFORM}
        tiling = {name: value for name, value in chosen.items() if name not in _PLATFORM}
        yield base.changed(**platform, tiling={**base.tiling, **tiling})


def sweep(
    base: Profile, axes: Mapping[str, Sequence[int]], recorder: Recorder, tell: Callable[[], None] = lambda: None
) -> list[Attempt]:
    """Try all combinations; the fastest first, what cannot be last. `tell` is called after each.

    Raises:
        ValueError: the kernel's tiling has no such field.
    """
    known = [*_PLATFORM, *base.trace.tiling]
    if unknown := [name for name in axes if name not in known]:
        raise ValueError(f"{base.case.kernel}: nothing is called {unknown[0]}; there are {', '.join(known)}")
    profile(base.case, recorder, executes=True, is_reference=True)
    attempts = []
    for case in cases(base.case, axes):
        attempts.append(_attempt(case, base, recorder))
        tell()
    return sorted(attempts, key=lambda a: a.profile.prediction.us if a.profile else float("inf"))


def _attempt(case: Case, base: Profile, recorder: Recorder) -> Attempt:
    try:
        found = profile(case, recorder, executes=True)
    except (RecordError, ProgramError, ValueError) as error:
        return Attempt(case, None, str(error))
    if found.difference > _ROUNDINGS:
        return Attempt(case, None, "it changes the results")
    return Attempt(case, found)
