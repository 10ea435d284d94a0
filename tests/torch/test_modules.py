"""The layers: those of PyTorch with other kernels, and those that `kernelize` takes."""

import inspect
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.clients

from torch import nn

import ms_ascend_ops.torch as fused
from ms_ascend_ops.torch import layers


def group_norm_without_bias():
    """`bias=False` in PyTorch that has it."""
    layer = nn.GroupNorm(2, 6)
    layer.register_parameter("bias", None)
    return layer


PAIRS = [
    (lambda: fused.RMSNorm(16, 1e-5), lambda: nn.RMSNorm(16, 1e-5), (3, 16)),
    (lambda: fused.RMSNorm(16), lambda: nn.RMSNorm(16), (3, 16)),
    (lambda: fused.RMSNorm(16, elementwise_affine=False), lambda: nn.RMSNorm(16, elementwise_affine=False), (3, 16)),
    (lambda: fused.LayerNorm((4, 5)), lambda: nn.LayerNorm((4, 5)), (3, 4, 5)),
    (lambda: fused.LayerNorm(5, bias=False), lambda: nn.LayerNorm(5, bias=False), (3, 5)),
    (lambda: fused.LayerNorm(5, elementwise_affine=False), lambda: nn.LayerNorm(5, elementwise_affine=False), (3, 5)),
    (lambda: fused.GroupNorm(2, 6), lambda: nn.GroupNorm(2, 6), (2, 6, 3, 4)),
    (lambda: fused.GroupNorm(3, 6, affine=False), lambda: nn.GroupNorm(3, 6, affine=False), (2, 6, 5)),
    (lambda: fused.GroupNorm(2, 6, bias=False), group_norm_without_bias, (2, 6, 4)),
    (lambda: fused.GELU("tanh"), lambda: nn.GELU("tanh"), (3, 7)),
]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("affine", [True, False])
def test_an_eps_of_none_is_pytorchs(dtype, affine):
    """Where the mean square is about as small as it."""
    x = (3e-4 * torch.randn(5, 64, generator=torch.Generator().manual_seed(0))).to(dtype)
    ours, theirs = (layer(64, elementwise_affine=affine, dtype=dtype) for layer in (fused.RMSNorm, nn.RMSNorm))
    torch.testing.assert_close(ours(x), theirs(x))
    y, total = fused.AddRMSNorm(64, elementwise_affine=affine, dtype=dtype)(x, torch.zeros_like(x))
    torch.testing.assert_close(y, theirs(x))
    assert torch.equal(total, x)


@pytest.mark.parametrize("layer", [fused.RMSNorm, fused.LayerNorm, fused.GroupNorm, fused.GELU])
def test_defaults_are_those_of_the_class_that_is_replaced(layer):
    theirs = inspect.signature(layer.__mro__[1].__init__).parameters
    ours = inspect.signature(layer.__init__).parameters
    assert layer.__mro__[1].__module__.startswith("torch.nn")
    assert {name: ours[name].default for name in theirs} == {name: theirs[name].default for name in theirs}


@pytest.mark.parametrize(("ours", "theirs", "shape"), PAIRS)
def test_same_as_pytorchs(ours, theirs, shape):
    """Parameters, outputs and gradients."""
    torch.manual_seed(0)
    ours, theirs = ours(), theirs()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter)
    ours.load_state_dict(theirs.state_dict())
    assert isinstance(ours, type(theirs))
    x = torch.randn(shape, requires_grad=True)
    y = torch.randn(shape)
    gradients = []
    for layer in (ours, theirs):
        out = layer(x)
        gradients.append(torch.autograd.grad((out * y).sum(), [x, *layer.parameters()]))
        torch.testing.assert_close(out, theirs(x), rtol=1e-5, atol=1e-5)
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_gated_units():
    x = torch.randn(3, 8)
    gate, up = x.chunk(2, -1)
    torch.testing.assert_close(fused.SwiGLU()(x), nn.functional.silu(gate) * up)
    torch.testing.assert_close(fused.SwiGLU()(gate, up), nn.functional.silu(gate) * up)
    torch.testing.assert_close(fused.GEGLU()(x), gate * nn.functional.gelu(up))
    torch.testing.assert_close(
        fused.GEGLU(approximate="tanh")(gate, up), nn.functional.gelu(gate, approximate="tanh") * up
    )
    assert "interleaved=True" in repr(fused.SwiGLU(interleaved=True))


