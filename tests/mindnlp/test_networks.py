"""`optimize` on MindNLP's networks, small and with random weights: needs MindNLP, in an environment of its own."""

import numpy as np
import pytest

pytestmark = pytest.mark.clients
pytest.importorskip("mindnlp")

import mindspore as ms  # noqa: E402 - MindNLP changes MindSpore's tensors, so it comes first
import mindtorch  # noqa: E402
import transformers  # noqa: E402
from ms_ascend_ops.export.modules.attention import NAME  # noqa: E402

from ms_ascend_ops import optimize  # noqa: E402

SIZES = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
}
DECODER = {"attention", "RMSNorm", "SwiGLU", "rotary embedding"}


def numbers(*shape):
    return mindtorch.tensor(np.random.default_rng(1).standard_normal(shape).astype(np.float32))


def ids(*shape):
    return mindtorch.tensor(np.random.default_rng(1).integers(3, 100, shape))


def decoder(name, **others):
    config = getattr(transformers, f"{name}Config")(num_key_value_heads=2, **SIZES, **others)
    return getattr(transformers, f"{name}ForCausalLM")(config), {"input_ids": ids(1, 10)}


def bert():
    return transformers.BertModel(transformers.BertConfig(**SIZES)), {"input_ids": ids(2, 10)}


def vit():
    sizes = {name: SIZES[name] for name in list(SIZES)[1:5]}
    network = transformers.ViTModel(transformers.ViTConfig(image_size=32, patch_size=8, **sizes))
    return network, {"pixel_values": numbers(1, 3, 32, 32)}


def t5():
    config = transformers.T5Config(
        vocab_size=128, d_model=64, d_kv=16, d_ff=160, num_layers=2, num_heads=4, feed_forward_proj="gated-gelu",
        decoder_start_token_id=0,
    )  # fmt: skip
    inputs = {"input_ids": ids(1, 10), "decoder_input_ids": ids(1, 4)}
    return transformers.T5ForConditionalGeneration(config), inputs


def whisper():
    config = transformers.WhisperConfig(
        vocab_size=128, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, num_mel_bins=16, max_source_positions=20,
        max_target_positions=40, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    inputs = {"input_features": numbers(1, 16, 40), "decoder_input_ids": ids(1, 4)}
    return transformers.WhisperForConditionalGeneration(config), inputs


def unet():
    diffusers = pytest.importorskip("diffusers")
    network = diffusers.UNet2DConditionModel(
        sample_size=16, block_out_channels=(32, 64), layers_per_block=1, cross_attention_dim=32, attention_head_dim=8,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )  # fmt: skip
    inputs = {"sample": numbers(1, 4, 16, 16), "timestep": ids(1), "encoder_hidden_states": numbers(1, 7, 32)}
    return network, inputs


NETWORKS = {
    "llama": (lambda: decoder("Llama"), DECODER),
    "qwen2": (lambda: decoder("Qwen2"), DECODER),
    "qwen3": (lambda: decoder("Qwen3", head_dim=16), DECODER),
    "bert": (bert, {"LayerNorm", "GELU"}),
    "vit": (vit, {"attention", "LayerNorm", "GELU"}),
    "t5": (t5, {"RMSNorm", "GELU", "GeGLU"}),
    "whisper": (whisper, {"attention", "LayerNorm", "GELU"}),
    "unet": (unet, {"GroupNorm", "LayerNorm", "GeGLU"}),
}


def outputs(network, inputs):
    with mindtorch.no_grad():
        return next(iter(network(**inputs).values())).asnumpy()


@pytest.mark.parametrize("name", NETWORKS)
def test_network(name):
    make, patterns = NETWORKS[name]
    mindtorch.manual_seed(0)
    network, inputs = make()
    network.eval()
    generates = name in ("llama", "qwen2", "qwen3", "t5")

    def tokens():
        with mindtorch.no_grad():
            asked = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0}
            return network.generate(inputs["input_ids"], **asked).asnumpy() if generates else None

    stock, stock_tokens = outputs(network, inputs), tokens()
    report = optimize(network, verify=inputs, gradients=True)
    assert not report.rolled_back
    assert {entry.pattern for entry in report.replaced} == patterns
    assert report.outputs.relative < 2e-5
    assert report.gradients.relative < 1e-4
    np.testing.assert_array_equal(tokens(), stock_tokens)
    report.restore()
    np.testing.assert_array_equal(outputs(network, inputs), stock)
    assert not [module for module in network.modules() if "forward" in vars(module)]
    assert not hasattr(network, "config") or getattr(network.config, "_attn_implementation", "") != NAME


