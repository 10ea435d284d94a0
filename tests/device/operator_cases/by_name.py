"""Operators by their names of the graph engine: inputs, attributes, and what comes out, by a formula in float64.

A row that an aclnn function shares its computation with is here for the order of its inputs, and for its attributes.
"""

import math

import numpy as np

from tests.device.operator_cases import gradients

SHAPE = (3, 4)
_erf = np.vectorize(math.erf)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _softplus(x):
    return np.log1p(np.exp(x))


def _any(draw, *shape):
    return draw(*shape)


def positive(draw, *shape):
    return abs(draw(*shape)) + np.float32(0.1)


def _inside(draw, *shape):
    return np.tanh(draw(*shape)) * np.float32(0.9)


def _above_one(draw, *shape):
    return abs(draw(*shape)) + np.float32(1.1)


def _ints(draw, *shape):
    return np.rint(draw(*shape) * 5).astype(np.int32)


def _bools(draw, *shape):
    return draw(*shape) > 0


def _numbers(*values, dtype=np.int64):
    return np.array(values, dtype)


def exact(array):
    return array if array is None or array.dtype != np.float32 else array.astype(np.float64)


def of(function, *draws, shape=SHAPE, **attributes):
    """Element-wise, or any function of tensors of one shape: `draws` makes them."""

    def made(draw):
        inputs = [one(draw, *shape) for one in draws or (_any,)]
        return inputs, attributes, [function(*map(exact, inputs))]

    return made


def slope(function, *draws, order="x dy", number=1, **attributes):
    """A gradient: `order` says where dy, x and y = f(x) are among the inputs."""

    def made(draw):
        x, dy = (draws or (_any,))[0](draw, *SHAPE), draw(*SHAPE)
        (dx,) = gradients(function, [exact(x)], dy)
        given = {"x": x, "dy": dy, "y": function(exact(x)).astype(np.float32)}
        return [given[one] for one in order.split()], attributes, [dx]

    return made


def fixed(inputs, *goldens, **attributes):
    """Inputs that are not random; arrays, or functions of `draw`."""

    def made(draw):
        arrays = [one(draw) if callable(one) else one for one in inputs]
        found = [golden(*map(exact, arrays)) if callable(golden) else golden for golden in goldens]
        return arrays, attributes, found

    return made


def tensor(*shape, draws=_any):
    return lambda draw: draws(draw, *shape)


def scalar(value):
    return np.array(value, np.float32)


X, P = tensor(*SHAPE), tensor(*SHAPE, draws=positive)
PLACES = np.array([[1, 0], [0, 2], [1, 3]], np.int32)
_NLL = np.array([1, 0, 3], np.int32)


def scattered(x, at, updates, add):
    out = x.copy()
    for place, value in zip(at, updates, strict=True):
        out[tuple(place)] = value + (out[tuple(place)] if add else 0)
    return out


def _element_scattered(data, indices, updates):
    out = data.copy()
    for row, column in np.ndindex(*indices.shape):
        out[row, indices[row, column]] = updates[row, column]
    return out


