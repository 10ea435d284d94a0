import pytest

from tests.modes import synchronous


@pytest.fixture(autouse=True)
def _synchronous():
    with synchronous():
        yield
