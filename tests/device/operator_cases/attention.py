"""Attention, rotary embeddings, experts and quantization."""

import numpy as np

from tests.device.operator_cases import gradients

BATCH, HEADS, KEYS, ROWS, COLUMNS, SIZE = 2, 4, 2, 3, 4, 2
SCALE = 0.75
MASK = np.array([[0, 1, 0, 1], [0, 0, 1, 0], [1, 0, 0, 0]], bool)
FAR = 2**31 - 1


def _attended(q, k, v, shift=None, hidden=None, scale=SCALE, shift_first=True):
    """Of (batch, heads, tokens, size), head by head; each key head serves neighbours."""
    out = np.zeros((*q.shape[:3], v.shape[3]))
    for b, h in np.ndindex(*q.shape[:2]):
        head = h // (q.shape[1] // k.shape[1])
        scores = q[b, h] @ k[b, head].T
        if shift is not None:
            scores = scores + (shift[b, h] if shift_first else shift[b, h] / scale)
        powers = np.exp(scores * scale)
        powers = powers if hidden is None else powers * ~(hidden if hidden.ndim == 2 else hidden[b])
        out[b, h] = powers @ v[b, head] / powers.sum(1, keepdims=True)
    return out


def _flat(x):
    return x.swapaxes(1, 2).reshape(len(x), x.shape[2], -1)


def _tensors(draw):
    return draw(BATCH, HEADS, ROWS, SIZE), draw(BATCH, KEYS, COLUMNS, SIZE), draw(BATCH, KEYS, COLUMNS, SIZE)


def _score(version):
    def made(draw):
        q, k, v = _tensors(draw)
        shift = draw(BATCH, HEADS, ROWS, COLUMNS)
        more = [None, None] if version == 2 else []
        inputs = [_flat(q), _flat(k), _flat(v), shift, None, None, MASK, [], *more]
        inputs += [SCALE, 1.0, FAR, FAR, HEADS, "BSH", 0, 0, *[1] * len(more[:1])]
        return inputs, [None, None, None, _flat(_attended(q, k, v, shift, MASK))]

    return made


def _score_grad(version):
    def made(draw):
        q, k, v = _tensors(draw)
        shift, dy = draw(BATCH, HEADS, ROWS, COLUMNS), draw(BATCH, HEADS, ROWS, SIZE)
        more = [None, None] if version == 2 else []
        inputs = [q, k, v, dy, shift, None, None, MASK, None, None, None, None, None, *more]
        inputs += [SCALE, 1.0, FAR, FAR, HEADS, "BNSD", 0, 0, *[1] * len(more[:1])]
        return inputs, gradients(lambda *x: _attended(*x, MASK), [q, k, v, shift], dy)

    return made


def _causal(rows, columns):
    """The last query sees all keys."""
    return np.arange(columns) > np.arange(rows)[:, None] + columns - rows


def _varlen(q, k, v):
    """Two sequences, of one and two queries, and three and one keys, the last ones of which see all."""
    parts = []
    for rows, columns in ((slice(0, 1), slice(0, 3)), (slice(1, 3), slice(3, 5))):
        heads = [x[at].swapaxes(0, 1)[None] for x, at in ((q, rows), (k, columns), (v, columns))]
        hidden = _causal(rows.stop - rows.start, columns.stop - columns.start)
        parts.append(_attended(*heads, None, hidden)[0].swapaxes(0, 1))
    return np.concatenate(parts)


_ENDS = ([1, 3], [3, 5])


def _varlen_score(version):
    def made(draw):
        q, k, v = draw(3, HEADS, SIZE), draw(5, KEYS, SIZE), draw(5, KEYS, SIZE)
        more = [None, None] if version == 2 else []
        inputs = [q, k, v, None, None, None, np.zeros((8, 8), bool), None, *_ENDS, *more]
        inputs += [SCALE, 1.0, FAR, 0, HEADS, "TND", 0, 3, *[1] * len(more[:1])]
        return inputs, [None, None, None, _varlen(q, k, v)]

    return made