def _logs(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def _cross_entropy(x, y):
    return -(y * np.log(x) + (1 - y) * np.log(1 - x))


def _probable(draw, *shape):
    return _sigmoid(draw(*shape)).astype(np.float32)


_UNARY = {
    "Abs": (np.abs, _any), "Acos": (np.arccos, _inside), "Acosh": (np.arccosh, _above_one),
    "Asin": (np.arcsin, _inside), "Asinh": (np.arcsinh, _any), "Atan": (np.arctan, _any),
    "Atanh": (np.arctanh, _inside), "Ceil": (np.ceil, _any), "Cos": (np.cos, _any), "Cosh": (np.cosh, _any),
    "Erf": (_erf, _any), "Erfc": (lambda x: 1 - _erf(x), _any), "Expm1": (lambda x: np.exp(x) - 1, _any),
    "Floor": (np.floor, _any), "Identity": (np.copy, _any), "TensorMove": (np.copy, _any),
    "Log1p": (lambda x: np.log(1 + x), positive), "LogicalNot": (lambda x: ~x, _bools), "Neg": (lambda x: 0 - x, _any),
    "OnesLike": (lambda x: x * 0 + 1, _any), "ZerosLike": (lambda x: x * 0, _any),
    "Reciprocal": (lambda x: x**-1, positive), "Relu": (lambda x: x * (x > 0), _any),
    "Relu6": (lambda x: np.minimum(x * (x > 0), 6), _any), "Rint": (np.round, _any), "Round": (np.round, _any),
    "Rsqrt": (lambda x: x**-0.5, positive), "Sigmoid": (_sigmoid, _any), "Sign": (np.sign, _any),
    "Sin": (np.sin, _any), "Sinh": (np.sinh, _any), "Sqrt": (lambda x: x**0.5, positive),
    "Square": (lambda x: x * x, _any), "Tan": (np.tan, _inside), "Tanh": (np.tanh, _any), "Trunc": (np.trunc, _any),
    "HardSwish": (lambda x: x * np.clip(x + 3, 0, 6) / 6, _any), "L2Loss": (lambda x: (x**2).sum() / 2, _any),
    "Gelu": (lambda x: x * _sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)), _any),
    "FlattenV2": (lambda x: x.reshape(-1), _any), "Cast": (lambda x: np.trunc(x).astype(np.int32), _any),
}  # fmt: skip

_BINARY = {
    "Add": (lambda a, b: a + b, _any), "Sub": (lambda a, b: a - b, _any), "Mul": (lambda a, b: a * b, _any),
    "RealDiv": (lambda a, b: a / b, positive), "Atan2": (np.arctan2, _any),
    "FloorDiv": (lambda a, b: np.floor(a / b), positive), "FloorMod": (lambda a, b: a - b * np.floor(a / b), positive),
    "Mod": (lambda a, b: a - b * np.trunc(a / b), positive), "Pow": (lambda a, b: np.exp(b * np.log(a)), positive),
    "Equal": (lambda a, b: a == b, _ints), "NotEqual": (lambda a, b: a != b, _ints),
    "Greater": (lambda a, b: a > b, _any), "GreaterEqual": (lambda a, b: a >= b, _ints),
    "Less": (lambda a, b: a < b, _any), "LessEqual": (lambda a, b: a <= b, _ints),
    "LogicalAnd": (lambda a, b: a & b, _bools), "LogicalOr": (lambda a, b: a | b, _bools),
    "Maximum": (lambda a, b: np.where(a > b, a, b), _any), "Minimum": (lambda a, b: np.where(a < b, a, b), _any),
    "SquaredDifference": (lambda a, b: (a - b) ** 2, _any),
}  # fmt: skip

_REDUCED = {
    "ReduceAll": (lambda x, axis: np.all(x, axis, keepdims=True), _bools),
    "ReduceAny": (lambda x, axis: np.any(x, axis, keepdims=True), _bools),
    "ReduceMax": (lambda x, axis: np.max(x, axis, keepdims=True), _any),
    "ReduceMean": (lambda x, axis: np.sum(x, axis, keepdims=True) / x.shape[axis], _any),
    "ReduceMin": (lambda x, axis: np.min(x, axis, keepdims=True), _any),
    "ReduceProd": (lambda x, axis: np.prod(x, axis, keepdims=True), _any),
}

