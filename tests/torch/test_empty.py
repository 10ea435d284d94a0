"""Inputs without elements: what PyTorch itself has for them, forward and gradient."""

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.clients

from torch.nn import functional

import ms_ascend_ops.torch as fused


def attention(query, key, value, mask=None, causal=False):
    return fused.flash_attention(query, key, value, mask, 1.0, causal)[0]


def rotary(x, cos, sin):
    return fused.rotary_embedding(x, cos, sin, "half", "BSND")


def mean(logits):
    return fused.cross_entropy(logits, torch.zeros(0, dtype=torch.int32))


def no_mask(x, mask):
    return torch.softmax(x + mask, -1)


def norm(x, weight):
    return fused.rms_norm(x, weight)[0]


def gated(x, gate, up):
    return functional.silu(x @ gate.T) * (x @ up.T)


ZEROS = None  # of PyTorch nothing that has the same arguments: results and gradients are zeros
CASES = [
    (fused.matmul, torch.matmul, [(3, 0), (0, 4)]),
    (fused.matmul, torch.matmul, [(0, 3), (3, 4)]),
    (fused.matmul, torch.matmul, [(2, 3, 0), (0, 4)]),
    (fused.matmul, torch.matmul, [(2, 3, 0), (2, 0, 4)]),
    (fused.matmul, lambda x, w, b: x @ w + b, [(2, 3, 0), (0, 4), (4,)]),
    (fused.linear_silu_mul, gated, [(2, 3, 0), (9, 0), (9, 0)]),
    (fused.linear_silu_mul, gated, [(2, 0, 5), (9, 5), (9, 5)]),
    (fused.linear_gelu_mul, ZEROS, [(0,), (9, 0), (9, 0)]),
    (fused.scaled_masked_softmax, no_mask, [(4, 0, 16), (1, 16)]),
    (rotary, ZEROS, [(2, 3, 0, 10), (3, 5), (3, 5)]),
    (rotary, ZEROS, [(0, 3, 2, 10), (3, 5), (3, 5)]),
    (attention, ZEROS, [(0, 2, 3, 8), (0, 2, 5, 8), (0, 2, 5, 8), (1, 1, 3, 5)]),
    (attention, ZEROS, [(2, 0, 3, 8), (2, 1, 5, 8), (2, 1, 5, 8), (2, 1, 3, 5)]),
    (attention, ZEROS, [(2, 2, 0, 8), (2, 2, 5, 8), (2, 2, 5, 8), (1, 2, 1, 5)]),
    (attention, ZEROS, [(2, 2, 3, 8), (2, 2, 0, 8), (2, 2, 0, 8), (1, 1, 3, 0)]),
    (attention, ZEROS, [(2, 2, 3, 8), (2, 2, 5, 8), (2, 2, 5, 0), (1, 1, 3, 5)]),
    (norm, lambda x, w: functional.rms_norm(x, (4,), w, 1e-6), [(0, 4), (4,)]),
    (mean, lambda x: functional.cross_entropy(x, torch.zeros(0, dtype=torch.long)), [(0, 9)]),
]  # fmt: skip


@pytest.mark.parametrize(("ours", "theirs", "shapes"), CASES)
def test_same_as_pytorchs(ours, theirs, shapes):
    results = []
    for function in (ours, theirs):
        if function is None:
            results.append([torch.zeros_like(value) for value in results[0]])
            continue
        inputs = [torch.ones(shape, requires_grad=True) for shape in shapes]
        y = function(*inputs)
        y.sum().backward()
        results.append([y.detach(), *(value.grad for value in inputs)])
    for got, wanted in zip(*results, strict=True):
        torch.testing.assert_close(got, wanted, equal_nan=True)
