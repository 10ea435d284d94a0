"""Small models with random weights, as files of each kind."""

import json
import math
from dataclasses import replace

import gguf
import numpy as np
import tokenizers
from gguf.quants import quantize
from safetensors.numpy import save_file
from tokenizers import AddedToken, decoders, models, pre_tokenizers

from ms_ascend_ops.llm.checkpoints.checkpoint import expected_shapes
from ms_ascend_ops.llm.config import ModelConfig, RopeScaling

# Byte-level: each byte, some merges, the tokens of control. Cells of 32 for quantized rows; heads that share keys.
MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r"]
CONTROL = ["<|im_start|>", "<|im_end|>"]
TOKENS = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *[merge.replace(" ", "") for merge in MERGES], *CONTROL]
END = len(TOKENS) - 1
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CONFIG = ModelConfig(
    architecture="llama", layers=2, hidden=64, feed_forward=96, heads=4, key_heads=2, head_size=16,
    vocabulary=len(TOKENS), context=256, epsilon=1e-5, rope_base=10000.0, end_tokens=(END,),
)  # fmt: skip
VARIANTS = {
    "llama": CONFIG,
    "mistral": replace(CONFIG, architecture="mistral", tied_embedding=False, key_heads=1),
    "qwen2": replace(CONFIG, architecture="qwen2", qkv_bias=True, epsilon=1e-6),
    # Heads that are larger than hidden / heads.
    "qwen3": replace(CONFIG, architecture="qwen3", head_size=32, rope_base=1e6),
}
_LONGROPE = RopeScaling(
    "longrope", original_context=40, attention_factor=1.25, short_factors=tuple(1 + 0.125 * i for i in range(8)),
    long_factors=tuple(1 + 0.5 * i for i in range(8)),
)  # fmt: skip
_YARN = RopeScaling("yarn", 4.0, original_context=64, attention_factor=1 + 0.1 * math.log(4))
# Architectures with parts of their own: windows, norms in other places, fused matrices, other rotary angles.
FAMILIES = {
    "yarn": replace(VARIANTS["qwen2"], rope_scaling=_YARN),
    "qwen2, windows": replace(VARIANTS["qwen2"], windows=(20, 20)),
    "phi3": replace(CONFIG, architecture="phi3", tied_embedding=False, windows=(20, 20), rope_scaling=_LONGROPE),
    "phi3, half": replace(CONFIG, architecture="phi3", tied_embedding=False, rotary=8),
    "olmo2": replace(CONFIG, architecture="olmo2", tied_embedding=False),
    "glm4": replace(CONFIG, architecture="glm4", tied_embedding=False, qkv_bias=True, rotary=8),
    "gemma2": replace(CONFIG, architecture="gemma2", head_size=32, windows=(20, 0), score_cap=2.0, logit_cap=3.0),
    "gemma3": replace(
        CONFIG,
        architecture="gemma3_text",
        layers=6,
        head_size=32,
        windows=(20,) * 5 + (0,),
        rope_base=1e6,
        local_base=1e4,
        rope_scaling=RopeScaling("linear", 8.0),
    ),
    "mixtral": replace(
        CONFIG, architecture="mixtral", tied_embedding=False, experts=4, experts_used=2, normalized_experts=True
    ),
    "qwen3_moe": replace(
        CONFIG,
        architecture="qwen3_moe",
        tied_embedding=False,
        feed_forward=32,
        experts=8,
        experts_used=3,
        normalized_experts=True,
    ),
}
GGUF_NAMES = {"gemma3_text": "gemma3", "mixtral": "llama", "qwen3_moe": "qwen3moe"}

_GGUF_LAYER = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "post_self_attn_layernorm": "post_attention_norm",
    "mlp.gate": "ffn_gate_inp", "mlp.experts.gate_proj": "ffn_gate_exps", "mlp.experts.up_proj": "ffn_up_exps",
    "mlp.experts.down_proj": "ffn_down_exps", "post_mlp_layernorm": "post_ffw_norm",
    "self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up",
}  # fmt: skip
_GGUF_TOP = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
    "rope_factors": "rope_freqs.weight",
    "rope_factors_long": "rope_factors_long.weight",
    "rope_factors_short": "rope_factors_short.weight",
}


