"""Tests on tensors of torch_npu: `python -m ms_ascend_ops emulate -m pytest -m clients tests/torch_npu`."""

import pytest


@pytest.fixture(autouse=True)
def nothing_is_left():
    """What a test has put into the streams has run, so that a fault is that of the test that made it."""
    yield
    import torch  # noqa: PLC0415

    torch.npu.synchronize()
