"""Networks of PyTorch on torch_npu: what they need of CANN, their training, and this library's operators in them."""

import copy

import pytest

torch = pytest.importorskip("torch")
torch_npu = pytest.importorskip("torch_npu")
# torch_npu copies tensors, and PyTorch 2.7 traces functions, by classes of PyTorch that are to go. torch_npu 2.13 says
# once that it gives weights of convolutions no layout of CANN's.
pytestmark = [
    pytest.mark.clients,
    pytest.mark.filterwarnings("ignore:TypedStorage", "ignore:.*should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Cannot create tensor with internal format"),
]

from torch import nn
from torch.nn import functional

from ms_ascend_ops.torch import optimize

STEPS = 5
# How much of a gradient, by its norm, rounding may change on the way through ResNet-50. Seen: 3e-4, on a CPU 2e-2.
BOUND = 1e-2


class Attention(nn.Module):
    """One block of a decoder."""

    def __init__(self):
        super().__init__()
        self.embedding, self.norm = nn.Embedding(10, 32), nn.RMSNorm(32)
        self.qkv, self.out, self.head = nn.Linear(32, 96), nn.Linear(32, 32), nn.Linear(32, 4)

    def forward(self, ids):
        x = self.embedding(ids)
        q, k, v = self.qkv(self.norm(x)).reshape(*ids.shape, 3, 4, 8).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head((x + self.out(attended.transpose(1, 2).reshape(x.shape))).mean(1))


def dense():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 4)), torch.randn(8, 16)


def convolutions():
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=2), nn.GroupNorm(2, 8), nn.SiLU()]
    layers += [nn.Upsample(scale_factor=2, mode="bilinear"), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)]
    return nn.Sequential(*layers), torch.randn(8, 3, 16, 16)


def attention():
    return Attention(), torch.randint(0, 10, (8, 6))


def losses(model, x, device, optimizer, mixed=False):
    model, x = copy.deepcopy(model).to(device), x.to(device)
    targets = (torch.arange(len(x)) % 4).to(device)
    update = optimizer(model.parameters())
    scaler = torch.amp.GradScaler(device, init_scale=1024.0, enabled=mixed)
    found = []
    for _ in range(STEPS):
        update.zero_grad()
        with torch.autocast(device, torch.float16 if device == "npu" else torch.bfloat16, enabled=mixed):
            loss = functional.cross_entropy(model(x).float(), targets)
        scaler.scale(loss).backward()
        scaler.step(update)
        scaler.update()
        found.append(loss.item())
    return torch.tensor(found)


@pytest.mark.parametrize("network", [dense, convolutions, attention])
@pytest.mark.parametrize(
    "optimizer",
    [
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
        lambda parameters: torch.optim.AdamW(parameters, lr=1e-2),
        lambda parameters: torch.optim.AdamW(parameters, lr=1e-2, foreach=False),
    ],
    ids=["sgd", "adamw", "adamw-one-by-one"],
)
def test_training(network, optimizer):
    torch.manual_seed(0)
    model, x = network()
    found, expected = (losses(model, x, device, optimizer) for device in ("npu", "cpu"))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert found[-1] < found[0]


def test_mixed_precision():
    """In float16 with a loss scale; a CPU has bfloat16."""
    torch.manual_seed(0)
    model, x = dense()

    def optimizer(parameters):
        return torch.optim.SGD(parameters, lr=0.1)

    found, expected = (losses(model, x, device, optimizer, mixed=True) for device in ("npu", "cpu"))
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def resnet(layer, depths, sizes):
    transformers = pytest.importorskip("transformers")
    config = transformers.ResNetConfig(layer_type=layer, depths=depths, hidden_sizes=sizes, num_labels=10)
    return transformers.ResNetForImageClassification(config), (torch.randn(2, 3, 64, 64),)


def resnet18():
    return resnet("basic", [2, 2, 2, 2], [64, 128, 256, 512])


def resnet50():
    return resnet("bottleneck", [3, 4, 6, 3], [256, 512, 1024, 2048])


def unet():
    diffusers = pytest.importorskip("diffusers")
    sizes = {"sample_size": 16, "layers_per_block": 1, "block_out_channels": (32, 64), "norm_num_groups": 8}
    blocks = {
        "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
        "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
    }
    return diffusers.UNet2DModel(**sizes, **blocks), (torch.randn(2, 3, 16, 16), torch.tensor([5, 700]))


@pytest.mark.parametrize("network", [resnet18, resnet50, unet])
@pytest.mark.usefixtures("deterministic")
def test_of_others(network):
    """Outputs, then gradients of a training step, beside float64 on a CPU; a second run gives the same bits.

    Gradients are within a hundredth, or the worst is at most twice as far as the worst of float32 on a CPU: with batch
    norms over eight values those of ResNet-50 are 1 to 3 hundredths off there, too, as some ReLU changes its side.
    """
    torch.manual_seed(0)
    model, inputs = network()
    runs = []
    for device, dtype in (("cpu", torch.float64), ("cpu", torch.float32), *[("npu", torch.float32)] * 2):
        there = copy.deepcopy(model).to(device, dtype)
        given = [tensor.to(device, dtype if tensor.is_floating_point() else tensor.dtype) for tensor in inputs]
        with torch.no_grad():
            output = there.eval()(*given)[0]
        there.train()(*given)[0].square().mean().backward()
        runs.append([output.cpu(), *(p.grad.cpu() for p in there.parameters() if p.grad is not None)])
    assert all(map(torch.equal, runs[2], runs[3]))
    (expected, *exact), (_, *of_cpu), (output, *found) = runs[:3]
    least = max(wanted.norm() for wanted in exact) / 1000  # of some the gradient is 0 but for rounding
    of_cpu, found = (
        max((one - wanted).norm() / max(wanted.norm(), least) for one, wanted in zip(some, exact, strict=True))
        for some in (of_cpu, found)
    )
    assert found <= max(BOUND, 2 * of_cpu)
    assert (output - expected).norm() <= 1e-5 * expected.norm()


def test_llama():
    """The same places as on a CPU, the same tokens, a step within rounding; undone, it is the network that it was."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"vocab_size": 99, "hidden_size": 64, "intermediate_size": 128, "max_position_embeddings": 64}
    heads = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    # torch_npu's own attention cannot be traced: it launches kernels on tensors without memory.
    config = transformers.LlamaConfig(**sizes, **heads, attn_implementation="eager", pad_token_id=0)
    model = transformers.LlamaForCausalLM(config).eval()
    ids = torch.randint(1, 99, (2, 8))
    options = {"max_new_tokens": 4, "do_sample": False, "attention_mask": torch.ones_like(ids)}
    tokens = model.generate(ids, **options)
    on_npu = copy.deepcopy(model).npu()
    reports = [optimize(model, (ids,)), optimize(on_npu, (ids.npu(),))]
    assert len({str(report).partition("largest")[0] for report in reports}) == 1
    assert reports[0].replaced
    options["attention_mask"] = options["attention_mask"].npu()
    assert torch.equal(on_npu.generate(ids.npu(), **options).cpu(), tokens)
    gradients = []
    for network, given in ((model, ids), (on_npu, ids.npu())):
        network.train()(given, labels=given).loss.backward()
        gradients.append([parameter.grad.cpu() for parameter in network.parameters()])
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)
    reports[1].restore()
    assert on_npu._compiled_call_impl is None