def random_weights(config, seed=0):
    """Weights under which activations keep their size; float32."""
    rng = np.random.default_rng(seed)
    weights = {}
    for name, shape in expected_shapes(config).items():
        if "norm" in name:
            # On a grid, so that nothing is lost where 1 is added.
            values = np.rint(0.2 * 4096 * rng.standard_normal(shape)) / 4096
            values += 0 if config.family.one_plus_gamma else 1
        elif name.endswith("bias"):
            values = 0.3 * rng.standard_normal(shape)
        else:
            scale = 1 / config.embedding_scale if "embed" in name else shape[1] ** -0.5
            values = rng.standard_normal(shape) * scale
        weights[name] = values.astype(np.float32)
    return weights


def doubles(weights):
    return {name: np.asarray(value, np.float64) for name, value in weights.items()}


def backend():
    model = models.BPE({token: i for i, token in enumerate(TOKENS)}, [tuple(merge.split()) for merge in MERGES])
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in CONTROL])
    return made


def config_json(config):
    data = {
        "model_type": config.architecture,
        "hidden_size": config.hidden,
        "intermediate_size": config.feed_forward,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.key_heads,
        "head_dim": config.head_size,
        "vocab_size": config.vocabulary,
        "max_position_embeddings": config.context,
        "rms_norm_eps": config.epsilon,
        "rope_theta": config.rope_base,
        "hidden_act": "silu",
        "tie_word_embeddings": config.tied_embedding,
        "eos_token_id": list(config.end_tokens),
    }
    scaling = config.rope_scaling
    if scaling is not None:
        data["rope_scaling"] = {
            "rope_type": scaling.kind, "factor": scaling.factor, "low_freq_factor": scaling.low_freq_factor,
            "high_freq_factor": scaling.high_freq_factor,
            "original_max_position_embeddings": scaling.original_context,
        }  # fmt: skip
    return data


