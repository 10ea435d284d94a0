"""This library's operators on tensors of torch_npu: results of a CPU and MindSpore, also compiled, on two devices."""

import subprocess
import sys

import numpy as np
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


@every_operator
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # of opcheck's own
def test_opcheck(example):
    differentiable = registry.op_spec(example.name).differentiable
    tensors = on("npu", example.tensors())
    for tensor, spec in zip(tensors, example.signature.inputs, strict=True):
        if tensor is not None and spec.name in differentiable:
            tensor.requires_grad_()
    # Its fourth check knows CPU, CUDA and XPU alone; gradients are compared above.
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(example.operator, [*tensors, *example.attributes], test_utils=checks)


@every_operator
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled(example, backend):
    if example.signature.writes:
        pytest.skip("its inputs change from call to call")
    tensors, operator, attributes = on("npu", example.tensors()), example.operator, example.attributes
    torch._dynamo.reset()

    @torch.compile(fullgraph=True, backend=backend)
    def call(*tensors):
        return operator(*tensors, *attributes)

    expected = results(operator(*tensors, *attributes))
    for found, wanted in zip(results(call(*tensors)), expected, strict=True):
        assert torch.equal(found, wanted)


@pytest.fixture(scope="module")
def of_mindspore(tmp_path_factory):
    """Results of a process that has MindSpore on an emulated device of the same chip."""
    path = tmp_path_factory.mktemp("mindspore") / "results.npz"
    script = [sys.executable, "-m", "tests.torch_npu.mindspore_results", str(path)]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return np.load(path)


@every_operator
def test_the_bits_of_mindspore(example, of_mindspore):
    found = [value.cpu().numpy() for value in example.of_torch(device="npu")]
    assert sum(key.rpartition(" ")[0] == str(example) for key in of_mindspore) == len(found)
    for i, value in enumerate(found):
        assert value.tobytes() == of_mindspore[f"{example} {i}"].tobytes()


@pytest.mark.skipif("torch.npu.device_count() < 2", reason="emulate --devices 2")
def test_the_second_device():
    """An operator runs where its tensors are, whichever device is current; tensors of both are refused."""
    x, gamma = torch.randn(4, 16), torch.linspace(0.5, 1.5, 16)
    there = [x.to("npu:1").requires_grad_(), gamma.to("npu:1")]
    y = torch.ops.ms_ascend_ops.rms_norm(*there)[0]
    y.sum().backward()
    assert y.device == there[0].grad.device == torch.device("npu:1")
    assert torch.npu.current_device() == 0
    here = [x.npu().requires_grad_(), gamma.npu()]
    with torch.npu.device(1):
        expected = torch.ops.ms_ascend_ops.rms_norm(*here)[0]
        expected.sum().backward()
    assert expected.device == torch.device("npu:0")
    assert torch.equal(y.cpu(), expected.cpu())
    assert torch.equal(there[0].grad.cpu(), here[0].grad.cpu())
    for x, gamma in ([there[0].detach(), there[1]], [here[0].detach(), here[1]]) * 2:  # from the devices' queues
        assert torch.equal(torch.ops.ms_ascend_ops.rms_norm(x, gamma)[0].cpu(), expected.cpu())
    torch.npu.synchronize("npu:1")
    with pytest.raises(RuntimeError, match=r"gamma is on npu:0, other tensors are on npu:1"):
        torch.ops.ms_ascend_ops.rms_norm(there[0], here[1])
