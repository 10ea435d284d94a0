"""Operators through aclnn, against libraries that look like CANN's: memory of the CPU poses as that of an NPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.clients

from ms_ascend_ops import registry
from ms_ascend_ops.torch import npu
from ms_ascend_ops.torch.registration import operators
from tests.torch import fake_cann
from tests.torch.examples import every_operator
from tests.torch.fake_cann import FakeCann

STREAM = 0x5EA


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    return FakeCann(tmp_path_factory.mktemp("cann"), registry.names())


@pytest.fixture
def cann(libraries, monkeypatch):
    for name, value in libraries.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(npu, "_layout", lambda tensor: 2)
    monkeypatch.setattr(npu, "_soc", lambda device: libraries.soc)
    monkeypatch.setattr(npu, "_stream", lambda device: STREAM)
    libraries.calls.clear()
    libraries.refuse(0)
    yield libraries
    npu._operator.cache_clear()
    fake_cann.forget()


def results(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


@every_operator
def test_a_launch(example, cann):
    """What is handed over, and that the results are those of a CPU."""
    signature, tensors = example.signature, example.tensors()
    expected = results(example.operator(*[t if t is None else t.clone() for t in tensors], *example.attributes))
    given = [t if t is None else t.clone() for t in tensors]
    found = results(npu.run(operators()[example.name], given, example.attributes))
    ((name, arguments, (workspace, size), stream),) = cann.calls
    assert name == example.name
    assert stream == STREAM
    assert workspace
    assert size == 4096
    assert cann.alive == 0
    count, attributes = len(signature.inputs), signature.attributes
    for argument, tensor in zip(arguments[:count], given, strict=True):
        assert (argument is None) == (tensor is None)
        if tensor is not None:
            assert argument["shape"] == list(tensor.shape)
            assert argument["address"] == tensor.data_ptr()
    for spec, value, wanted in zip(attributes, arguments[count:], example.attributes, strict=False):
        assert value == (spec.choices.index(wanted) if spec.choices else pytest.approx(wanted, abs=1e-6))
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b)
    for a, b, spec in zip(given, tensors, signature.inputs, strict=True):
        assert a is None or torch.equal(a, b) == (spec.name not in signature.writes)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_view_keeps_its_strides(dtype, cann):
    gate, up = torch.randn(5, 3).to(dtype).T, torch.randn(3, 9).to(dtype)[:, 2:7]
    y = npu.run(operators()["silu_mul"], [gate, up], [])
    given = cann.calls[0][1]
    assert [tensor["strides"] for tensor in given] == [[1, 3], [9, 1], [5, 1]]
    assert [tensor["storage"] for tensor in given] == [[15], [23], [15]]
    assert {tensor["dtype"] for tensor in given} == {1 if dtype is torch.float16 else 27}
    assert torch.equal(y, operators()["silu_mul"].run(gate, up))


def test_what_is_refused(cann, monkeypatch):
    add, x = operators()["add"], torch.ones(4)
    with pytest.raises(TypeError, match=r"add: y.dtype must"):
        npu.run(add, [x, x.half()], [])
    with pytest.raises(RuntimeError, match=r"add: y is on meta, other tensors are on cpu"):
        npu.run(add, [x, x.to("meta")], [])
    cann.refuse(161002)
    message = r"add: aclnnMsAscendOpsAddGetWorkspaceSize returned 161002: EZ9999: the fake refuses"
    with pytest.raises(RuntimeError, match=message):
        npu.run(add, [x, x], [])
    assert cann.alive == 0
    monkeypatch.setattr(npu, "_layout", lambda tensor: 29)
    with pytest.raises(RuntimeError, match=r"add: x is in CANN's layout 29; torch_npu.npu_format_cast\(x, 2\)"):
        npu.run(add, [x, x], [])
    monkeypatch.setattr(npu, "_layout", lambda tensor: 0)
    monkeypatch.setattr(npu, "_soc", lambda device: "ascend310p")
    with pytest.raises(RuntimeError, match=r"was built for ascend910b, but this chip is ascend310p"):
        npu.run(add, [x, x], [])


def test_through_the_dispatcher(tmp_path):
    """Tensors of a device of that name, in a process of their own, as PyTorch keeps the name: gradient and autocast."""
    command = [sys.executable, "-m", "tests.torch.npu_dispatch", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2], env=environment
    )
    if "no Python backend" in done.stdout:
        pytest.skip("this PyTorch cannot have a device without C++")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["silu_mul", "silu_mul_grad", "matmul", "add"]
