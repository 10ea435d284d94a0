"""Fixtures of the host layer's tests."""

import pytest

from tests.kernels.host.module import host_calls


@pytest.fixture
def _loops():
    """The oldest vector unit has none: there is nothing to compile."""
    if host_calls().VECTOR_UNIT == "x86-64-v2":
        pytest.skip("this vector unit has no loops")
