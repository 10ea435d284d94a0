"""What a MindSpore cannot run, of tests that compare with its own operators."""

import pytest

from ms_ascend_ops.mindspore_versions import FAULTS, has_fault

_REASONS = {fault.name: fault.remedy for fault in FAULTS}


def without(fault):
    """Skips where MindSpore has a fault of `mindspore_versions.FAULTS`."""
    return pytest.mark.skipif(has_fault(fault), reason=f"MindSpore's fault {fault}: {_REASONS[fault]}")


BFLOAT16 = pytest.param("bfloat16", marks=without("bfloat16 on a CPU"))
