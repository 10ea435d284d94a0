"""Launches our kernels, prepared by `ms_ascend_ops._C` for arrays that are there already: the launches alone
are timed.
"""

from __future__ import annotations

from ms_ascend_ops.benchmarks.providers import Prepared
from ms_ascend_ops.samples.cases import Case

from ms_ascend_ops.library import native

__all__ = ["direct"]


def direct(case: Case, threads: int) -> Prepared:
    """Prepare forward, then gradient if the case has one, into the same outputs every time."""
    module = native()
    module.set_thread_num(threads)
    launches = [module.prepare(each.kernel, each.inputs, each.outputs, each.attributes) for each in case.launches]

    def all_of_them() -> None:
        for launch in launches:
            launch()

    return Prepared(launches[0] if len(launches) == 1 else all_of_them, lambda _: case.results)
