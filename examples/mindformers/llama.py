"""Builds MindFormers' Llama: with the settings for an NPU, or with those that stock MindSpore runs on a CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from networks import SIZES

# Parts of names in transformers, and what MindFormers calls them.
_NAMES = {
    "embed_tokens.weight": "tok_embeddings.embedding_weight",
    "model.norm": "model.norm_out",
    "self_attn.q_proj": "attention.wq",
    "self_attn.k_proj": "attention.wk",
    "self_attn.v_proj": "attention.wv",
    "self_attn.o_proj": "attention.wo",
    "mlp.gate_proj": "feed_forward.w1",
    "mlp.down_proj": "feed_forward.w2",
    "mlp.up_proj": "feed_forward.w3",
    "post_attention_layernorm": "ffn_norm",
    "input_layernorm": "attention_norm",
}


def llama(*, npu: bool, use_past: bool, seq_length: int = 64, dtype: str = "float32") -> Any:
    """Build a network of MindFormers. `npu`: with flash attention and its fused norm."""
    from mindformers.models.llama import LlamaConfig, LlamaForCausalLM

    exact = ("layernorm_compute_type", "softmax_compute_type")
    dtypes = ("compute_dtype", "rotary_dtype", "param_init_type")
    config = LlamaConfig(
        batch_size=1,
        seq_length=seq_length,
        hidden_size=SIZES["hidden_size"],
        num_layers=SIZES["num_hidden_layers"],
        num_heads=SIZES["num_attention_heads"],
        n_kv_heads=SIZES["num_key_value_heads"],
        vocab_size=SIZES["vocab_size"],
        intermediate_size=SIZES["intermediate_size"],
        theta=SIZES["rope_theta"],
        rms_norm_eps=SIZES["rms_norm_eps"],
        use_past=use_past,
        use_flash_attention=npu,
        fused_rms_norm=npu,
        use_rope_slice=not npu,
        is_dynamic=use_past,
        block_size=16,
        num_blocks=16,
        pad_token_id=0,
        eos_token_id=-1,
        **dict.fromkeys(exact, "float32"),
        **dict.fromkeys(dtypes, dtype),
    )
    return LlamaForCausalLM(config)


def load(net: Any, folder: Path) -> None:
    """Load the weights that transformers wrote."""
    from mindspore import Tensor
    from safetensors.numpy import load_file

    parameters = {p.name: p for p in net.get_parameters()}
    for name, value in load_file(folder / "model.safetensors").items():
        for theirs, ours in _NAMES.items():
            name = name.replace(theirs, ours)  # noqa: PLW2901
        parameters[name].set_data(Tensor(value).astype(parameters[name].dtype))
