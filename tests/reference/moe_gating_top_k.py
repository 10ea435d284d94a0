"""The best experts of tokens in float64, by NumPy's stable sort."""

import numpy as np


def _scores(x, scoring):
    with np.errstate(over="ignore", invalid="ignore"):
        if scoring == "sigmoid":
            return 1 / (1 + np.exp(-x))
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)


def _best(values, k):
    """The places of the k largest, the first of equal ones first."""
    return np.argsort(-values, -1, kind="stable")[..., :k]


def chosen_by(x, bias=None, scoring="softmax", group_count=1, k_group=1, group_score="max"):
    """What experts are picked by; -inf for those of other groups."""
    values = _scores(x, scoring) + (0 if bias is None else bias)
    if group_count > 1:
        groups = values.reshape(*values.shape[:-1], group_count, values.shape[-1] // group_count)
        best = np.sort(groups, -1)[..., -(2 if group_score == "top2" else 1) :].sum(-1)
        open_ = np.zeros(best.shape, bool)
        np.put_along_axis(open_, _best(best, k_group), True, -1)
        values = np.where(open_[..., None], groups, -np.inf).reshape(values.shape)
    return values


def weights_of(x, experts, k=1, scoring="softmax", renormalize=True, scale=1.0, epsilon=1e-20, **_):
    weights = np.take_along_axis(_scores(x, scoring), np.asarray(experts).astype(int), -1)
    if renormalize:
        weights = weights / (weights.sum(-1, keepdims=True) + epsilon)
    return weights * scale


def forward(
    x, bias=None, k=1, scoring="softmax", renormalize=True, group_count=1, k_group=1, group_score="max", scale=1.0,
    epsilon=1e-20,
):  # fmt: skip
    experts = _best(chosen_by(x, bias, scoring, group_count, k_group, group_score), k)
    return weights_of(x, experts, k, scoring, renormalize, scale, epsilon), experts


def backward(dweights, x, experts, k=1, scoring="softmax", renormalize=True, scale=1.0, epsilon=1e-20, **_):
    """Of x."""
    experts = np.asarray(experts).astype(int)
    scores = _scores(x, scoring)
    dw = dweights * scale
    if renormalize:
        taken = np.take_along_axis(scores, experts, -1)
        total = taken.sum(-1, keepdims=True) + epsilon
        dw = (dw - (dw * taken).sum(-1, keepdims=True) / total) / total
    dscores = np.zeros_like(scores)
    np.put_along_axis(dscores, experts, dw, -1)
    if scoring == "sigmoid":
        return dscores * scores * (1 - scores)
    return scores * (dscores - (dscores * scores).sum(-1, keepdims=True))


def backward_terms(dweights, x, experts, k=1, scoring="softmax", renormalize=True, scale=1.0, epsilon=1e-20, **_):
    """Magnitudes of what the gradient adds up."""
    experts = np.asarray(experts).astype(int)
    scores = _scores(x, scoring)
    dw = np.abs(dweights) * scale
    if renormalize:
        taken = np.take_along_axis(scores, experts, -1)
        total = taken.sum(-1, keepdims=True) + epsilon
        dw = (dw + (dw * taken).sum(-1, keepdims=True) / total) / total
    dscores = np.zeros_like(scores)
    np.put_along_axis(dscores, experts, dw, -1)
    if scoring == "sigmoid":
        return dscores * scores
    return scores * (dscores + (dscores * scores).sum(-1, keepdims=True))