# What a gradient is of, where its x is drawn, and its inputs.
_SLOPES = {
    "AcosGrad": (np.arccos, _inside, "y dy"), "AcoshGrad": (np.arccosh, _above_one, "y dy"),
    "AsinGrad": (np.arcsin, _inside, "y dy"), "AtanGrad": (np.arctan, _any, "x dy"),
    "EluGrad": (lambda x: np.where(x > 0, x, np.expm1(x)), _any, "dy y"),
    "GeluGrad": (_UNARY["Gelu"][0], _any, "dy x y"), "HardSwishGrad": (_UNARY["HardSwish"][0], _any, "dy x"),
    "InvGrad": (lambda x: 1 / x, _above_one, "y dy"), "ReluGrad": (lambda x: np.maximum(x, 0), _any, "dy x"),
    "Relu6Grad": (lambda x: np.clip(x, 0, 6), _any, "dy x"),
}  # fmt: skip

CASES = {
    **{name: of(function, draws) for name, (function, draws) in _UNARY.items()},
    **{name: of(function, draws, draws) for name, (function, draws) in _BINARY.items()},
    **{name: slope(function, draws, order=order) for name, (function, draws, order) in _SLOPES.items()},
    **{
        name: fixed([tensor(*SHAPE, draws=draws), _numbers(1)], lambda x, axis, f=f: f(x, 1), keep_dims=1)
        for name, (f, draws) in _REDUCED.items()
    },
    "AccumulateNV2": of(lambda *xs: sum(xs), _any, _any, _any),
    "Addcdiv": fixed([X, X, P, scalar(0.5)], lambda x, a, b, _: x + 0.5 * a / b),
    "Addcmul": fixed([X, X, X, scalar(0.5)], lambda x, a, b, _: x + 0.5 * a * b),
    "ArgMaxV2": fixed([X, _numbers(1)], lambda x, _: np.argsort(x, 1)[:, -1].astype(np.int32)),
    "ArgMaxWithValue": fixed(
        [X], lambda x: np.argsort(x, 1)[:, -1:].astype(np.int32), lambda x: np.sort(x, 1)[:, -1:], dimension=1, keep_dims=1
    ),
    "ArgMinWithValue": fixed(
        [X], lambda x: np.argsort(x, 1)[:, 0].astype(np.int32), lambda x: np.sort(x, 1)[:, 0], dimension=1, keep_dims=0
    ),
    "AvgPoolGrad": fixed(
        [_numbers(1, 1, 4, 4), tensor(1, 1, 2, 2)],
        lambda _, dy: np.kron(dy, np.full((2, 2), 0.25)),
        ksize=[1, 1, 2, 2], strides=[1, 1, 2, 2], padding="VALID",
    ),
    "BNInfer": fixed(
        [tensor(2, 3, 4), tensor(3), tensor(3), tensor(3), tensor(3, draws=positive)],
        lambda x, s, o, m, v: (x - m[:, None]) * (s / np.sqrt(v + 1e-3))[:, None] + o[:, None],
        epsilon=1e-3,
    ),
    "BNInferGrad": fixed(
        [tensor(2, 3, 4), tensor(3), tensor(3, draws=positive)],
        lambda dy, s, v: dy * (s / np.sqrt(v + 1e-3))[:, None],
        epsilon=1e-3,
    ),
    "BatchMatMul": fixed(
        [tensor(2, 3, 4), tensor(2, 5, 4)], lambda a, b: np.einsum("bij,bkj->bik", a, b), adj_x1=0, adj_x2=1
    ),
    "MatMulV2": fixed(
        [tensor(4, 3), tensor(4, 5), tensor(5)],
        lambda a, b, bias: np.einsum("ji,jk->ik", a, b) + bias,
        transpose_x1=1, transpose_x2=0,
    ),
    "BinaryCrossEntropy": fixed(
        [tensor(*SHAPE, draws=_probable)] * 2 + [P],
        lambda x, y, w: np.array((w * _cross_entropy(x, y)).mean()),
        reduction="mean",
    ),
    "BinaryCrossEntropyGrad": fixed(
        [tensor(*SHAPE, draws=_probable)] * 2 + [X, P],
        lambda x, y, dy, w: dy * w * (x - y) / (x * (1 - x)),
        reduction="none",
    ),
    "BroadcastTo": fixed([tensor(3, 1), _numbers(2, 3, 4)], lambda x, _: x + np.zeros((2, 3, 4))),
    "Cdist": fixed(
        [tensor(3, 2, 4), tensor(3, 2, 4)], lambda x, y: (np.abs(x - y) ** 3).sum(-1) ** (1 / 3), p=3.0
    ),
    "ClipByValue": fixed([X, scalar(-0.5), scalar(0.5)], lambda x, low, high: np.minimum(np.maximum(x, -0.5), 0.5)),
    "Cumprod": fixed(
        [tensor(3), _numbers(0)], lambda x, _: np.array([x[1] * x[2], x[2], 1]), exclusive=1, reverse=1
    ),
    "Cumsum": fixed([tensor(3), _numbers(0)], lambda x, _: np.array([x[1] + x[2], x[2], 0]), exclusive=1, reverse=1),
    "DropOutDoMask": fixed(
        [tensor(8), np.array([0b00001111], np.uint8), scalar(0.5)], lambda x, *_: np.where(np.arange(8) < 4, x * 2, 0)
    ),
    "Elu": of(lambda x: np.where(x > 0, x, 0.5 * np.expm1(x)), alpha=0.5),
    "Erfinv": of(lambda x: np.array([_inverse_erf(one) for one in x.flat]).reshape(x.shape), _inside),
    "Exp": of(lambda x: 2.0 ** (3 * x + 1), base=2.0, scale=3.0, shift=1.0),
    "Log": of(lambda x: np.log2(3 * x + 1), positive, base=2.0, scale=3.0, shift=1.0),
    "Eye": fixed([], np.array([[1.0, 0, 0], [0, 1, 0]]), num_rows=2, num_columns=3),
    "Fill": fixed([_numbers(2, 3), scalar(7)], np.full((2, 3), 7.0)),
    "FillV2": fixed([_numbers(2, 3)], np.full((2, 3), 7.0), value=7.0),
    "GatherD": fixed(
        [X, _numbers(1), np.array([[3, 0], [1, 1], [2, 3]])],
        lambda x, _, at: np.array([[x[i, j] for j in row] for i, row in enumerate(at)]),
    ),
    "GatherElements": fixed(
        [X, np.array([[2, 0, 1, 1]])], lambda x, at: np.array([[x[i, j] for j, i in enumerate(at[0])]]), dim=0
    ),
    "GatherNd": fixed([X, PLACES], lambda x, at: np.array([x[i, j] for i, j in at])),
    "GatherV2": fixed([X, _numbers(3, 1), _numbers(1)], lambda x, at, _: np.stack([x[:, 3], x[:, 1]], 1), batch_dims=0),
    "HardSigmoid": of(lambda x: np.minimum(np.maximum(0.25 * x + 0.5, 0), 1), alpha=0.25, beta=0.5),
    "KLDiv": fixed(
        [X, P], lambda x, y: np.array((y * (np.log(y) - x)).sum() / 3), reduction="batchmean"
    ),
    "KlDivLossGrad": fixed([X, X, P], lambda dy, x, y: -dy * y, reduction="none", log_target=0),
    "L2Normalize": of(lambda x: x / np.sqrt((x**2).sum(1, keepdims=True)), axis=[1], eps=1e-6),
    "LeakyRelu": of(lambda x: np.where(x > 0, x, 0.25 * x), negative_slope=0.25),
    "LeakyReluGrad": of(lambda dy, x: np.where(x > 0, dy, 0.25 * dy), _any, _any, negative_slope=0.25),
    "LinSpace": fixed([scalar(1), scalar(3), _numbers(5)], np.array([1, 1.5, 2, 2.5, 3])),
    "LpNorm": of(lambda x: (abs(x) ** 3).sum(1) ** (1 / 3), p=3, axes=[1], keepdim=0, epsilon=1e-12),
    "MaskedFill": fixed([X, tensor(*SHAPE, draws=_bools), scalar(7)], lambda x, mask, _: x * ~mask + 7 * mask),
    "MatrixBandPart": fixed(
        [tensor(3, 3), _numbers(1), _numbers(0)], lambda x, *_: x * np.array([[1, 0, 0], [1, 1, 0], [0, 1, 1]])
    ),
    "MaximumGrad": fixed(
        [X, X, tensor(4)], lambda dy, a, b: dy * (a > b), lambda dy, a, b: (dy * (a <= b)).sum(0), grad_x=1, grad_y=1
    ),
    "MinimumGrad": fixed(
        [X, X, tensor(4)], lambda dy, a, b: dy * (a < b), lambda dy, a, b: (dy * (a >= b)).sum(0), grad_x=1, grad_y=1
    ),
    "NLLLoss": fixed(
        [tensor(3, 4), _NLL, tensor(4, draws=positive)],
        lambda x, at, w: np.array(-(w[at] * x[range(3), at]).sum() / w[at].sum()),
        lambda x, at, w: np.array(w[at].sum()),
        reduction="mean", ignore_index=-100,
    ),
    "NLLLossGrad": fixed(
        [tensor(3, 4), scalar(2), _NLL, np.array([1, 2, 3, 4], np.float32), scalar(7)],
        lambda *_: -2 * np.array([[0, 2, 0, 0], [1, 0, 0, 0], [0, 0, 0, 4]]) / 7,
        reduction="mean", ignore_index=-100,
    ),
    "OneHot": fixed(
        [_numbers(2, 0, dtype=np.int32), _numbers(3), scalar(5), scalar(1)], np.array([[1.0, 1, 5], [5, 1, 1]]), axis=-1
    ),
    "Pack": of(lambda *xs: np.array(xs).swapaxes(0, 1), _any, _any, axis=1, N=2),
    "PadV3": fixed(
        [tensor(2, 2), _numbers(1, 0, 0, 2), scalar(7)],
        lambda x, *_: np.array([[7] * 4, [*x[0], 7, 7], [*x[1], 7, 7]]),
        mode="constant", paddings_contiguous=1,
    ),
    "PadV3Grad": fixed(
        [tensor(5), _numbers(1, 1)], lambda dy, _: np.array([dy[1], dy[0] + dy[2] + dy[4], dy[3]]), mode="reflect"
    ),
    "Range": fixed([scalar(1), scalar(9), scalar(2)], np.array([1.0, 3, 5, 7])),
    "Reshape": fixed([X, _numbers(2, 6)], lambda x, _: x.reshape(2, 6)),
    "ResizeBilinearV2": fixed(
        [tensor(1, 1, 2, 2), _numbers(3, 3)],
        lambda x, _: np.array([[1, 0], [0.5, 0.5], [0, 1]]) @ x @ np.array([[1, 0.5, 0], [0, 0.5, 1]]),
        align_corners=1, half_pixel_centers=0,
    ),
    "ResizeBilinearV2Grad": fixed(
        [tensor(1, 1, 3, 3), tensor(1, 1, 2, 2)],
        lambda dy, _: np.array([[1, 0.5, 0], [0, 0.5, 1]]) @ dy @ np.array([[1, 0], [0.5, 0.5], [0, 1]]),
        align_corners=1, half_pixel_centers=0,
    ),
    "ResizeNearestNeighborV2": fixed(
        [tensor(1, 1, 2, 2), _numbers(4, 4)], lambda x, _: np.kron(x, np.ones((2, 2))), align_corners=0, half_pixel_centers=0
    ),
    "ResizeNearestNeighborV2Grad": fixed(
        [tensor(1, 1, 4, 4), _numbers(2, 2)],
        lambda dy, _: dy.reshape(1, 1, 2, 2, 2, 2).sum((3, 5)),
        align_corners=0, half_pixel_centers=0,
    ),
    "ReverseV2": fixed([X, _numbers(1)], lambda x, _: x[:, ::-1]),
    "ScatterElements": fixed(
        [X, np.array([[3, 0], [1, 2], [2, 3]]), tensor(3, 2)], _element_scattered, axis=1, reduction="none"
    ),
    "ScatterNd": fixed(
        [PLACES, tensor(3), _numbers(2, 4)], lambda at, x, _: scattered(np.zeros((2, 4)), at, x, True)
    ),
    "TensorScatterAdd": fixed([X, PLACES, tensor(3)], lambda x, at, u: scattered(x, at, u, True)),
    "TensorScatterUpdate": fixed([X, PLACES, tensor(3)], lambda x, at, u: scattered(x, at, u, False)),
    "Select": fixed([tensor(*SHAPE, draws=_bools), X, X], lambda c, a, b: a * c + b * ~c),
    "SelectV2": fixed([tensor(*SHAPE, draws=_bools), X, X], lambda c, a, b: a * c + b * ~c),
    "SigmoidCrossEntropyWithLogits": of(lambda x, y: _softplus(x) - x * y, _any, _probable),
    "SigmoidCrossEntropyWithLogitsGrad": of(lambda x, y, dy: dy * (_sigmoid(x) - y), _any, _probable, _any),
    "SigmoidCrossEntropyWithLogitsV2": of(
        lambda x, y, w, p: w * (p * y * _softplus(-x) + (1 - y) * _softplus(x)),
        _any, _probable, positive, positive, reduction="none",
    ),
    "SmoothL1Loss": of(
        lambda x, y: np.where(abs(x - y) < 0.5, (x - y) ** 2, abs(x - y) - 0.25), _any, _any, sigma=0.5
    ),
    "SmoothL1LossGrad": of(
        lambda x, y, dy: dy * np.clip((x - y) / 0.5, -1, 1), _any, _any, _any, sigma=0.5
    ),
    "SoftmaxCrossEntropyWithLogits": fixed(
        [X, P], lambda x, y: -(y * _logs(x)).sum(1), lambda x, y: np.exp(_logs(x)) - y
    ),
    "SoftmaxV2": of(lambda x: np.exp(x) / np.exp(x).sum(0), axes=[0]),
    "SoftplusV2": of(lambda x: _softplus(2 * x) / 2, beta=2.0, threshold=20.0),
    "SoftplusV2Grad": of(lambda dy, x: dy * _sigmoid(2 * x), _any, _any, beta=2.0, threshold=20.0),
    "Sort": fixed(
        [X], lambda x: -np.sort(-x, 1), lambda x: np.argsort(-x, 1).astype(np.int32), axis=-1, descending=1
    ),
    "Split": fixed([_numbers(1), X], lambda _, x: x[:, :2], lambda _, x: x[:, 2:], num_split=2),
    "SplitD": fixed([X], lambda x: x[:, :2], lambda x: x[:, 2:], split_dim=1, num_split=2),
    "SplitVD": fixed([X], lambda x: x[:, :1], lambda x: x[:, 1:], split_dim=1, size_splits=[1, 3], num_split=2),
    "SquareSumAll": fixed([X, X], lambda a, _: np.array((a * a).sum()), lambda _, b: np.array((b * b).sum())),
    "Tile": fixed([X, _numbers(2, 1)], lambda x, _: np.concatenate([x, x])),
    "TopK": fixed(
        [X, _numbers(2, dtype=np.int32)],
        lambda x, _: np.sort(x, 1)[:, :2],
        lambda x, _: np.argsort(x, 1)[:, :2].astype(np.int32),
        largest=0, dim=1, sorted=1,
    ),
    "Transpose": fixed([tensor(2, 3, 4), _numbers(2, 0, 1)], lambda x, _: np.einsum("abc->cab", x)),
    "Unpack": fixed([tensor(3, 2)], lambda x: x[:, 0], lambda x: x[:, 1], axis=1, num=2),
    "UnsortedSegmentSum": fixed(
        [tensor(4, 2), _numbers(1, 0, 1, -1, dtype=np.int32), _numbers(3)],
        lambda x, *_: np.array([x[1], x[0] + x[2], [0, 0]]),
    ),
}  # fmt: skip


