"""This library's operators on tensors of torch_npu: the results of a CPU, in the current stream, without copies."""

import pytest

torch = pytest.importorskip("torch")
torch_npu = pytest.importorskip("torch_npu")
pytestmark = pytest.mark.clients

from ms_ascend_ops import registry
from tests.acceptance import assert_close
from tests.torch.examples import every_operator


def on(device, tensors):
    return [tensor if tensor is None else tensor.detach().to(device) for tensor in tensors]


def results(value):
    return [*value] if isinstance(value, (tuple, list)) else [value]


@every_operator
def test_forward(example):
    given = {device: on(device, example.tensors()) for device in ("cpu", "npu")}
    made = {device: results(example.operator(*tensors, *example.attributes)) for device, tensors in given.items()}
    written = [i for i, spec in enumerate(example.signature.inputs) if spec.name in example.signature.writes]
    for device in given:
        made[device] += [given[device][i] for i in written]
    for found, wanted in zip(made["npu"], made["cpu"], strict=True):
        assert found.device.type == "npu"
        assert_close(found.cpu().float(), wanted.float(), rtol=1e-5)


@every_operator
def test_gradient(example):
    if not registry.op_spec(example.name).differentiable:
        pytest.skip("it has no gradient")
    gradients = []
    for device in ("cpu", "npu"):
        tensors = on(device, example.tensors())
        leaves = []
        for tensor, spec in zip(tensors, example.signature.inputs, strict=True):
            if tensor is not None and spec.name in registry.op_spec(example.name).differentiable:
                leaves.append(tensor.requires_grad_())
        y = results(example.operator(*tensors, *example.attributes))[0]
        weights = torch.linspace(0.5, 1.5, y.numel()).reshape(y.shape).to(device)
        gradients.append(torch.autograd.grad((y * weights).sum(), leaves))
    for wanted, found in zip(*gradients, strict=True):
        assert_close(found.cpu(), wanted, rtol=1e-5)
