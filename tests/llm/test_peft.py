"""Adapters between `llm finetune` and Hugging Face's PEFT: each loads the other's, with the same logits."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from ms_ascend_ops.__main__ import main
from ms_ascend_ops.llm import LanguageModel
from ms_ascend_ops.llm.checkpoints import open_checkpoint
from ms_ascend_ops.llm.checkpoints.writer import write_directory
from ms_ascend_ops.llm.executor import Chunk
from tests.llm import tiny

torch = pytest.importorskip("torch")
peft = pytest.importorskip("peft")
transformers = pytest.importorskip("transformers")
pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]  # of their own

# Of the largest logit: two layers of sums of 64 and 96 float32, in another order.
TOLERANCE = 2e-5
TOKENS = np.random.default_rng(5).integers(0, tiny.CONFIG.vocabulary, 24).tolist()


def ours(model, adapter=None):
    executor = LanguageModel.from_file(model, adapter=adapter, cache_dtype="float32").executor
    return executor.step([Chunk(TOKENS, 0, [0])], every_row=True)


def theirs(network):
    with torch.inference_mode():
        return network(torch.tensor([TOKENS])).logits[0].numpy()


def base(model):
    return transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()


def check(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


@pytest.mark.parametrize("architecture", ["llama", "qwen3", "phi3", "glm4"])
def test_peft_loads_what_finetune_writes(tmp_path, architecture):
    if architecture in tiny.VARIANTS:
        model = tiny.write_directory(tmp_path / "m", tiny.VARIANTS[architecture])
    else:  # with fused matrices
        config = tiny.FAMILIES["phi3, half" if architecture == "phi3" else architecture]
        file = tiny.write_gguf(tmp_path / "m.gguf", config)
        write_directory(open_checkpoint(file), model := tmp_path / "m", np.dtype(np.float32))
    data = tmp_path / "data.jsonl"
    data.write_text("\n".join(json.dumps({"prompt": "hello", "completion": f" world {i}"}) for i in range(4)))
    options = [
        "--steps",
        "3",
        "--batch",
        "4",
        "--rank",
        "4",
        "--learning-rate",
        "0.01",
        "--output",
        str(tmp_path / "adapter"),
    ]
    result = CliRunner().invoke(main, ["llm", "finetune", str(model), str(data), *options])
    assert result.exit_code == 0, result.output
    network = base(model)
    plain = theirs(network)
    check(ours(model), plain)
    network = peft.PeftModel.from_pretrained(network, tmp_path / "adapter").eval()
    learnt = theirs(network)
    assert np.abs(learnt - plain).max() > 1e-2 * np.abs(plain).max()
    check(ours(model, tmp_path / "adapter"), learnt)
    # The weights that `llm convert --adapter` writes are those that PEFT gets by merging.
    result = CliRunner().invoke(
        main, ["llm", "convert", str(model), str(tmp_path / "merged"), "--adapter", str(tmp_path / "adapter"),
               "--dtype", "float32"],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    check(theirs(base(tmp_path / "merged")), theirs(network.merge_and_unload()))


@pytest.mark.parametrize(
    "settings",
    [
        {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "down_proj"]},
        {"r": 3, "lora_alpha": 5, "use_rslora": True, "target_modules": "all-linear", "lora_dropout": 0.1},
    ],
)
def test_what_peft_writes_is_loaded(tmp_path, settings):
    model = tiny.write_directory(tmp_path / "m", tiny.VARIANTS["qwen2"])
    torch.manual_seed(0)
    config = peft.LoraConfig(task_type="CAUSAL_LM", init_lora_weights=False, **settings)
    network = peft.get_peft_model(base(model), config).eval()
    network.save_pretrained(tmp_path / "adapter")
    check(ours(model, tmp_path / "adapter"), theirs(network))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"use_dora": True}, "use_dora must be False"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save must be"),
        ({"target_modules": ["embed_tokens"]}, "embed_tokens"),
    ],
)
def test_what_is_no_plain_lora_is_refused(tmp_path, settings, message):
    model = tiny.write_directory(tmp_path / "m", tiny.VARIANTS["qwen2"])
    config = peft.LoraConfig(task_type="CAUSAL_LM", **({"target_modules": ["q_proj"]} | settings))
    peft.get_peft_model(base(model), config).save_pretrained(tmp_path / "adapter")
    result = CliRunner().invoke(
        main, ["llm", "generate", str(model), "--adapter", str(tmp_path / "adapter"), "--prompt", "hello"]
    )
    assert result.exit_code == 1
    assert message in result.output
    assert "Traceback" not in result.output
