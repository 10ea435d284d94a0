"""Some calls of an installation with PyTorch and without MindSpore."""

from importlib.util import find_spec

import numpy as np
import torch

import ms_ascend_ops
from ms_ascend_ops.torch import RMSNorm, optimize, silu_mul

assert find_spec("mindspore") is None
assert int(np.__version__.split(".")[0]) >= 2
assert "RMSNorm" not in dir(ms_ascend_ops)
torch.manual_seed(0)
x, up = torch.randn(3, 64, requires_grad=True), torch.randn(3, 64)
exact = torch.nn.functional.rms_norm(x, (64,), eps=1e-6)
assert torch.allclose(RMSNorm(64, eps=1e-6)(x), exact, atol=1e-6)
y = silu_mul(x, up)
assert torch.allclose(y, torch.nn.functional.silu(x) * up, atol=1e-6)
(dx,) = torch.autograd.grad(y.sum(), x)
assert torch.allclose(dx, torch.autograd.grad((torch.nn.functional.silu(x) * up).sum(), x)[0], atol=1e-6)
assert torch.allclose(torch.ops.ms_ascend_ops.silu_mul(x, up), y, atol=0)


class Stock(torch.nn.Module):
    def forward(self, gate, up):
        return torch.nn.functional.silu(gate) * up


assert len(optimize(Stock(), (x, up)).replaced) == 1
print(f"calls agree: {ms_ascend_ops.__file__}")