def _varlen_grad(version):
    def made(draw):
        q, k, v, dy = draw(3, HEADS, SIZE), draw(5, KEYS, SIZE), draw(5, KEYS, SIZE), draw(3, HEADS, SIZE)
        more = [None, None] if version == 2 else []
        inputs = [q, k, v, dy, None, None, None, np.zeros((8, 8), bool), None, None, None, None, None, *_ENDS, *more]
        inputs += [SCALE, 1.0, FAR, 0, HEADS, "TND", 0, 3, *[1] * len(more[:1])]
        return inputs, [*gradients(_varlen, [q, k, v], dy), None]

    return made


def _prompt(draw):
    q, k, v = _tensors(draw)
    inputs = [q, k, v, None, MASK, [], [4, 2], *[None] * 5, HEADS, SCALE, FAR, FAR, "BNSD", KEYS, 0, 1]
    hidden = np.stack([MASK, MASK | (np.arange(4) >= 2)])
    # The third query sees key 1 alone in the second batch: key 0 is hidden.
    return inputs, [_attended(q, k, v, None, hidden)]


def _infer(draw):
    q, k, v = _tensors(draw)
    inputs = [_flat(q), [_flat(k)], [_flat(v)], None, None, None, [3, 4], *[None] * 17]
    inputs[23] = None
    inputs += [HEADS, SCALE, FAR, FAR, "BSH", KEYS, 0, 0, 0, 0, False, 0, 0]
    hidden = np.stack([np.arange(4) >= 3, np.arange(4) >= 4])[:, None] & np.ones((1, ROWS, 1), bool)
    return inputs, [_flat(_attended(q, k, v, None, hidden)), None]


def _incremental(draw):
    """Over blocks of two rows."""
    q = draw(BATCH, HEADS, 1, SIZE)
    caches = draw(2, 4, 2, KEYS * SIZE)
    table = np.array([[3, 0], [1, 2]], np.int32)
    k, v = (cache[table].reshape(BATCH, 4, KEYS, SIZE).swapaxes(1, 2) for cache in caches)
    hidden = np.stack([np.arange(4) >= 3, np.arange(4) >= 4])[:, None]
    inputs = [_flat(q), [caches[0]], [caches[1]], None, None, [3, 4], *[None] * 7, table, None]
    return [*inputs, HEADS, SCALE, "BSH", KEYS, 2, 1], [_flat(_attended(q, k, v, None, hidden))]


def _rotated(x, cos, sin):
    return np.concatenate([x[..., :2] * cos[..., :2] - x[..., 2:] * sin[..., :2],
                           x[..., 2:] * cos[..., 2:] + x[..., :2] * sin[..., 2:]], -1)  # fmt: skip


def _rotary(draw):
    x, cos, sin = draw(2, 3, 2, 4), draw(1, 3, 1, 4), draw(1, 3, 1, 4)
    return [x, cos, sin, 0], [_rotated(x, cos, sin)]


def _rotary_grad(draw):
    x, cos, sin, dy = draw(2, 3, 2, 4), draw(1, 3, 1, 4), draw(1, 3, 1, 4), draw(2, 3, 2, 4)
    return [dy, cos, sin, x, 0], gradients(_rotated, [x, cos, sin], dy)


def _rotary_in_place(draw):
    q, k, cos, sin = draw(2, 3, 2, 4), draw(2, 3, 1, 4), draw(2, 3, 1, 4), draw(2, 3, 1, 4)
    return [q, k, cos, sin, 1], [_rotated(q, cos, sin), _rotated(k, cos, sin)]


def _swiglu(x):
    gate, up = x[:, :2], x[:, 2:]
    return gate / (1 + np.exp(-gate)) * up


def _glu(x):
    return x[:, :2] / (1 + np.exp(-x[:, 2:]))


def _gated(function):
    return lambda draw: ([x := draw(3, 4), 1], [function(x)])


def _gated_grad(function):
    return lambda draw: ([dy := draw(3, 2), x := draw(3, 4), 1], gradients(function, [x], dy))


