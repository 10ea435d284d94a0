"""Streams, memory and devices: an operator of this library beside those of torch_npu."""

import gc

import pytest

torch = pytest.importorskip("torch")
torch_npu = pytest.importorskip("torch_npu")
pytestmark = pytest.mark.clients

from ms_ascend_ops.torch import npu


def run(x):
    return torch.ops.ms_ascend_ops.gelu(x)


def test_the_tensors_memory_is_what_the_kernel_gets(monkeypatch):
    described = []
    describe = npu._described

    def seen(operator, tensor):
        described.append(describe(operator, tensor))
        return described[-1]

    monkeypatch.setattr(npu, "_described", seen)
    x = torch.randn(4, 16).npu()
    y = run(x)
    assert [one.address for one in described] == [x.data_ptr(), y.data_ptr()]


def test_the_current_stream():
    """In order with PyTorch's operators of that stream; another stream has work of its own meanwhile."""
    x, other = torch.randn(64, 256).npu(), torch.randn(64, 256).npu()
    stream = torch.npu.Stream()
    stream.wait_stream(torch.npu.current_stream())
    busy = other @ other.T
    with torch.npu.stream(stream):
        y = run(x * 2) + 1
    busy = busy + 1
    torch.npu.current_stream().wait_stream(stream)
    torch.testing.assert_close(y.cpu(), run(2 * x.cpu()) + 1, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(busy.cpu(), other.cpu() @ other.cpu().T + 1, rtol=1e-4, atol=1e-3)


def test_a_view_and_autocast():
    x = torch.randn(16, 8)
    torch.testing.assert_close(run(x.npu().T).cpu(), run(x.T), rtol=1e-5, atol=1e-5)
    a, b = torch.randn(4, 8), torch.randn(8, 4)
    with torch.autocast("npu", torch.float16):
        y = torch.ops.ms_ascend_ops.matmul(a.npu(), b.npu())
    assert y.dtype is torch.float16
    torch.testing.assert_close(y.cpu().float(), a @ b, rtol=1e-2, atol=1e-2)


def test_no_memory_is_lost():
    a, b = torch.randn(64, 64).npu(), torch.randn(64, 64).npu()

    def in_use():
        gc.collect()
        torch.npu.synchronize()
        return torch.npu.memory_allocated()

    torch.ops.ms_ascend_ops.matmul(a, b)
    before = in_use()
    for _ in range(100):
        torch.ops.ms_ascend_ops.matmul(a, b)
    assert in_use() == before


def test_on_two_devices_at_once_is_refused():
    with pytest.raises(RuntimeError, match=r"add: y is on cpu, other tensors are on npu:0"):
        npu.run(*add_of(torch.ones(4).npu(), torch.ones(4)))


def add_of(*tensors):
    from ms_ascend_ops.torch.registration import operators  # noqa: PLC0415

    return operators()["add"], tensors, []
