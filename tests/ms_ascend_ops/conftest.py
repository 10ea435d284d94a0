import pytest

from ms_ascend_ops.profiler.record import Recorder, build


@pytest.fixture(scope="session")
def recorder():
    """The traced library, built if need be."""
    with Recorder(build(print)) as found:
        yield found
