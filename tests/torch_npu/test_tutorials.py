"""What tutorials of Ascend build with kernels of one's own, by this library's operators: values and gradients."""

import pytest

torch = pytest.importorskip("torch")
torch_npu = pytest.importorskip("torch_npu")
pytestmark = pytest.mark.clients

from torch.nn import functional

import ms_ascend_ops.torch as fused
from tests.acceptance import assert_accurate

NAMES = {torch.float16: "float16", torch.float32: "float32"}


def random(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def double(tensor):
    return tensor.detach().cpu().double().requires_grad_()


def assert_right(found, golden, dtype, terms=None):
    """Within the bounds of `ms_ascend_ops.acceptance`; `terms`: the sums of magnitudes, where sums cancel."""
    terms = None if terms is None else terms.detach().numpy()
    assert_accurate(found.detach().cpu().double().numpy(), golden.detach().numpy(), NAMES[dtype], terms)


class Gelu(torch.autograd.Function):
    """As one writes it around a kernel and the kernel of its gradient."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.ops.ms_ascend_ops.gelu(x)

    @staticmethod
    def backward(ctx, dy):
        return torch.ops.ms_ascend_ops.gelu_grad(dy, *ctx.saved_tensors)


@pytest.mark.parametrize("call", [fused.gelu, Gelu.apply, torch.ops.ms_ascend_ops.gelu], ids=["call", "own", "ops"])
def test_gelu(call):
    """2 x 512 x 1024 in float16; its values and gradient are computed in float32 and rounded once."""
    x, dy = random(2, 512, 1024, dtype=torch.float16), random(2, 512, 1024, dtype=torch.float16, seed=1)
    on_npu, golden_x = x.npu().requires_grad_(), double(x)
    y, golden = call(on_npu), functional.gelu(golden_x)
    y.backward(dy.npu())
    golden.backward(dy.double())
    assert_right(y, golden, torch.float16)
    largest = (on_npu.grad.cpu().double() - golden_x.grad).abs().max().item()
    assert largest < 2e-3  # half an ULP of float16 below 4
    error = (y.detach().cpu().double() - golden).abs().max().item()
    assert error < 2e-3


@pytest.mark.parametrize("groups", [1, 4, 32, 64])
def test_group_norm(groups):
    """The number of groups is known when it is called; x is 2 x 64 x 56 x 56."""
    x, dy = random(2, 64, 56, 56), random(2, 64, 56, 56, seed=1)
    gamma, beta = random(64, seed=2), random(64, seed=3)
    given = [tensor.npu().requires_grad_() for tensor in (x, gamma, beta)]
    golden_given = [double(tensor) for tensor in (x, gamma, beta)]
    y = fused.group_norm(*given, groups)[0]
    golden = functional.group_norm(golden_given[0], groups, *golden_given[1:])
    y.backward(dy.npu())
    golden.backward(dy.double())
    torch.testing.assert_close(y.cpu().double(), golden, rtol=1e-5, atol=1e-5)
    for found, wanted in zip(given, golden_given, strict=True):
        bound = 1e-5 * max(1.0, wanted.grad.abs().max().item())
        torch.testing.assert_close(found.grad.cpu().double(), wanted.grad, rtol=1e-5, atol=bound)


@pytest.mark.parametrize("dtype", list(NAMES))
def test_matmul(dtype):
    """1024 x 512 by 512 x 256 with the gradients of both factors; sums are in float32."""
    a, b, dy = (
        random(1024, 512, dtype=dtype),
        random(512, 256, dtype=dtype, seed=1),
        random(1024, 256, dtype=dtype, seed=2),
    )
    on_npu, golden = [a.npu().requires_grad_(), b.npu().requires_grad_()], [double(a), double(b)]
    y, wanted = torch.ops.ms_ascend_ops.matmul(*on_npu), golden[0] @ golden[1]
    y.backward(dy.npu())
    wanted.backward(dy.double())
    sizes = [tensor.double().abs() for tensor in (a, b, dy)]
    assert_right(y, wanted, dtype, sizes[0] @ sizes[1])
    assert_right(on_npu[0].grad, golden[0].grad, dtype, sizes[2] @ sizes[1].T)
    assert_right(on_npu[1].grad, golden[1].grad, dtype, sizes[0].T @ sizes[2])
