"""A decoder of the LLaMA family in float64, one sequence at once, straight from the equations."""

import math

import numpy as np


def logits(config, weights, ids, context=None):
    """Logits behind every token, (tokens, vocabulary). `weights` has the names of Llama's in Hugging Face's files."""
    count = len(ids)
    x = weights["model.embed_tokens.weight"][ids]
    if config.architecture.startswith("gemma"):
        x = x * math.sqrt(config.hidden)
        weights = {name: value + 1 if name.endswith("norm.weight") else value for name, value in weights.items()}
    global_angles = np.arange(count)[:, None] * frequencies(config, context or config.context)
    local_angles = np.arange(count)[:, None] * (config.local_base or 1) ** -(
        np.arange(0, config.head_size, 2) / config.head_size
    )
    behind = np.arange(count)[:, None] - np.arange(count)
    for index in range(config.layers):
        w = {name: value for name, value in _layer(weights, index)}  # noqa: C416 - a view with short names
        window = config.windows[index] if config.windows else 0
        mask = np.where((behind >= 0) & ((behind < window) | (window == 0)), 0.0, -np.inf)
        y = _norm_if(x, w, "input_layernorm", config)
        query, key, value = (_linear(y, w, f"self_attn.{name}_proj") for name in "qkv")
        if config.architecture == "olmo2":  # of all heads
            query = _norm(query, w["self_attn.q_norm.weight"], config.epsilon)
            key = _norm(key, w["self_attn.k_norm.weight"], config.epsilon)
        query, key, value = (one.reshape(count, -1, config.head_size).swapaxes(0, 1) for one in (query, key, value))
        if config.query_key_norm and config.architecture != "olmo2":
            query = _norm(query, w["self_attn.q_norm.weight"], config.epsilon)
            key = _norm(key, w["self_attn.k_norm.weight"], config.epsilon)
        angles = local_angles if config.local_base and window else global_angles
        query, key = _turned(query, angles, config), _turned(key, angles, config)
        shared = config.heads // config.key_heads
        key, value = np.repeat(key, shared, axis=0), np.repeat(value, shared, axis=0)
        scores = _capped(query @ key.swapaxes(1, 2) / math.sqrt(config.head_size), config.score_cap) + mask
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        attended = scores / scores.sum(-1, keepdims=True) @ value
        attended = _linear(attended.swapaxes(0, 1).reshape(count, -1), w, "self_attn.o_proj")
        x = x + _norm_if(attended, w, "post_self_attn_layernorm", config)
        y = _norm_if(x, w, "post_attention_layernorm", config)
        down = _experts(y, w, config) if config.experts else _feed_forward(y, w, "mlp.", config)
        x = x + _norm_if(down, w, "post_mlp_layernorm", config)
    x = _norm(x, weights["model.norm.weight"], config.epsilon)
    head = "model.embed_tokens.weight" if config.tied_embedding else "lm_head.weight"
    return _capped(x @ weights[head].T, config.logit_cap)


def _capped(x, cap):
    return cap * np.tanh(x / cap) if cap else x


def _feed_forward(y, w, prefix, config):
    gate, up = _linear(y, w, f"{prefix}gate_proj"), _linear(y, w, f"{prefix}up_proj")
    if config.architecture.startswith("gemma"):
        gate = 0.5 * gate * (1 + np.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)))
    else:
        gate = gate / (1 + np.exp(-gate))
    return _linear(gate * up, w, f"{prefix}down_proj")


def _experts(y, w, config):
    """Token by token."""
    result = np.zeros_like(y)
    for token, x in enumerate(y):
        shares = np.exp(w["mlp.gate.weight"] @ x)
        shares /= shares.sum()
        chosen = np.argsort(-shares)[: config.experts_used]
        total = shares[chosen].sum() if config.normalized_experts else 1.0
        for expert in chosen:
            result[token] += shares[expert] / total * _feed_forward(x, w, f"mlp.experts.{expert}.", config)
    return result


def greedy(config, weights, ids, count):
    """The most likely tokens behind these."""
    ids = list(ids)
    for _ in range(count):
        ids.append(int(logits(config, weights, ids)[-1].argmax()))
    return ids[-count:]


def frequencies(config, context=0):
    size = config.rotary or config.head_size
    pairs = np.arange(0, size, 2) / size
    plain = 1 / config.rope_base**pairs
    scaling = config.rope_scaling
    if scaling is None:
        return plain
    if scaling.kind == "linear":
        return plain / scaling.factor
    if scaling.kind == "longrope":
        return plain / np.array(scaling.long_factors if context > scaling.original_context else scaling.short_factors)
    if scaling.kind == "yarn":
        return np.array([_yarn(config, scaling, pair, frequency) for pair, frequency in enumerate(plain)])
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


def _yarn(config, scaling, pair, frequency):
    """As often as it turns within the original context, so little is a pair stretched."""
    size = config.rotary or config.head_size

    def pair_that_turns(times):
        return size * math.log(scaling.original_context / (times * 2 * math.pi)) / (2 * math.log(config.rope_base))

    kept, stretched = max(math.floor(pair_that_turns(32)), 0), min(math.ceil(pair_that_turns(1)), size - 1)
    if pair <= kept:
        return frequency
    share = min((pair - kept) / (stretched - kept), 1)
    return frequency / scaling.factor * share + frequency * (1 - share)


def _norm_if(x, w, name, config):
    return _norm(x, w[f"{name}.weight"], config.epsilon) if f"{name}.weight" in w else x


def _layer(weights, index):
    prefix = f"model.layers.{index}."
    return [(name.removeprefix(prefix), value) for name, value in weights.items() if name.startswith(prefix)]


def _norm(x, gamma, epsilon):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * gamma


def _linear(x, w, name):
    return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0.0)


def _turned(x, angles, config):
    size = config.rotary or config.head_size
    x, others = x[..., :size], x[..., size:]
    scale = 1.0 if config.rope_scaling is None else config.rope_scaling.attention_factor
    rotated = np.exp(1j * angles) * scale
    if config.architecture == "glm4":  # pairs are neighbours
        rotated = (x[..., 0::2] + 1j * x[..., 1::2]) * rotated
        return np.concatenate((np.stack((rotated.real, rotated.imag), -1).reshape(x.shape), others), -1)
    first, second = np.split(x, 2, axis=-1)
    rotated = (first + 1j * second) * rotated
    return np.concatenate((rotated.real, rotated.imag, others), -1)