def write_directory(path, config=CONFIG, weights=None, files=1, **changes):
    """A directory of Hugging Face's, with its weights in some files."""
    path.mkdir(parents=True, exist_ok=True)
    weights = random_weights(config) if weights is None else weights
    (path / "config.json").write_text(json.dumps(config_json(config) | changes))
    (path / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    backend().save(str(path / "tokenizer.json"))
    if files == 1:
        save_file(weights, path / "model.safetensors")
        return path
    place = {}
    for index in range(files):
        file = f"model-{index + 1:05}-of-{files:05}.safetensors"
        part = {name: weights[name] for name in list(weights)[index::files]}
        save_file(part, path / file)
        place |= dict.fromkeys(part, file)
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": place}))
    return path


def write_gguf(path, config=CONFIG, weights=None, kind="F32", leave_out=(), fields=None):
    """A GGUF file. Matrices are of `kind`; norms and biases float32, as llama.cpp's converter leaves them.

    A weight may be rows of bytes with their type, too.
    """
    weights = _fused(config, random_weights(config) if weights is None else weights)
    fields = _fields(config) | (fields or {})
    writer = gguf.GGUFWriter(str(path), GGUF_NAMES.get(config.architecture, config.architecture))
    writer.add_block_count(config.layers)
    writer.add_context_length(config.context)
    writer.add_embedding_length(config.hidden)
    writer.add_feed_forward_length(config.feed_forward)
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.key_heads)
    writer.add_key_length(config.head_size)
    writer.add_value_length(config.head_size)
    writer.add_layer_norm_rms_eps(config.epsilon)
    writer.add_rope_freq_base(config.rope_base)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(TOKENS)
    writer.add_token_types([3 if token in CONTROL else 1 for token in TOKENS])
    writer.add_token_merges(MERGES)
    writer.add_eos_token_id(END)
    writer.add_chat_template(TEMPLATE)
    for key, value in fields.items():
        method = {str: "add_string", float: "add_float32", bool: "add_bool"}.get(type(value), "add_uint32")
        getattr(writer, method)(key, value)
    for name, value in weights.items():
        if name not in leave_out:
            _add(writer, config, name, value, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _fields(config):
    """Keys of what sets an architecture apart."""
    fields, scaling, name = {}, config.rope_scaling, GGUF_NAMES.get(config.architecture, config.architecture)
    if config.architecture == "gemma2":
        fields[f"{name}.attn_logit_softcapping"] = config.score_cap
        fields[f"{name}.final_logit_softcapping"] = config.logit_cap
    if config.experts:
        fields |= {f"{name}.expert_count": config.experts, f"{name}.expert_used_count": config.experts_used}
    if config.architecture == "qwen3_moe":
        fields[f"{name}.expert_feed_forward_length"] = config.feed_forward
    if scaling is not None and scaling.kind == "linear":
        fields[f"{name}.rope.scaling.factor"] = scaling.factor
    if config.windows:
        fields[f"{name}.attention.sliding_window"] = config.windows[0]
    if config.rotary:
        fields[f"{name}.rope.dimension_count"] = config.rotary
    if scaling is not None and scaling.kind in ("yarn", "longrope"):
        fields[f"{name}.rope.scaling.type"] = scaling.kind
        fields[f"{name}.rope.scaling.original_context_length"] = scaling.original_context
    if scaling is not None and scaling.kind == "yarn":
        fields[f"{name}.rope.scaling.factor"] = scaling.factor
    if scaling is not None and scaling.kind == "longrope":
        fields[f"{name}.rope.scaling.attn_factor"] = scaling.attention_factor
    return fields


def _fused(config, weights):
    """The weights as files of the architecture have them, with factors of rotary frequencies."""
    parts = {"phi3": {"self_attn.qkv_proj": "qkv", "mlp.gate_up_proj": ("gate", "up")},
             "glm4": {"mlp.gate_up_proj": ("gate", "up")}}.get(config.architecture, {})  # fmt: skip
    weights = dict(weights)
    if config.family.one_plus_gamma:  # as llama.cpp's converter has them
        weights = {name: value + 1 if name.endswith("norm.weight") else value for name, value in weights.items()}
    for layer in range(config.layers if config.experts else 0):
        prefix = f"model.layers.{layer}.mlp.experts."
        for kind in ("gate_proj.weight", "up_proj.weight", "down_proj.weight"):
            held = [weights.pop(f"{prefix}{expert}.{kind}") for expert in range(config.experts)]
            weights[prefix + kind] = np.stack(held)
    for layer in range(config.layers):
        for fused, names in parts.items():
            prefix = f"model.layers.{layer}.{fused.partition('.')[0]}."
            held = [weights.pop(f"{prefix}{name}_proj.weight") for name in names]
            weights[f"model.layers.{layer}.{fused}.weight"] = np.concatenate(held)
    if config.rope_scaling is not None and config.rope_scaling.kind == "longrope":
        weights["rope_factors_long"] = np.array(config.rope_scaling.long_factors, np.float32)
        weights["rope_factors_short"] = np.array(config.rope_scaling.short_factors, np.float32)
    return weights


def _add(writer, config, name, value, kind):
    value, its = value if isinstance(value, tuple) else (value, None)
    if config.architecture in ("llama", "mixtral") and name.endswith(("q_proj.weight", "k_proj.weight")):
        heads = config.heads if "q_proj" in name else config.key_heads
        # As the converter does: the two halves of a head alternate.
        value = value.reshape(heads, 2, -1, value.shape[1]).swapaxes(1, 2).reshape(value.shape)
    tensor = gguf_name(name)
    if its is not None:
        writer.add_tensor(tensor, np.ascontiguousarray(value), raw_dtype=its)
    elif value.ndim == 1 or kind == "F32":
        writer.add_tensor(tensor, np.ascontiguousarray(value))
    elif kind == "F16":
        writer.add_tensor(tensor, value.astype(np.float16))
    else:
        its = gguf.GGMLQuantizationType[kind]
        writer.add_tensor(tensor, quantize(np.ascontiguousarray(value), its), raw_dtype=its)


def gguf_name(name):
    if name in _GGUF_TOP:
        return _GGUF_TOP[name]
    _, _, layer, *middle, last = name.split(".")
    return f"blk.{layer}.{_GGUF_LAYER['.'.join(middle)]}.{last}"
