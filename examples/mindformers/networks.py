"""Makes small networks with random weights: as Hugging Face's transformers has them, and as MindFormers has them.

`python networks.py NAME FOLDER` writes the checkpoint of one, what transformers generates with it on PyTorch, and the
losses of 20 steps of training there.
"""

from __future__ import annotations

import json
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

PROMPTS = [[3, 17, 5, 99, 23, 7], [11, 2, 77]]
NEW_TOKENS = 10
STEPS, BATCH, LENGTH, LEARNING_RATE = 20, 2, 32, 1e-3
SIZES = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "pad_token_id": 0,
}
# Classes in transformers, those in MindFormers with their modules, and what a network has besides.
NETWORKS: dict[str, tuple[str, tuple[str, str], dict[str, Any]]] = {
    "llama": ("Llama", ("mindformers.models.llama", "Llama"), {}),
    "qwen2": ("Qwen2", ("mindformers.models.qwen2", "Qwen2"), {"attention_bias": True}),
    "qwen3": ("Qwen3", ("mindformers.models.qwen3", "Qwen3"), {"head_dim": 16}),
    "qwen3_moe": (
        "Qwen3Moe",
        ("mindformers.models.qwen3_moe", "Qwen3Moe"),
        {
            "head_dim": 16,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "norm_topk_prob": True,
        },
    ),
    "deepseek_v3": (
        "DeepseekV3",
        ("mindformers.models.deepseek3", "DeepseekV3"),
        {
            "num_key_value_heads": 4,
            "q_lora_rank": 24,
            "kv_lora_rank": 512,  # MindFormers has no other
            "qk_nope_head_dim": 16,
            "qk_rope_head_dim": 8,
            "v_head_dim": 16,
            "first_k_dense_replace": 1,
            "n_routed_experts": 8,
            "n_shared_experts": 1,
            "num_experts_per_tok": 4,
            "n_group": 4,
            "topk_group": 2,
            "moe_intermediate_size": 32,
            "routed_scaling_factor": 2.5,
            "rope_scaling": {
                "type": "yarn",
                "rope_type": "yarn",
                "factor": 40,
                "beta_fast": 32,
                "beta_slow": 1,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
                "original_max_position_embeddings": 64,
            },
            "norm_topk_prob": True,
        },
    ),
    "glm4": (
        "Glm4",
        ("mindformers.models.glm4", "Glm4"),
        {"head_dim": 16, "partial_rotary_factor": 0.5, "attention_bias": True},
    ),
}


def batches() -> list[Any]:
    """Return four batches of random tokens: of each row, all but the last are input, all but the first are labels."""
    return list(np.random.default_rng(0).integers(1, 128, (4, BATCH, LENGTH + 1)).astype(np.int32))


def losses(model: Any) -> list[float]:
    """Returns the losses of a network of transformers."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    values = []
    for step in range(STEPS):
        tokens = torch.from_numpy(batches()[step % 4]).long()
        logits = model(tokens[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        values.append(loss.item())
    return values


def generated(model: Any) -> list[list[int]]:
    import torch

    return [model.generate(torch.tensor([p]), max_new_tokens=NEW_TOKENS, do_sample=False)[0].tolist() for p in PROMPTS]


def write(name: str, folder: Path) -> None:
    """Write the checkpoint, the tokens and the losses of one network."""
    import torch
    import transformers

    stem, _, extra = NETWORKS[name]
    torch.manual_seed(0)
    config = getattr(transformers, f"{stem}Config")(**(SIZES | extra), eos_token_id=None, initializer_range=0.3)
    model = getattr(transformers, f"{stem}ForCausalLM")(config).eval().float()
    for parameter_name, parameter in model.named_parameters():
        if parameter_name.endswith("bias"):  # zeros would not show whether they are there
            torch.nn.init.normal_(parameter, 0.0, 0.3)
    model.save_pretrained(folder)
    # In float16, too, which is what an NPU takes: where two tokens are nearly as good, it chooses another one.
    tokens = {"float32": generated(model), "float16": generated(deepcopy(model).half())}
    (folder / "tokens.json").write_text(json.dumps(tokens))
    (folder / "losses.json").write_text(json.dumps(losses(model)))


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
