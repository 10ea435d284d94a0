"""Sums, extremes and orders."""

import numpy as np

from tests.device.calls import Scalar
from tests.device.operator_cases import gradients

SHAPE = (2, 3, 4)


def _softmax(x, axis=1):
    return np.exp(x) / np.exp(x).sum(axis, keepdims=True)


def _distinct(draw, *shape):
    """Values of which no two are the same, which every dtype holds."""
    return draw.random.permutation(int(np.prod(shape))).reshape(shape) / 4.0 - 2


def _statistics(kind, mean=False):
    def made(draw):
        x = draw(*SHAPE)
        centre = x.sum(1) / 3
        spread = ((x - centre[:, None]) ** 2).sum(1) / 2
        spread = np.sqrt(spread) if kind == "std" else spread
        return [x, [1], 1, False], [spread, centre] if mean else [spread]

    return made


def _extreme(compare, place=False, dim=1):
    """By comparing one row after another."""

    def made(draw):
        x = _distinct(draw, *SHAPE)
        best, at = x[:, 0], np.zeros(x[:, 0].shape, np.int64)
        for row in range(1, 3):
            better = compare(x[:, row], best)
            best, at = np.where(better, x[:, row], best), np.where(better, row, at)
        return [x, dim, False], [at] if place else [best, at]

    return made


def _running(compare):
    def made(draw):
        x = _distinct(draw, *SHAPE)
        values, places = x.copy(), np.zeros(SHAPE, np.int64)
        for row in range(1, 3):
            better = compare(x[:, row], values[:, row - 1])
            values[:, row] = np.where(better, x[:, row], values[:, row - 1])
            places[:, row] = np.where(better, row, places[:, row - 1])
        return [x, 1], [values, places]

    return made


def _ordered(row, descending=False):
    return sorted(range(len(row)), key=lambda place: -row[place] if descending else row[place])


def _sort(draw):
    x = np.round(draw(3, 6))
    places = np.array([_ordered(row, True) for row in x])
    return [x, True, 1, True], [np.array([row[at] for row, at in zip(x, places, strict=True)]), places]


def _topk(draw):
    x = _distinct(draw, 3, 6)
    places = np.array([_ordered(row, True)[:2] for row in x])
    return [x, 2, -1, True, True], [np.array([row[at] for row, at in zip(x, places, strict=True)]), places]


def _kth(draw):
    x = _distinct(draw, 3, 5)
    places = np.array([_ordered(row)[1] for row in x])
    return [x, 2, 1, False], [x[range(3), places], places]


def _median_dim(draw):
    inputs, (_, _) = _kth(draw)
    x = inputs[0]
    places = np.array([_ordered(row)[2] for row in x])
    return [x, 1, False], [x[range(3), places], places]


def _histogram(draw):
    x = draw(20)
    return [x, 4, Scalar(-2.0), Scalar(2.0)], [
        np.array([((x >= low) & (x < low + 1)).sum() for low in range(-2, 2)]) * 1.0
    ]


def _bincount(draw):
    x = draw.integers(5, 12)
    return [x, None, 7], [np.array([(x == value).sum() for value in range(7)])]


def _norm(draw):
    x = draw(*SHAPE)
    return [x, Scalar(2.0), [1, 2], False], [np.sqrt((x * x).sum((1, 2)))]


def _vector_norm(draw):
    x = draw(*SHAPE)
    return [x, Scalar(1.0), [2], True], [abs(x).sum(2, keepdims=True)]


def _cdist(draw):
    x, y = draw(3, 4), draw(2, 4)
    distances = [[np.sqrt(((one - other) ** 2).sum()) for other in y] for one in x]
    return [x, y, 2.0, 0], [np.array(distances)]


def _not_numbers(draw):
    x = draw(*SHAPE)
    with_nan = x.copy()
    with_nan[0, 0, 0] = np.nan
    return [with_nan, [1], False], [np.where(np.isnan(with_nan), 0, x).sum(1)]


def _backward(function):
    """A gradient that takes the result."""

    def made(draw):
        dy, x = draw(*SHAPE), draw(*SHAPE)
        y = function(x)
        return [dy, y.astype(np.float32), 1], gradients(function, [x], dy)

    return made


_CASES = {
    "All": lambda draw: ([x := draw.booleans(*SHAPE), [1], False], [x[:, 0] & x[:, 1] & x[:, 2]]),
    "Any": lambda draw: ([x := draw.booleans(*SHAPE), [1], True], [(x[:, 0] | x[:, 1] | x[:, 2])[:, None]]),
    "Amax": lambda draw: ([x := draw(*SHAPE), [0, 2], False], [np.array([x[:, i].max() for i in range(3)])]),
    "Amin": lambda draw: ([x := draw(*SHAPE), [0, 2], False], [np.array([x[:, i].min() for i in range(3)])]),
    "ArgMax": _extreme(np.greater, place=True),
    "ArgMin": _extreme(np.less, place=True),
    "Bincount": _bincount,
    "Cdist": _cdist,
    "Cummax": _running(np.greater),
    "Cummin": _running(np.less),
    "Cumsum": lambda draw: ([x := draw(*SHAPE), 1], [np.stack([x[:, : i + 1].sum(1) for i in range(3)], 1)]),
    "Histc": _histogram,
    "Kthvalue": _kth,
    "LinalgVectorNorm": _vector_norm,
    "LogSoftmax": lambda draw: ([x := draw(*SHAPE), 1], [np.log(_softmax(x))]),
    "LogSoftmaxBackward": _backward(lambda x: np.log(_softmax(x))),
    "LogSumExp": lambda draw: ([x := draw(*SHAPE), [1, 2], False], [np.log(np.exp(x).sum((1, 2)))]),
    "Max": lambda draw: ([x := draw(*SHAPE)], [np.array(max(x.reshape(-1)))]),
    "MaxDim": _extreme(np.greater),
    "Mean": lambda draw: ([x := draw(*SHAPE), [1], True], [x.sum(1, keepdims=True) / 3]),
    "Median": lambda draw: ([x := _distinct(draw, 7)], [np.array(sorted(x)[3])]),
    "MedianDim": _median_dim,
    "Min": lambda draw: ([x := draw(*SHAPE)], [np.array(min(x.reshape(-1)))]),
    "MinDim": _extreme(np.less),
    "Norm": _norm,
    "Prod": lambda draw: ([x := draw(2, 3)], [np.array(np.exp(np.log(abs(x)).sum()) * np.sign(x).prod())]),
    "ProdDim": lambda draw: ([x := draw(*SHAPE), 1, False], [x[:, 0] * x[:, 1] * x[:, 2]]),
    "ReduceNansum": _not_numbers,
    "ReduceSum": lambda draw: ([x := draw(*SHAPE), [], False], [np.array(sum(x.reshape(-1).tolist()))]),
    "Softmax": lambda draw: ([x := draw(*SHAPE), 1], [_softmax(x)]),
    "SoftmaxBackward": _backward(_softmax),
    "Sort": _sort,
    "Std": _statistics("std"),
    "StdMeanCorrection": _statistics("std", mean=True),
    "Topk": _topk,
    "Trace": lambda draw: ([x := draw(4, 4)], [np.array(x[0, 0] + x[1, 1] + x[2, 2] + x[3, 3])]),
    "VarCorrection": _statistics("var"),
    "VarMean": _statistics("var", mean=True),
}
CASES = {f"aclnn{name}": case for name, case in _CASES.items()}
