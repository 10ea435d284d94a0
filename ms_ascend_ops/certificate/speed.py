"""Measures how long an operator takes here beside its peers, and predicts how long on a chip."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from ms_ascend_ops.certificate.finding import Finding

__all__ = ["predictions", "speed"]

_PEERS = ("library", "mindspore", "stock", "torch")


def speed(
    name: str, dtypes: list[str], tolerance: float, quick: bool, tell: Callable[[str], None]
) -> Iterator[Finding]:
    """Run the benchmark, in short; judged as its gate does it."""
    from ms_ascend_ops.benchmarks.harness import Sampling, measure
    from ms_ascend_ops.benchmarks.providers import PROVIDERS
    from ms_ascend_ops.benchmarks.report import COPIES
    from ms_ascend_ops.samples.cases import all_cases

    threads = len(os.sched_getaffinity(0))
    sampling = Sampling(rounds=5, timed_seconds=0.005, most_seconds=0.5)
    wanted = [dtype for dtype in dtypes if dtype in ("float32", "bfloat16")]
    cases, _ = all_cases([name], wanted)
    plain = next(iter(cases)).variant
    chosen = [case for case in cases if case.variant == plain]
    if quick:
        chosen = chosen[:1]
    for case in chosen:
        try:
            outcome = measure(case, [*COPIES, *_PEERS], threads, sampling, tell)
        except ValueError as error:
            yield Finding("speed", case.name, False, str(error))
            continue
        us = {key: 1e6 * result.median for key, result in outcome.results.items() if result.seconds}
        copy = outcome.fastest(list(COPIES))
        ours, stock = us.get("mindspore"), us.get("stock")
        figures: dict[str, Any] = {"us": us, "bytes": case.bytes, "threads": threads}
        if copy is not None and "library" in us:
            figures["share_of_memcpy"] = 1e6 * copy.median / us["library"]
        shown = ", ".join(f"{PROVIDERS[key].label} {value:,.1f} us" for key, value in us.items() if key in _PEERS)
        if ours is None or stock is None or case.bytes < 2**20:
            reason = (
                "below 1 MiB" if case.bytes < 2**20 else outcome.results["stock"].reason or "nothing to compare with"
            )
            yield Finding("speed", case.name, None, f"{reason}: {shown}", figures)
        else:
            yield Finding("speed", case.name, ours <= (1 + tolerance) * stock, shown, figures)


def predictions(name: str, dtypes: list[str], chip: str, quick: bool, tell: Callable[[str], None]) -> Iterator[Finding]:
    """Predict times on a chip, at the first shape of the profiler's survey. Nothing of it was measured."""
    from ms_ascend_ops.profiler.record import Recorder, RecordError, build
    from ms_ascend_ops.profiler.survey import survey, survey_cases, surveyed

    if name not in surveyed():
        yield Finding("prediction", name, None, "the profiler has no shapes for it")
        return
    cases = survey_cases(chip, [name])
    chosen = {(case.gradient, case.dtype): case for case in reversed(cases) if case.dtype in dtypes}
    kept = [case for case in reversed(chosen.values()) if not quick or not case.gradient]
    try:
        with Recorder(build(tell)) as recorder:
            for row in survey(kept[:1] if quick else kept, recorder):
                subject = f"{row.case} on {chip}"
                if row.prediction is None:
                    yield Finding("prediction", subject, False, row.problem)
                    continue
                one = row.prediction
                text = f"predicted {one.us:,.1f} us, {one.hbm_share:.0%} of the HBM bound, bound by {one.bound_by}"
                figures = {"us": one.us, "hbm_share": one.hbm_share, "ub_used_bytes": one.ub_used_bytes}
                figures |= {"ub_bytes": one.ub_bytes}
                yield Finding("prediction", subject, one.ub_used_bytes <= one.ub_bytes, text, figures)
    except RecordError as error:
        yield Finding("prediction", name, None, str(error))
