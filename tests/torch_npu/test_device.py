"""Streams, memory, views and what is refused: an operator of this library beside those of torch_npu."""

import gc

import pytest

torch = pytest.importorskip("torch")
torch_npu = pytest.importorskip("torch_npu")
pytestmark = pytest.mark.clients

from ms_ascend_ops import aclnn
from ms_ascend_ops.torch import npu
from ms_ascend_ops.torch.registration import Operator, operators

fused = torch.ops.ms_ascend_ops


@pytest.fixture
def described(monkeypatch):
    """What is said of tensors to CANN: their strides and addresses."""
    found, create = [], aclnn._create

    def seen(description, address):
        found.append((tuple(description[3]), address))
        return create(description, address)

    monkeypatch.setattr(aclnn, "_create", seen)
    return found


def test_the_tensors_memory_is_what_the_kernel_gets(described):
    x = torch.randn(4, 16).npu()
    y = fused.gelu(x)
    assert [address for _, address in described] == [x.data_ptr(), y.data_ptr()]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_view_keeps_its_strides(described, dtype):
    gate, up = torch.randn(5, 3).to(dtype).npu().T, torch.randn(3, 9).to(dtype).npu()[:, 2:7]
    y = fused.silu_mul(gate, up)
    assert [strides for strides, _ in described] == [(1, 3), (9, 1), (5, 1)]
    assert torch.equal(y.cpu(), fused.silu_mul(gate.cpu(), up.cpu()))


def test_the_current_stream():
    """In order with PyTorch's operators of that stream; another stream has work of its own meanwhile."""
    x, other = torch.randn(64, 256).npu(), torch.randn(64, 256).npu()
    stream = torch.npu.Stream()
    stream.wait_stream(torch.npu.current_stream())
    busy = other @ other.T
    with torch.npu.stream(stream):
        y = fused.gelu(x * 2) + 1
    busy = busy + 1
    torch.npu.current_stream().wait_stream(stream)
    torch.testing.assert_close(y.cpu(), fused.gelu(2 * x.cpu()) + 1, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(busy.cpu(), other.cpu() @ other.cpu().T + 1, rtol=1e-4, atol=1e-3)


def test_a_second_call_goes_through_the_queue(monkeypatch):
    """In order with PyTorch's own operators, which are in it, too; a workspace that goes at once is not taken early."""
    add, matmul = Operator(operators()["add"].signature), Operator(operators()["matmul"].signature)
    x = torch.ones(64, 64).npu()
    assert [float(add.on_npu(x, x)[0, 0]), float(matmul.on_npu(x, x)[0, 0])] == [2, 64]
    monkeypatch.delattr(npu, "run")  # the first call is its own
    found = []
    for _ in range(5):
        found.append(matmul.on_npu(add.on_npu(x, x), x))
        x.add_(1)
    assert [float(value.max()) for value in found] == [float(value.min()) for value in found]
    assert [float(value[0, 0]) for value in found] == [64 * 2 * i * i for i in range(1, 6)]


def test_a_second_call_looks_at_the_layout():
    """A tensor in a layout of CANN's has the sizes and strides of one that has been added before."""
    x = torch.ones(16, 16, dtype=torch.float16).npu()
    other = torch_npu.empty_with_format((16, 16), dtype=torch.float16, device="npu", acl_format=29)
    for _ in range(2):
        assert torch.equal(fused.add(x, x).cpu(), torch.full((16, 16), 2.0, dtype=torch.float16))
        with pytest.raises(RuntimeError, match="add: y is in CANN's layout 29"):
            fused.add(x, other)


def test_a_second_call_without_memory():
    """The error is PyTorch's; what was asked for before is still computed."""
    x = torch.ones(1024, 1024).npu()
    assert [float(fused.add(x, x)[0, 0]) for _ in range(2)] == [2, 2]
    torch.npu.empty_cache()
    total = torch.npu.get_device_properties().total_memory
    torch.npu.set_per_process_memory_fraction((torch.npu.memory_reserved() + 2**20) / total)
    try:
        with pytest.raises(RuntimeError, match="NPU out of memory"):
            torch.stack([fused.add(x, x) for _ in range(1000)])
    finally:
        torch.npu.set_per_process_memory_fraction(1.0)
    assert float(fused.add(x, x)[0, 0]) == 2


def test_autocast():
    """As on a CPU: a product goes to the lower dtype, a sum to the widest that it gets."""
    a, b = torch.randn(4, 8), torch.randn(8, 4)
    with torch.autocast("npu", torch.bfloat16):
        product = fused.matmul(a.npu(), b.npu())
        total = fused.add(a.npu(), a.bfloat16().npu())
    assert (product.dtype, total.dtype) == (torch.bfloat16, torch.float32)
    assert torch.equal(product.cpu(), fused.matmul(a.bfloat16(), b.bfloat16()))


def test_no_memory_is_lost():
    a, b = torch.randn(64, 64).npu(), torch.randn(64, 64).npu()

    def in_use():
        gc.collect()
        torch.npu.synchronize()
        return torch.npu.memory_allocated()

    fused.matmul(a, b)
    before = in_use()
    for _ in range(100):
        fused.matmul(a, b)
    assert in_use() == before


def test_what_is_refused(monkeypatch):
    add, x = operators()["add"], torch.ones(4).npu()
    with pytest.raises(TypeError, match=r"add: y.dtype must"):
        npu.run(add, [x, x.half()], [])
    with pytest.raises(RuntimeError, match=r"add: y is on cpu, other tensors are on npu:0"):
        npu.run(add, [x, x.cpu()], [])
    with pytest.raises(TypeError, match=r"rms_norm: epsilon must"):
        npu.run(operators()["rms_norm"], [x, x], [[1e-6]])
    with monkeypatch.context() as changed:
        changed.setattr(npu, "_layout", lambda tensor: 29)
        with pytest.raises(RuntimeError, match=r"add: x is in CANN's layout 29; torch_npu.npu_format_cast\(x, 2\)"):
            npu.run(add, [x[None], x[None]], [])
    monkeypatch.setattr(npu, "_soc", lambda device: "ascend310p")
    npu._operator.cache_clear()
    npu._calls.clear()
    with pytest.raises(RuntimeError, match=r"was built for .+, but this chip is ascend310p"):
        npu.run(add, [x, x], [])
    npu._operator.cache_clear()


def test_what_the_package_refuses(monkeypatch):
    """The message has its reason, and no descriptor of a tensor is left."""
    alive, create, function = [], aclnn._create, aclnn.function

    def created(description, address):
        alive.append(create(description, address))
        return alive[-1]

    def called(name):
        return (lambda one: (alive.remove(one), function(name)(one))) if name == "aclDestroyTensor" else function(name)

    monkeypatch.setattr(aclnn, "_create", created)
    monkeypatch.setattr(aclnn, "function", called)
    attention = operators()["flash_attention"]
    monkeypatch.setattr(attention, "_check", None)  # which would refuse it before
    x = torch.ones(1, 1, 4, 8).npu()
    names = [attribute.name for attribute in attention.signature.attributes]
    values = [
        -1 if name == "window" else a.default for name, a in zip(names, attention.signature.attributes, strict=True)
    ]
    with pytest.raises(
        RuntimeError, match=r"GetWorkspaceSize returned \d+: .*window must be 0 \(all keys\) or more, got -1"
    ):
        npu.run(attention, [x, x, x, None], values)
    assert not alive
