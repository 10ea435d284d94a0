import pytest

from ms_ascend_ops.profiler.record import Recorder
from tests import traced


@pytest.fixture(scope="session")
def recorder():
    """The traced library, built if need be; what is profiled meanwhile takes the same."""
    library = traced.build()
    with pytest.MonkeyPatch.context() as patch, Recorder(library) as found:
        patch.setenv("MS_ASCEND_OPS_TRACED_LIBRARY", str(library))
        yield found