def test_norm_of_a_sum():
    norm, x, residual = fused.AddRMSNorm(8, 1e-5), torch.randn(3, 8), torch.randn(3, 8)
    y, total = norm(x, residual)
    assert torch.equal(total, x + residual)
    torch.testing.assert_close(y, nn.functional.rms_norm(total, (8,), norm.weight, 1e-5))


def test_channels_last_and_silu():
    norm = fused.GroupNorm(2, 6, activation="silu", data_format="NHWC")
    x = torch.randn(2, 6, 3, 4)
    expected = nn.functional.silu(nn.GroupNorm(2, 6)(x))
    torch.testing.assert_close(norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), expected, rtol=1e-5, atol=1e-5)


def test_arguments_are_checked():
    with pytest.raises(ValueError, match=r"RMSNorm: normalized_shape must be one size, got \(2, 3\)"):
        fused.RMSNorm((2, 3))
    with pytest.raises(ValueError, match="RMSNorm: eps must be > 0 in float32, got 0"):
        fused.RMSNorm(3, 0.0)
    with pytest.raises(ValueError, match="GroupNorm: activation must be 'none', 'silu' or 'relu', got 'elu'"):
        fused.GroupNorm(1, 2, activation="elu")


@pytest.mark.parametrize("name", layers.__all__)
def test_layers_for_kernelize_are_stateless(name):
    """What Hugging Face's kernels asks of a layer: no constructor, no members but those of nn.Module."""
    layer = getattr(layers, name)
    assert layer.__init__ is nn.Module.__init__
    assert set(dir(layer)) - set(dir(nn.Module)) <= {"can_torch_compile", "has_backward", "__module__"}


def test_kernelize(monkeypatch):
    """Into a network of transformers, by the package `kernels`."""
    pytest.importorskip("kernels.layer")  # a folder of this tree is called `kernels`, too
    kernels = pytest.importorskip("kernels")
    transformers = pytest.importorskip("transformers")
    norm = transformers.models.llama.modeling_llama.LlamaRMSNorm
    # transformers names it so itself, with the versions of `kernels` that it knows.
    monkeypatch.setattr(norm, "kernel_layer_name", "RMSNorm", raising=False)

    class Repository:
        def __init__(self, layer):
            self.layer = layer

        def load(self):
            return self.layer

        def __hash__(self):
            return hash(self.layer)

    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, vocab_size=50
    )
    torch.manual_seed(0)
    network = transformers.LlamaForCausalLM(config).eval()
    ids = torch.arange(6)[None]
    with torch.no_grad():
        expected = network(ids).logits
        mapping = {"RMSNorm": {"cpu": Repository(layers.RMSNorm)}}
        with kernels.use_kernel_mapping(mapping, inherit_mapping=False):
            network = kernels.kernelize(network, mode=kernels.Mode.INFERENCE, device="cpu")
        found = network(ids).logits
    norms = [m for m in network.modules() if type(m).__name__ == "LlamaRMSNorm"]
    assert all(m.forward.__func__ is layers.RMSNorm.forward for m in norms)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_the_example_of_the_document_runs():
    text = (Path(__file__).parents[2] / "docs" / "torch.md").read_text(encoding="utf-8")
    names = {}
    exec(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[0], names)
    assert names["y"].shape == (8, 64)
    assert names["rstd"].shape == (8, 1)
