"""A decoder of the LLaMA family in float64, one sequence at once, straight from the equations."""

import math

import numpy as np


def logits(config, weights, ids):
    """Logits behind every token, (tokens, vocabulary). `weights` has the names of Hugging Face."""
    count = len(ids)
    x = weights["model.embed_tokens.weight"][ids]
    angles = np.arange(count)[:, None] * frequencies(config)
    mask = np.where(np.tri(count, dtype=bool), 0.0, -np.inf)
    for index in range(config.layers):
        w = {name: value for name, value in _layer(weights, index)}  # noqa: C416 - a view with short names
        y = _norm(x, w["input_layernorm.weight"], config.epsilon)
        query, key, value = (
            _linear(y, w, f"self_attn.{name}_proj").reshape(count, -1, config.head_size).swapaxes(0, 1)
            for name in "qkv"
        )
        if config.query_key_norm:
            query = _norm(query, w["self_attn.q_norm.weight"], config.epsilon)
            key = _norm(key, w["self_attn.k_norm.weight"], config.epsilon)
        query, key = _turned(query, angles), _turned(key, angles)
        shared = config.heads // config.key_heads
        key, value = np.repeat(key, shared, axis=0), np.repeat(value, shared, axis=0)
        scores = query @ key.swapaxes(1, 2) / math.sqrt(config.head_size) + mask
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        attended = scores / scores.sum(-1, keepdims=True) @ value
        x = x + _linear(attended.swapaxes(0, 1).reshape(count, -1), w, "self_attn.o_proj")
        y = _norm(x, w["post_attention_layernorm.weight"], config.epsilon)
        gate, up = _linear(y, w, "mlp.gate_proj"), _linear(y, w, "mlp.up_proj")
        x = x + _linear(gate / (1 + np.exp(-gate)) * up, w, "mlp.down_proj")
    x = _norm(x, weights["model.norm.weight"], config.epsilon)
    head = "model.embed_tokens.weight" if config.tied_embedding else "lm_head.weight"
    return x @ weights[head].T


def greedy(config, weights, ids, count):
    """The most likely tokens behind these."""
    ids = list(ids)
    for _ in range(count):
        ids.append(int(logits(config, weights, ids)[-1].argmax()))
    return ids[-count:]


def frequencies(config):
    pairs = np.arange(0, config.head_size, 2) / config.head_size
    plain = 1 / config.rope_base**pairs
    scaling = config.rope_scaling
    if scaling is None:
        return plain
    if scaling.kind == "linear":
        return plain / scaling.factor
    result = []
    for frequency in plain:
        wave = 2 * math.pi / frequency
        low, high = (
            scaling.original_context / factor for factor in (scaling.low_freq_factor, scaling.high_freq_factor)
        )
        if wave < high:
            result.append(frequency)
        elif wave > low:
            result.append(frequency / scaling.factor)
        else:
            smooth = (scaling.original_context / wave - scaling.low_freq_factor) / (
                scaling.high_freq_factor - scaling.low_freq_factor
            )
            result.append((1 - smooth) * frequency / scaling.factor + smooth * frequency)
    return np.array(result)


def _layer(weights, index):
    prefix = f"model.layers.{index}."
    return [(name.removeprefix(prefix), value) for name, value in weights.items() if name.startswith(prefix)]


def _norm(x, gamma, epsilon):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * gamma


def _linear(x, w, name):
    return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0.0)


def _turned(x, angles):
    first, second = np.split(x, 2, axis=-1)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate((first * cos - second * sin, second * cos + first * sin), -1)
