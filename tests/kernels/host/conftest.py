"""Fixtures of the host layer's tests."""

import pytest

from ms_ascend_ops.loop_compiler import LoopCompiler
from tests.kernels.host.module import host_calls, writes_loops


@pytest.fixture
def _loops():
    """For tests of what is compiled.

    `build.sh portable` runs them with each vector unit, and that of x86-64-v2 has no IR (WritesLoops in loop_ir.h).
    """
    if not writes_loops():
        pytest.skip("this vector unit has no loops")


@pytest.fixture
def draws(request):
    """Which of so many random programs run: with `--cases one` the first fifth, for sanitizers the first third.

    An emulated CPU has instructions and loops of its own, and the same C++ as all others makes their schedules.
    """
    share = {"one": 5, "few": 3}.get(request.config.getoption("cases"), 1)
    return lambda programs: range(-(-programs // share))


@pytest.fixture(scope="module")
def compiler():
    return LoopCompiler(host_calls())


@pytest.fixture
def _streaming():
    """Every launch is so large that its outputs bypass the caches."""
    host_calls().set_non_temporal_bytes(1)
    yield
    host_calls().set_non_temporal_bytes(0)
