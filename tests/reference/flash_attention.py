"""Attention and its gradients in float64, with the whole matrix of scores."""

import numpy as np


def _heads_first(x, layout):
    return x if layout == "BNSD" else x.swapaxes(1, 2)


def _probabilities(query, key, mask, scale, causal, window, softcap=0.0):
    """Of all heads, keys repeated; and the log-sum-exp. A query that sees nothing has zeros and -inf."""
    key = np.repeat(key, query.shape[1] // key.shape[1], axis=1)
    s, t = query.shape[2], key.shape[2]
    behind = np.arange(s)[:, None] + t - s - np.arange(t)  # how far a key is behind the query
    seen = np.ones((s, t), bool)
    if causal:
        seen &= behind >= 0
    if window:
        seen &= behind < window
    scores = scale * query @ key.swapaxes(-1, -2)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    scores = scores + (0 if mask is None else mask)
    scores = np.where(seen, scores, -np.inf)
    largest = scores.max(-1, keepdims=True, initial=-np.inf)
    largest = np.where(np.isfinite(largest), largest, 0)
    exponentials = np.exp(scores - largest)
    total = exponentials.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (largest + np.log(total))[..., 0]
    return exponentials / np.where(total == 0, 1, total), lse


def forward(query, key, value, mask=None, scale=1.0, causal=False, window=0, layout="BNSD", softcap=0.0):
    """(out, lse)"""
    query, key, value = (_heads_first(x, layout) for x in (query, key, value))
    probabilities, lse = _probabilities(query, key, mask, scale, causal, window, softcap)
    value = np.repeat(value, query.shape[1] // value.shape[1], axis=1)
    return _heads_first(probabilities @ value, layout), lse


def backward(dout, query, key, value, mask=None, scale=1.0, causal=False, window=0, layout="BNSD", combine=None):
    """(dquery, dkey, dvalue) of sum(dout * out). With `combine`, the sums of magnitudes: pass np.abs."""
    magnitude = combine or (lambda x: x)
    dout, query, key, value = (_heads_first(x, layout) for x in (dout, query, key, value))
    shared = query.shape[1] // key.shape[1]
    probabilities, _ = _probabilities(query, key, mask, scale, causal, window)
    keys, values = (np.repeat(x, shared, axis=1) for x in (key, value))
    dp = magnitude(dout) @ magnitude(values).swapaxes(-1, -2)
    delta = (probabilities * dp).sum(-1, keepdims=True)
    ds = probabilities * (dp + delta if combine else dp - delta) * abs(scale)
    ds = ds if combine or scale > 0 else -ds

    def of_key_heads(x):
        return x.reshape(x.shape[0], x.shape[1] // shared, shared, *x.shape[2:]).sum(2)

    dquery = ds @ magnitude(keys)
    dkey = of_key_heads(ds.swapaxes(-1, -2) @ magnitude(query))
    dvalue = of_key_heads(probabilities.swapaxes(-1, -2) @ magnitude(dout))
    return tuple(_heads_first(x, layout) for x in (dquery, dkey, dvalue))


def mask_gradient(dout, query, key, value, mask, scale=1.0, causal=False, window=0, layout="BNSD"):
    """The gradient of the mask of sum(dout * out), and the sums of magnitudes."""
    dout, query, key, value = (_heads_first(x, layout) for x in (dout, query, key, value))
    probabilities, _ = _probabilities(query, key, mask, scale, causal, window)
    value = np.repeat(value, query.shape[1] // value.shape[1], axis=1)
    dp = dout @ value.swapaxes(-1, -2)
    delta = (probabilities * dp).sum(-1, keepdims=True)
    broadcast = tuple(i for i, size in enumerate(mask.shape) if size == 1)
    terms = probabilities * (np.abs(dout) @ np.abs(value).swapaxes(-1, -2) + np.abs(delta))
    return [x.sum(broadcast, keepdims=True) for x in (probabilities * (dp - delta), terms)]


def backward_terms(*arguments, **attributes):
    """The sums of backward(), of magnitudes."""
    return backward(*arguments, **attributes, combine=np.abs)
