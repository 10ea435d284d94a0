"""Networks of transformers and diffusers, exported on the spot: what is replaced, and that outputs stay."""

import numpy as np
import onnx
import onnxruntime
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
pytestmark = [
    pytest.mark.clients,
    pytest.mark.filterwarnings("ignore"),  # of the exporter's own
]

from ms_ascend_ops.onnx import DOMAIN, optimize
from ms_ascend_ops.onnx.runtime import run, session


def llama(attention="eager"):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, attn_implementation=attention,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    return (lambda ids: model(input_ids=ids, use_cache=False).logits), model, [torch.randint(0, 64, (2, 8))]


def llama_sdpa():
    """As transformers makes it by itself."""
    return llama("sdpa")


def vit():
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, image_size=32, patch_size=8
    )
    model = transformers.ViTModel(config)
    return (lambda x: model(x).last_hidden_state), model, [torch.randn(2, 3, 32, 32)]


def unet():
    diffusers = pytest.importorskip("diffusers")
    model = diffusers.UNet2DModel(
        sample_size=16, layers_per_block=1, block_out_channels=(32, 64), norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    return (lambda x, t: model(x, t).sample), model, [torch.randn(1, 3, 16, 16), torch.tensor([5])]


class Network(torch.nn.Module):
    def __init__(self, function, model):
        super().__init__()
        self.model = model  # with its parameters
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def export(make, path, **options):
    torch.manual_seed(0)
    function, model, inputs = make()
    network = Network(function, model).eval()
    torch.onnx.export(network, tuple(inputs), str(path), dynamo=True, external_data=False, verbose=False, **options)
    with torch.no_grad():
        return inputs, network(*inputs).numpy(), network


def counts(path):
    names = [node.op_type for node in onnx.load(path).graph.node if node.domain == DOMAIN]
    return {name: names.count(name) for name in set(names)}


LLAMA = {"rms_norm": 5, "rotary_embedding": 4, "flash_attention": 2, "silu_mul": 2}
OPEN = {"dynamic_shapes": (({0: "batch", 1: "length"},),)}


@pytest.mark.parametrize(
    ("make", "options", "expected"),
    [
        (llama, {}, LLAMA),
        (llama, OPEN, LLAMA),
        (llama_sdpa, {}, LLAMA),
        (llama_sdpa, OPEN, LLAMA),
        (vit, {}, {"layer_norm": 5, "gelu": 2, "flash_attention": 2}),
        (unet, {}, {"group_norm": 21, "flash_attention": 4}),
    ],
    ids=["llama", "llama of any length", "llama, sdpa", "llama, sdpa, of any length", "vit", "unet"],
)
def test_networks(make, options, expected, tmp_path):
    path, output = tmp_path / "model.onnx", tmp_path / "fused.onnx"
    inputs, golden, network = export(make, path, **options)
    report = optimize(path, output)
    assert report.outputs.relative < 1e-5, report
    found = counts(output)
    assert found == {**expected, **({"group_norm": found["group_norm"]} if make is unet else {})}
    made = session(output)
    stock = onnxruntime.InferenceSession(str(path))
    feeds = {value.name: x.numpy() for value, x in zip(made.get_inputs(), inputs)}
    largest = np.abs(golden).max()
    np.testing.assert_allclose(run(made, feeds)[0] / largest, golden / largest, atol=1e-5)
    np.testing.assert_allclose(run(made, feeds)[0] / largest, stock.run(None, feeds)[0] / largest, atol=1e-5)
    if options:  # other sizes than those of the export
        ids = torch.randint(0, 64, (3, 13))
        with torch.no_grad():
            other = network(ids).numpy()
        found = run(made, {made.get_inputs()[0].name: ids.numpy()})[0]
        np.testing.assert_allclose(found / largest, other / largest, atol=1e-5)


def test_what_onnxruntime_has_optimized_already(tmp_path):
    """Its own fused operators are read, too."""
    path, own, output = (tmp_path / name for name in ("model.onnx", "own.onnx", "fused.onnx"))
    export(vit, path)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(own)
    onnxruntime.InferenceSession(str(path), options)
    assert any(node.domain == "com.microsoft" for node in onnx.load(own).graph.node)
    report = optimize(own, output)
    assert report.outputs.relative < 1e-5, report
    assert counts(output)["flash_attention"] == 2
