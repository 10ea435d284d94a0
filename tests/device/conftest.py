from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.device.acl import VARIABLES, Acl


@pytest.fixture(scope="session")
def acl() -> Iterator[Acl]:
    """The runtime in this process, with one device."""
    acl = Acl()
    with pytest.MonkeyPatch.context() as environment:
        for name, value in VARIABLES.items():
            environment.setenv(name, value)
        acl.aclInit(None)
        acl.SetDevice(0)
    yield acl
    acl.ResetDevice(0)
    acl.aclFinalize()
