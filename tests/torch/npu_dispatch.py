"""A process whose PyTorch has a device "npu": `python -m tests.torch.npu_dispatch FOLDER` prints the launches."""

import importlib
import sys
import types
from pathlib import Path

import torch
from torch.utils import backend_registration

from tests.torch.fake_cann import FakeCann

STREAM = 0x5EA


class NpuTensor(torch.Tensor):
    """One that says it is on that device; its memory is that of a tensor on the CPU."""

    @staticmethod
    def __new__(cls, memory):
        tensor = torch._C._acc.create_empty_tensor(memory.shape, memory.dtype)
        tensor.__class__ = cls
        return tensor

    def __init__(self, memory):
        self.memory = memory

    def data_ptr(self):
        return self.memory.data_ptr()


class Module(backend_registration._DummyBackendModule):
    """torch.npu."""

    @staticmethod
    def get_device_name(device):
        return "Ascend910B4"

    @staticmethod
    def current_stream(device):
        return types.SimpleNamespace(npu_stream=STREAM)

    @staticmethod
    def get_amp_supported_dtype():
        return [torch.float16, torch.bfloat16]


def implement(name):
    return torch.library.impl(f"aten::{name}", "PrivateUse1")


def start():
    backend_registration._setup_privateuseone_for_python_backend("npu", Module())
    sys.modules["torch_npu"] = types.SimpleNamespace(get_npu_format=lambda tensor: 2)

    @implement("empty.memory_format")
    def empty(size, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
        return NpuTensor(torch.empty(size, dtype=dtype))

    @implement("detach")
    def detach(tensor):
        return NpuTensor(tensor.memory)

    @implement("_to_copy")
    def to_copy(tensor, dtype=None, **options):
        return NpuTensor(tensor.memory.to(dtype))


def main():
    if not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"):
        print("no Python backend")
        return
    start()
    fused = importlib.import_module("ms_ascend_ops.torch")

    cann = FakeCann(Path(sys.argv[1]), ["silu_mul", "matmul", "add"])
    cann.enter()
    values = [torch.randn(3, 8, requires_grad=True) for _ in range(2)]
    gate, up = (NpuTensor(value.detach()).requires_grad_() for value in values)
    dy = torch.randn(3, 8)
    expected = torch.autograd.grad(fused.silu_mul(*values), values, dy)
    found = torch.autograd.grad(fused.silu_mul(gate, up), (gate, up), NpuTensor(dy))
    assert all(torch.equal(a.memory, b) for a, b in zip(found, expected, strict=True))

    x, weight = torch.randn(2, 4), torch.randn(4, 3)
    with torch.autocast("npu", torch.bfloat16):
        y = fused.matmul(NpuTensor(x), NpuTensor(weight))
        total = fused.add(NpuTensor(x), NpuTensor(x.bfloat16()))
    assert y.dtype is torch.bfloat16
    assert torch.equal(y.memory, fused.matmul(x.bfloat16(), weight.bfloat16()))
    assert total.dtype is torch.float32
    assert {call[3] for call in cann.calls} == {STREAM}
    print(*[call[0] for call in cann.calls])


if __name__ == "__main__":
    main()