def test_lora():
    """A LoRA that is put in afterwards is used; one that was there before stays."""
    peft = pytest.importorskip("peft")
    mindtorch.manual_seed(0)
    network, inputs = decoder("Llama")
    network.eval()
    config = peft.LoraConfig(target_modules=["q_proj", "gate_proj"], r=4, init_lora_weights=False)
    first = optimize(network, verify=inputs)
    adapted = peft.get_peft_model(network, config)
    adapted.eval()
    after = outputs(adapted, inputs)
    first.restore()
    stock = outputs(adapted, inputs)
    scale = np.abs(stock).max()
    np.testing.assert_allclose(after, stock, rtol=0, atol=2e-5 * scale)
    second = optimize(adapted, verify=inputs, gradients=True)
    assert {entry.pattern for entry in second.replaced} >= DECODER
    np.testing.assert_allclose(outputs(adapted, inputs), stock, rtol=0, atol=2e-5 * scale)


class Descent(mindtorch.optim.Optimizer):
    """Those of MindNLP ask for operators that a CPU has not."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.5})

    def step(self, closure=None):
        with mindtorch.no_grad():
            for parameter in self.param_groups[0]["params"]:
                parameter.copy_(parameter - self.param_groups[0]["lr"] * parameter.grad)


def losses(network, rows, folder):
    settings = transformers.TrainingArguments(
        output_dir=folder, max_steps=5, per_device_train_batch_size=4, logging_steps=1, report_to=[],
        save_strategy="no", seed=1, data_seed=1, lr_scheduler_type="constant", disable_tqdm=True, max_grad_norm=0,
    )  # fmt: skip
    trainer = transformers.Trainer(
        network, settings, transformers.default_data_collator, [{"input_ids": row, "labels": row} for row in rows],
        optimizers=(Descent(network.parameters()), None),
    )  # fmt: skip
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def test_trainer(tmp_path):
    """It trains the network before and after, and what was trained can be undone."""
    rows = ids(16, 12).asnumpy().tolist()
    mindtorch.manual_seed(0)
    stock = losses(decoder("Llama")[0], rows, tmp_path)
    mindtorch.manual_seed(0)
    network, inputs = decoder("Llama")
    report = optimize(network.eval(), verify=inputs)
    network.train()
    # The Trainer rounds losses to four digits, and these were equal: one of the last digit is for rounding.
    np.testing.assert_allclose(losses(network, rows, tmp_path), stock, rtol=0, atol=1.01e-4)
    network.eval()
    trained = outputs(network, inputs)
    report.restore()
    np.testing.assert_allclose(outputs(network, inputs), trained, rtol=0, atol=2e-5 * np.abs(trained).max())
    assert {entry.pattern for entry in optimize(network, verify=inputs, gradients=True).replaced} == DECODER


def test_other_inputs_run_the_stock_forward():
    network, inputs = decoder("Llama")
    network.eval()
    norm = network.model.norm
    optimize(network, verify=inputs)
    x = numbers(2, 64)  # a rank that was not seen
    want = type(norm).forward(norm, x).asnumpy()
    np.testing.assert_array_equal(norm(x).asnumpy(), want)
    assert (
        norm(numbers(1, 3, 64).to(ms.float16)).dtype == type(norm).forward(norm, numbers(1, 3, 64).to(ms.float16)).dtype
    )


def test_needs_inputs():
    network, _ = decoder("Llama")
    with pytest.raises(TypeError, match="needs the inputs"):
        optimize(network)
