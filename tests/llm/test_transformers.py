"""Networks of every family that is read, of random weights, against transformers: logits, and 64 greedy tokens."""

import numpy as np
import pytest

from ms_ascend_ops.llm.checkpoints import open_checkpoint
from ms_ascend_ops.llm.checkpoints.writer import write_directory
from ms_ascend_ops.llm.executor import Chunk, ProgramExecutor
from ms_ascend_ops.llm.network import load_network
from tests.llm import tiny

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]  # of their own

SIZES = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": tiny.CONFIG.vocabulary, "max_position_embeddings": 256,
    "bos_token_id": None, "eos_token_id": tiny.END, "pad_token_id": None,
}  # fmt: skip
LONG = {
    "rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1 + 0.1 * i for i in range(8)],
    "long_factor": [1 + 0.5 * i for i in range(8)],
}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64}
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}  # fmt: skip
GEMMA = {"head_dim": 256, "sliding_window": 24, "query_pre_attn_scalar": 48}  # heads of the largest size
GEMMA3_ROPE = {
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e5},
    "sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
}
NETWORKS = {
    "llama3": ("llama", {"rope_parameters": LLAMA3}),
    "mistral, window": ("mistral", {"sliding_window": 24}),
    "qwen2, yarn": ("qwen2", {"rope_parameters": YARN}),
    "qwen2, yarn as it is": ("qwen2", {"rope_parameters": YARN | {"truncate": False, "beta_fast": 16, "mscale": 1.0}}),
    "qwen2, window": ("qwen2", {"use_sliding_window": True, "sliding_window": 20, "max_window_layers": 1}),
    "qwen3": ("qwen3", {"head_dim": 32}),
    "phi3": ("phi3", {"sliding_window": 30}),
    "phi3, short": ("phi3", {"rope_parameters": LONG, "original_max_position_embeddings": 128}),
    "phi3, long": ("phi3", {"rope_parameters": LONG, "original_max_position_embeddings": 32}),
    "phi3, half": ("phi3", {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4,
                                                "partial_rotary_factor": 0.5}}),
    "olmo2": ("olmo2", {}),
    "glm4": ("glm4", {"head_dim": 16}),
    "gemma2": ("gemma2", GEMMA | {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 20.0}),
    "gemma3": ("gemma3_text", GEMMA | {"num_hidden_layers": 7}),
    "gemma3, stretched": ("gemma3_text", GEMMA | {"layer_types": ["full_attention", *["sliding_attention"] * 2],
                                                  "rope_parameters": GEMMA3_ROPE, "final_logit_softcapping": 9.0}),
    "mixtral": ("mixtral", {"num_local_experts": 4}),
    "qwen3_moe": ("qwen3_moe", {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32,
                                "norm_topk_prob": True, "head_dim": 32}),
    "qwen3_moe, window": ("qwen3_moe", {"num_experts": 4, "num_experts_per_tok": 1, "moe_intermediate_size": 48,
                                        "use_sliding_window": True, "sliding_window": 20}),
}  # fmt: skip
CONTEXT = 112  # of 48 tokens and 64


@pytest.mark.parametrize("name", NETWORKS)
def test_network(tmp_path, name):
    kind, settings = NETWORKS[name]
    torch.manual_seed(1)
    config = transformers.AutoConfig.for_model(kind, **SIZES | settings)
    theirs = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for weight in theirs.parameters():  # so that logits differ, and norms and biases count
            weight.mul_(6) if weight.dim() == 2 else weight.add_(0.3 * torch.randn_like(weight))
    theirs.save_pretrained(tmp_path / "m")
    tiny.backend().save(str(tmp_path / "m" / "tokenizer.json"))
    tokens = np.random.default_rng(2).integers(0, tiny.CONFIG.vocabulary, 48).tolist()
    with torch.inference_mode():
        # Where the frequencies follow the length, those of the whole text.
        whole = theirs.generate(
            torch.tensor([tokens]), max_new_tokens=64, min_new_tokens=64, do_sample=False, use_cache=False,
            pad_token_id=0, suppress_tokens=[tiny.END],
        )[0].tolist()  # fmt: skip
        expected = theirs(torch.tensor([whole])).logits[0].numpy()
    runs = executor(tmp_path / "m")
    check(runs.step([Chunk(whole, 0, range(4))], every_row=True), expected)
    # As one goes on: a prompt in pieces, then a token at a time.
    ours = list(tokens)
    runs.step([Chunk(ours[:31], 0, range(4))])
    logits = runs.step([Chunk(ours[31:], 31, range(4))])[0]
    while len(ours) < CONTEXT:
        logits[tiny.END] = -np.inf
        ours.append(int(logits.argmax()))
        logits = runs.step([Chunk(ours[-1:], len(ours) - 1, range(4))])[0]
    assert ours == whole
    # What we write, both read.
    write_directory(open_checkpoint(tmp_path / "m"), tmp_path / "out", np.dtype(np.float32))
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.float32).eval()
    with torch.inference_mode():
        check(again(torch.tensor([whole])).logits[0].numpy(), expected)
    check(executor(tmp_path / "out").step([Chunk(whole, 0, range(4))], every_row=True), expected)


def executor(path):
    return ProgramExecutor(load_network(open_checkpoint(path)), 4, CONTEXT, chunk=128)


def check(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=5e-5 * np.abs(expected).max())
