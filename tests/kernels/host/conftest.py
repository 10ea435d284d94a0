"""Fixtures of the host layer's tests."""

import pytest

from tests.kernels.host.module import writes_loops


@pytest.fixture
def _loops():
    """For tests of what is compiled."""
    if not writes_loops():
        pytest.skip("this vector unit has no loops")