EXPERTS = np.array([[2, 0], [1, 2], [0, 1]], np.int32)
# The choices of experts 0, 1 and 2 in this order, and where each comes to lie.
ORDER, PLACES = [1, 4, 2, 5, 0, 3], np.array([4, 0, 2, 5, 1, 3], np.int32)


def _permute(draw):
    tokens = draw(3, 4)
    return [tokens, EXPERTS, 0, False], [np.stack([tokens[choice // 2] for choice in ORDER]), PLACES]


def _permuted(tokens):
    return np.stack([tokens[choice // 2] for choice in ORDER])


def _permute_grad(draw):
    dy = draw(6, 4)
    return [dy, PLACES, 2, False], gradients(_permuted, [np.zeros((3, 4))], dy)


def _unpermuted(rows, probs):
    return np.stack([sum(probs[i, j] * rows[PLACES[2 * i + j]] for j in range(2)) for i in range(3)])


def _unpermute(draw):
    rows, probs = draw(6, 4), draw(3, 2)
    return [rows, PLACES, probs, False, None], [_unpermuted(rows, probs)]


def _unpermute_grad(draw):
    rows, probs, dy = draw(6, 4), draw(3, 2), draw(3, 4)
    return [rows, dy, PLACES, probs, False, None], gradients(_unpermuted, [rows, probs], dy)


def _init_routing(draw):
    """Rows are numbered choice by choice: 0 1 2 have the first one, 3 4 5 the second."""
    x, rows = draw(3, 4), np.array([[0, 3], [1, 4], [2, 5]], np.int32)
    order = [3, 2, 1, 5, 0, 4]
    places = np.array([order.index(row) for row in range(6)], np.int32)
    return [x, rows, EXPERTS, 3], [
        np.stack([x[row % 3] for row in order]),
        places,
        np.array([0, 0, 1, 1, 2, 2], np.int32),
    ]


def _init_routing_v2(draw):
    x = draw(3, 4)
    return [x, EXPERTS, 0, 0, 3, 0, 1, False], [_permuted(x), PLACES, np.array([2, 4, 6], np.int32), None]


def _finalize(draw):
    rows, x1, bias, scales = draw(6, 4), draw(3, 4), draw(3, 4), draw(3, 2)
    places = np.array([3, 2, 1, 0, 5, 4], np.int32)
    out = x1.copy()
    for i in range(3):
        for j in range(2):
            out[i] += scales[i, j] * (rows[places[i + 3 * j]] + bias[EXPERTS[i, j]])
    return [rows, x1, None, bias, scales, places, EXPERTS], [out]


def _gating(draw):
    x = draw.random.permutation(12).reshape(3, 4) / 4.0
    weights = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    best = np.array([sorted(range(4), key=lambda at: -row[at])[:2] for row in x], np.int32)
    chosen = np.array([row[at] for row, at in zip(weights, best, strict=True)])
    return [x, None, 2], [chosen, best, np.array([[0, 3], [1, 4], [2, 5]], np.int32)]


def _tokens_of_experts(draw):
    return [np.array([0, 0, 1, 3], np.int32), 4], [np.array([2, 3, 3, 4], np.int32)]


def _grouped(version):
    def made(draw):
        x, weight, bias = draw(5, 3), draw(2, 3, 4), draw(2, 4)
        y = np.concatenate([x[:2] @ weight[0] + bias[0], x[2:] @ weight[1] + bias[1]])
        if version == 4:
            groups = np.array([2, 3])
            rest = [None, groups, None, None, None, 3, 0, 1, 0]
            return [[x], [weight], [bias], *[None] * 4, *rest], [[y], None, None]
        return [[x], [weight], [bias], *[None] * 4, [2, 5] if version == 2 else np.array([2, 5]), 3, 0], [[y]]

    return made


def _numbers(draw, *shape):
    return draw.integers(128, *shape, low=-127, dtype=np.int8)


def _rounded(values):
    return np.clip(np.rint(values), -128, 127).astype(np.int8)


def _quant_matmul(draw):
    x, weight, bias = _numbers(draw, 3, 1100), _numbers(draw, 4, 1100), draw.integers(99, 4, dtype=np.int32)
    scale, rows = (draw.positive(size).astype(np.float32) / 1024 for size in (4, 3))
    product = x.astype(np.int64) @ weight.T.astype(np.int64) + bias
    return [x, weight, scale, None, rows, bias, False, True], [product * scale * rows[:, None].astype(np.float64)]


def _weight_quant(draw):
    x, weight = draw(3, 4), _numbers(draw, 4, 2)
    scale, offset, bias = draw.positive(2, 2), draw(2, 2), draw(2)
    w = np.stack([(weight[k] + offset[k // 2]) * scale[k // 2] for k in range(4)])
    return [x, weight, scale, offset, None, None, bias, 2], [x @ w + bias]


def _dynamic_quant(more):
    def made(draw):
        x, smooth = draw(3, 5), draw.positive(5)
        values = (x * smooth).astype(np.float32)
        scale = np.array([max(abs(row)) for row in values], np.float32) / np.float32(127)
        outputs = [_rounded(values / scale[:, None]), scale, *[None] * (len(more) > 0)]
        return [x, smooth, *more], outputs

    return made


def _add_rms_norm_quant(draw):
    x1, x2, gamma, scale, zero = draw(3, 5), draw(3, 5), draw(5), draw.positive(5), np.round(draw(5))
    x = x1 + x2
    y = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3) * gamma
    inputs = [x1, x2, gamma, scale, None, zero, None, -1, 1e-3, True]
    return inputs, [_rounded(y / scale + zero), None, x]


def _quant(draw):
    x, scale, offset = draw(3, 5), draw.positive(5) * 8, np.round(draw(5))
    return [x, scale.astype(np.float32), offset, False, "round", 2], [_rounded(x * scale + offset)]


def _parameter(draw):
    scale = draw.positive(3).astype(np.float32)
    return [scale, None], [scale.view(np.uint32).astype(np.uint64) | np.uint64(1 << 46)]


_CASES = {
    "FlashAttentionScore": _score(1),
    "FlashAttentionScoreV2": _score(2),
    "FlashAttentionScoreGrad": _score_grad(1),
    "FlashAttentionScoreGradV2": _score_grad(2),
    "FlashAttentionVarLenScore": _varlen_score(1),
    "FlashAttentionVarLenScoreV2": _varlen_score(2),
    "FlashAttentionUnpaddingScoreGrad": _varlen_grad(1),
    "FlashAttentionUnpaddingScoreGradV2": _varlen_grad(2),
    "PromptFlashAttentionV3": _prompt,
    "FusedInferAttentionScoreV2": _infer,
    "IncreFlashAttentionV4": _incremental,
    "RotaryPositionEmbedding": _rotary,
    "RotaryPositionEmbeddingGrad": _rotary_grad,
    "ApplyRotaryPosEmb": _rotary_in_place,
    "SwiGlu": _gated(_swiglu),
    "SwiGluGrad": _gated_grad(_swiglu),
    "Glu": _gated(_glu),
    "GluBackward": _gated_grad(_glu),
    "MoeTokenPermute": _permute,
    "MoeTokenPermuteGrad": _permute_grad,
    "MoeTokenUnpermute": _unpermute,
    "MoeTokenUnpermuteGrad": _unpermute_grad,
    "MoeInitRouting": _init_routing,
    "MoeInitRoutingV2": _init_routing_v2,
    "MoeFinalizeRouting": _finalize,
    "MoeGatingTopKSoftmax": _gating,
    "MoeComputeExpertTokens": _tokens_of_experts,
    "GroupedMatmulV2": _grouped(2),
    "GroupedMatmulV3": _grouped(3),
    "GroupedMatmulV4": _grouped(4),
    "QuantMatmulV4": _quant_matmul,
    "WeightQuantBatchMatmulV2": _weight_quant,
    "DynamicQuant": _dynamic_quant([]),
    "DynamicQuantV2": _dynamic_quant([None, 2]),
    "AddRmsNormQuant": _add_rms_norm_quant,
    "AscendQuant": _quant,
    "TransQuantParamV2": _parameter,
}
CASES = {f"aclnn{name}": case for name, case in _CASES.items()}
