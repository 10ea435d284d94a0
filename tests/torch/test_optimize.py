"""optimize: what it finds in networks of transformers and in small ones, what it leaves, and that it can be undone."""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.clients,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of the compiler's own
    pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`"),
]

from torch import nn
from torch.nn import functional

from ms_ascend_ops.torch import optimize, versions

LLAMA = {"RMSNorm": 5, "rotary embedding": 4, "SwiGLU": 2}
GPT2 = {"LayerNorm": 5, "GELU": 2}
EAGER = {"scale + mask + softmax": 2}


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def network(kind, attention):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 50}
    if kind == "gpt2":
        config = transformers.GPT2Config(
            n_embd=32, n_layer=2, n_head=4, vocab_size=50, n_positions=64, bos_token_id=0, eos_token_id=1
        )
        made = transformers.GPT2LMHeadModel(config)
    elif kind == "qwen2":
        made = transformers.Qwen2ForCausalLM(
            transformers.Qwen2Config(intermediate_size=48, num_key_value_heads=2, **sizes)
        )
    else:
        made = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(intermediate_size=48, num_key_value_heads=2, **sizes)
        )
    made.set_attn_implementation(attention)
    return made.eval()


def counts(report):
    found = {}
    for entry in report.replaced:
        found[entry.pattern] = found.get(entry.pattern, 0) + 1
    return found


def fused_calls(model, *inputs):
    """The operators that a call launches."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile, torch.no_grad():
        model(*inputs)
    return {event.key: event.count for event in profile.key_averages() if event.key.startswith("ms_ascend_ops::")}


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize(("kind", "expected"), [("llama", LLAMA), ("qwen2", LLAMA), ("gpt2", GPT2)])
def test_networks_of_transformers(kind, expected, attention):
    model = network(kind, attention)
    lengths = [torch.arange(n)[None] % 50 for n in (6, 9, 13, 1)]
    with torch.no_grad():
        wanted = [model(ids).logits for ids in lengths]
    names = list(model.state_dict())
    report = optimize(model, (lengths[0],))
    assert counts(report) == expected | (EAGER if attention == "eager" else {})
    assert report.outputs.relative < 1e-6
    assert list(model.state_dict()) == names
    for ids, logits in zip(lengths, wanted, strict=True):
        with torch.no_grad():
            torch.testing.assert_close(model(ids).logits, logits, rtol=1e-4, atol=1e-6)
    launched = fused_calls(model, lengths[1])
    assert sum(launched.values()) == len(report.replaced)
    report.restore()
    assert not fused_calls(model, lengths[1])
    assert report.replaced == []


def others(kind):
    """A network of another kind, its inputs, and what is replaced in it."""
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    words = {**sizes, "num_key_value_heads": 2, "vocab_size": 50}
    ids = torch.arange(6)[None]
    if kind == "gemma":
        config = transformers.GemmaConfig(head_dim=8, **words)
        return transformers.GemmaForCausalLM(config), (ids,), {"RMSNorm": 5, "rotary embedding": 4, "GeGLU": 2}
    if kind == "phi3":
        config = transformers.Phi3Config(bos_token_id=0, eos_token_id=1, pad_token_id=0, **words)
        return transformers.Phi3ForCausalLM(config), (ids,), LLAMA
    if kind == "vit":
        model = transformers.ViTModel(transformers.ViTConfig(image_size=32, patch_size=8, **sizes))
        return model, (torch.randn(2, 3, 32, 32),), {"LayerNorm": 5, "GELU": 2}
    diffusers = pytest.importorskip("diffusers")
    model = diffusers.UNet2DModel(
        sample_size=16, layers_per_block=1, block_out_channels=(32, 64), norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    return model, (torch.randn(1, 3, 16, 16), torch.tensor([5])), {"GroupNorm + SiLU": 17, "GroupNorm": 4}


@pytest.mark.parametrize("kind", ["gemma", "phi3", "vit", "unet"])
def test_other_networks(kind):
    model, inputs, expected = others(kind)
    model.eval()
    with torch.no_grad():
        wanted = model(*inputs)[0]
    report = optimize(model, inputs)
    assert counts(report) == expected
    assert report.outputs.relative < 2e-6
    launched = fused_calls(model, *inputs)
    assert sum(launched.values()) == len(report.replaced)
    report.restore()
    with torch.no_grad():
        assert torch.equal(model(*inputs)[0], wanted)


def test_generation_and_training():
    """With a cache, and with gradients: graphs that are taken later have the operators, too."""
    model = network("llama", "sdpa")
    ids = torch.arange(6)[None]
    model(ids, labels=ids).loss.backward()
    wanted = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    options = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    tokens = model.generate(ids, **options)
    report = optimize(model, {"input_ids": ids})
    assert len(report.replaced) == 11
    assert torch.equal(model.generate(ids, **options), tokens)
    model(ids, labels=ids).loss.backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, wanted[name], rtol=1e-4, atol=1e-6)


class Gated(nn.Module):
    """A linear layer, and a function of what it gives."""

    def __init__(self, function):
        super().__init__()
        self.up = nn.Linear(8, 16, bias=False)
        self.function = function

    def forward(self, x):
        return self.function(self.up(x))


def swiglu(x):
    gate, up = x.chunk(2, -1)
    return functional.silu(gate) * up


def by_sigmoid(x):
    gate, up = x[..., :8], x[..., 8:]
    return gate * torch.sigmoid(gate) * up


def changed_within(x):
    gate, up = x[..., :8], x[..., 8:]
    activated = functional.silu(gate)
    x.mul_(2)
    return activated * up


def changed_before(x):
    x.mul_(2)
    return swiglu(x)


def used_elsewhere(x):
    gate, up = x.chunk(2, -1)
    activated = functional.silu(gate)
    return activated * up + activated


@pytest.mark.parametrize("function", [swiglu, by_sigmoid, changed_before])
def test_equivalent_forms(function):
    model, x = Gated(function), torch.randn(3, 8)
    expected = model(x).detach()
    report = optimize(model, (x,))
    assert counts(report) == {"SwiGLU": 1}
    torch.testing.assert_close(model(x), expected)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (changed_within, "a tensor may be changed in place within it"),
        (used_elsewhere, "an intermediate result of it is used elsewhere, too"),
    ],
)
def test_what_must_stay(function, reason):
    model, x = Gated(function), torch.randn(3, 8)
    expected = model(x).detach()
    report = optimize(model, (x,))
    assert not report.replaced
    assert reason in [entry.text for entry in report.skipped]
    assert model._compiled_call_impl is None  # nothing to do: it runs as before
    assert torch.equal(model(x), expected)


class PreActivation(nn.Module):
    """A residual block whose norm and activation come first: the sum takes the normalized input, or the activated."""

    def __init__(self, shortcut):
        super().__init__()
        self.norm, self.layer = nn.GroupNorm(2, 6), nn.Conv2d(6, 6, 1)
        self.shortcut = shortcut

    def forward(self, x):
        normed = self.norm(x)
        y = functional.relu(normed)
        return self.layer(y) + (normed if self.shortcut == "normed" else y)


@pytest.mark.parametrize(("shortcut", "pattern"), [("normed", "GroupNorm"), ("activated", "GroupNorm + ReLU")])
def test_a_norm_with_two_readers(shortcut, pattern):
    model, x = PreActivation(shortcut), torch.randn(2, 6, 3, 4)
    expected = model(x).detach()
    assert counts(optimize(model, (x,), level="O1")) == {pattern: 1}
    torch.testing.assert_close(model(x), expected)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(8, eps=1e-5)

    def forward(self, x, residual):
        total = x + residual
        return self.norm(total), total


def test_levels():
    inputs = torch.randn(3, 8), torch.randn(3, 8)
    for level, pattern in (("O1", {"RMSNorm": 1}), ("O3", {"add + RMSNorm": 1}), ("O0", {})):
        model = Residual()
        expected = [value.detach() for value in model(*inputs)]
        assert counts(optimize(model, inputs, level=level)) == pattern
        for value, wanted in zip(model(*inputs), expected, strict=True):
            torch.testing.assert_close(value, wanted)


def test_half_precision():
    model = Residual().bfloat16()
    inputs = [torch.randn(3, 8).bfloat16() for _ in range(2)]
    report = optimize(model, inputs, level="O3")
    assert counts(report) == {"add + RMSNorm": 1}
    assert report.outputs.relative <= 1e-1


def test_beyond_the_tolerance_everything_is_put_back():
    model, x = Gated(swiglu), torch.randn(64, 8)
    report = optimize(model, (x,), tolerance=-1.0)
    assert report.rolled_back.startswith("an output differs by")
    assert model._compiled_call_impl is None
    assert "replaced, then restored" in str(report)


def test_training_mode_is_kept():
    model, x = Gated(swiglu).train(), torch.randn(3, 8)
    optimize(model, (x,))
    assert model.training
    assert model.up.training


@pytest.mark.filterwarnings("ignore:Skipping serialization")  # PyTorch 2.6's own
def test_inductor_compiles_the_rest():
    model, x = Gated(swiglu), torch.randn(3, 8)
    expected = model(x).detach()
    assert counts(optimize(model, (x,), backend="inductor")) == {"SwiGLU": 1}
    torch.testing.assert_close(model(x), expected)


def test_errors():
    model, x = Gated(swiglu), torch.randn(3, 8)
    with pytest.raises(TypeError, match=r"optimize: model must be a torch\.nn\.Module, got function"):
        optimize(swiglu, (x,))
    with pytest.raises(TypeError, match="example_inputs must be a tuple, a list or a dict of the inputs of model"):
        optimize(model, x)
    with pytest.raises(ValueError, match="example_inputs must be the inputs of model, got none"):
        optimize(model, ())
    with pytest.raises(ValueError, match="level must be one of O0, O1, O2, O3, got 'O7'"):
        optimize(model, (x,), level="O7")
    optimize(model, (x,))
    with pytest.raises(RuntimeError, match="the model is compiled already"):
        optimize(model, (x,))


def test_mindspore_is_not_imported():
    code = "import sys, torch, ms_ascend_ops.torch as fused; network = torch.nn.Sequential(torch.nn.GELU()); "
    code += "fused.optimize(network, (torch.ones(3),)); print('mindspore' in sys.modules)"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


class _Doubled(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return functional.silu(x[..., : self.size]) * x[..., self.size :]


@pytest.mark.skipif(not versions.own_compiled_code(1), reason="models share code before PyTorch 2.13")
@torch._dynamo.config.patch(recompile_limit=2)
def test_models_of_a_class_do_not_count_against_each_other():
    """Dynamo keeps what it compiled with the code, which they share."""
    for size in range(4, 8):
        model, x = _Doubled(size), torch.randn(2, 2 * size)
        assert counts(optimize(model, (x,))) == {"SwiGLU": 1}
        compiled = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        with torch.no_grad():
            model.eval()(x)
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == compiled
    with torch._dynamo.config.patch(accumulated_recompile_limit=4):
        report = optimize(_Doubled(9), (torch.randn(2, 18),))
    assert not report.replaced
    assert "compiles code no more than 4 times in a process" in str(report)


class Norms(nn.Module):
    """Layers with PyTorch's defaults."""

    def __init__(self, dtype):
        super().__init__()
        self.rms = nn.RMSNorm(16, dtype=dtype)
        self.layer = nn.LayerNorm(16, dtype=dtype)
        self.group = nn.GroupNorm(4, 16, dtype=dtype)
        self.gelu = nn.GELU()

    def forward(self, x):
        return self.rms(x), self.layer(x), self.group(x), self.gelu(x), functional.rms_norm(x, (16,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [1e-2, 3e-4, 1.0])
def test_defaults_mean_what_pytorch_means(dtype, size):
    """In small numbers a wrong eps is a large difference; the reference computes in float64 with PyTorch's eps."""
    made, x = Norms(dtype).eval(), (torch.randn(6, 16) * size).to(dtype)
    with torch.no_grad():
        wanted = made(x)
        report = optimize(made, (x,))
        got = made(x)
    assert {"RMSNorm", "LayerNorm", "GroupNorm"} <= set(counts(report))
    bound = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}[dtype]  # two roundings
    for result, value in zip(got, wanted, strict=True):
        torch.testing.assert_close(result, value, rtol=bound, atol=bound * float(value.abs().max()) / 8)
    square = x.double().square().mean(-1, keepdim=True)
    torch.testing.assert_close(
        got[0].double(), x.double() * (square + versions.default_epsilon(dtype)).rsqrt(), rtol=bound, atol=0
    )