def _inverse_erf(y):
    """By bisection."""
    low, high = -6.0, 6.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erf(middle) < y else (low, middle)
    return low


def _normalized_gradient(draw):
    x, dy = draw(*SHAPE), draw(*SHAPE)

    def forward(x):
        return x / np.sqrt((x**2).sum(1, keepdims=True))

    (dx,) = gradients(forward, [exact(x)], dy)
    return [x, forward(exact(x)).astype(np.float32), dy], {"dim": [1], "eps": 1e-6}, [dx]


def _segmented(combine):
    def golden(x, segments, _):
        parts = [[row for row, segment in zip(x, segments, strict=True) if segment == one] for one in range(2)]
        return np.array([combine(part, 0) for part in parts])

    return fixed([tensor(4, 2), _numbers(1, 0, 1, -1, dtype=np.int32), _numbers(2)], golden)


def _blocks(x):
    """Of 2 x 2 pixels, channels in front."""
    return np.concatenate([x[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)], 1)


def _unblocked(x):
    out, deep = np.zeros((len(x), x.shape[1] // 4, 2 * x.shape[2], 2 * x.shape[3])), x.shape[1] // 4
    for place, (i, j) in enumerate(np.ndindex(2, 2)):
        out[:, :, i::2, j::2] = x[:, place * deep : (place + 1) * deep]
    return out


CASES |= {
    "CustAdaptiveAvgPool2D": fixed([tensor(1, 2, 4, 4)], lambda x: x.reshape(1, 2, 2, 2, 2, 2).mean((3, 5))),
    "DepthToSpace": fixed([tensor(2, 8, 2, 3)], _unblocked, block_size=2, mode="DCR", data_format="NCHW"),
    "SpaceToDepth": fixed([tensor(2, 2, 4, 6), None], lambda x, _: _blocks(x), block_size=2, data_format="NCHW"),
    "Diag": fixed([tensor(3)], lambda x: x * np.eye(3)),
    "DiagPart": fixed([tensor(3, 3)], lambda x: np.array([x[i, i] for i in range(3)])),
    "FillDiagonal": fixed([tensor(3, 3)], lambda x: np.where(np.eye(3) == 1, 7, x), fill_value=7.0, wrap=0),
    "Inv": of(lambda x: x**-1, positive),
    "IsNan": fixed([np.array([1, np.nan, np.inf], np.float32)], np.array([False, True, False])),
    "LpNormV2": of(lambda x: (abs(x) ** 3).sum(1) ** (1 / 3), p=3.0, axes=[1], keepdim=0, epsilon=1e-12),
    "MatrixInverse": fixed(
        [lambda draw: draw(3, 3) * np.float32(0.1) + np.eye(3, dtype=np.float32)],
        lambda x: np.linalg.solve(x, np.eye(3)),
        adjoint=0,
    ),
    "Mish": of(lambda x: x * np.tanh(_softplus(x))),
    "Pad": fixed([tensor(1, 2), _numbers(0, 1, 2, 0)], lambda x, _: np.array([[0, 0, *x[0]], [0, 0, 0, 0]])),
    "Selu": of(lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))),
    "Softplus": of(_softplus),
    "SplitV": fixed([X, _numbers(1, 3), _numbers(1)], lambda x, *_: x[:, :1], lambda x, *_: x[:, 1:], num_split=2),
    "TensorScatterSub": fixed([X, PLACES, tensor(3)], lambda x, at, u: scattered(x, at, -u, True)),
    "UnsortedSegmentMax": _segmented(np.max),
    "UnsortedSegmentMin": _segmented(np.min),
    "UnsortedSegmentProd": _segmented(np.prod),
    "L2NormalizeGrad": _normalized_gradient,
}
