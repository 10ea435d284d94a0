"""Fixtures of the host layer's tests."""

import pytest

from tests.kernels.host.module import writes_loops


@pytest.fixture
def _loops():
    """For tests of what is compiled.

    `build.sh portable` runs them with each vector unit, and that of x86-64-v2 has no IR (WritesLoops in loop_ir.h).
    """
    if not writes_loops():
        pytest.skip("this vector unit has no loops")
