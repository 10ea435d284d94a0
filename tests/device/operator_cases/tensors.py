"""Operators that move elements, look them up, or make them."""

import numpy as np

from tests.device.calls import Scalar
from tests.device.operator_cases import gradients

MATRIX = (3, 5)


def _pads(mode, rank):
    def made(draw):
        x = draw(*(2, 3, 4, 3, 3)[: rank + 1])
        pad = [1, 2, 2, 1, 0, 1][: 2 * rank]
        widths = [(0, 0)] * (x.ndim - rank) + [(pad[2 * i], pad[2 * i + 1]) for i in reversed(range(rank))]
        return [x, pad], [_padded(x, widths, mode)]

    return made


def _padded(x, widths, mode):
    """One dimension after another, by the place of each element."""
    for axis, (before, after) in enumerate(widths):
        size = x.shape[axis]
        places = [_inside(at, size, mode) for at in range(-before, size + after)]
        x = np.take(x, places, axis)
    return x


def _inside(at, size, mode):
    if mode == "replication":
        return min(max(at, 0), size - 1)
    return -at if at < 0 else 2 * (size - 1) - at if at >= size else at


def _pads_backward(mode, rank):
    def made(draw):
        (x, pad), (y,) = _pads(mode, rank)(draw)
        dy = draw(*y.shape)
        widths = [(0, 0)] * (x.ndim - rank) + [(pad[2 * i], pad[2 * i + 1]) for i in reversed(range(rank))]
        return [dy, x, pad], gradients(lambda v: _padded(v, widths, mode), [x], dy)

    return made


def _slices(draw):
    x = draw(3, 7)
    return [x, 1, 1, 6, 2], [np.stack([x[:, 1], x[:, 3], x[:, 5]], 1)]


def _split(draw):
    x = draw(3, 5)
    return [x, 2, 1], [[x[:, :2], x[:, 2:4], x[:, 4:]]]


def _split_sizes(draw):
    x = draw(3, 5)
    return [x, [1, 4], 1], [[x[:, :1], x[:, 1:]]]


def _constant_pad(draw):
    x = draw(2, 3)
    y = np.full((3, 5), 1.5)
    y[0:2, 1:4] = x
    return [x, [1, 1, 0, 1], Scalar(1.5)], [y]


def _triangle(keep):
    def made(draw):
        x = draw(4, 5)
        return [x, 1], [np.array([[x[i, j] if keep(i, j) else 0 for j in range(5)] for i in range(4)])]

    return made


def _diag(draw):
    x = draw(3)
    return [x, 0], [np.array([[x[i] if i == j else 0 for j in range(3)] for i in range(3)])]


def _one_hot(draw):
    x = draw.integers(4, 3)
    on, off = np.array([1.0]), np.array([0.5])
    return [x, 4, on, off, -1], [np.array([[1.0 if at == value else 0.5 for at in range(4)] for value in x])]


def _index_add(draw):
    x, index, source = draw(*MATRIX), np.array([2, 0, 2]), draw(3, 5)
    y = x.copy()
    for row, at in enumerate(index):
        y[at] += 0.5 * source[row]
    return [x, 0, index, source, Scalar(0.5)], [y]


def _index_copy(draw):
    x, index, source = draw(*MATRIX), np.array([2, 0]), draw(2, 5)
    return [x, 0, index, source], [np.stack([source[1], x[1], source[0]])]


def _index_fill(draw):
    x = draw(*MATRIX)
    y = x.copy()
    y[:, [1, 4]] = 2.5
    return [x, 1, [1, 4], Scalar(2.5)], [y]


def _index_fill_by_tensor(draw):
    (x, dim, index, value), outputs = _index_fill(draw)
    return [x, dim, np.array(index), value], outputs


def _index_put(draw):
    x, index, values = draw(*MATRIX), np.array([2, 0, 2]), draw(3, 5)
    y = x.copy()
    for row, at in enumerate(index):
        y[at] += values[row]
    return [x, [index], values, True, False], [y]


def _put(draw):
    x, places, source = draw(*MATRIX), np.array([0, 7, 14]), draw(3)
    y = x.copy()
    y[0, 0], y[1, 2], y[2, 4] = source
    return [x, places, source, False], [y]


def _scatter(reduce, value=False):
    def made(draw):
        x, source = draw(*MATRIX), draw(2, 4)
        index = np.array([[0, 3, 1, 4], [2, 0, 4, 1]])
        y = x.copy()
        for row in range(2):
            for column in range(4):
                given = 0.75 if value else source[row, column]
                at = row, index[row, column]
                y[at] = given if reduce == 0 else y[at] + given if reduce == 1 else y[at] * given
        return [x, 1, index, Scalar(0.75) if value else source, reduce], [y]

    return made


def _scatter_add(draw):
    inputs, outputs = _scatter(1)(draw)
    return inputs[:-1], outputs


def _scatter_update(draw):
    cache, places, rows = draw(2, 6, 3), np.array([1, 4]), draw(2, 2, 3)
    y = cache.copy()
    y[0, 1:3], y[1, 4:6] = rows
    return [cache, places, rows, -2], [y]


def _masked_scatter(draw):
    x, mask, source = draw(*MATRIX), draw.booleans(*MATRIX), draw(15)
    values = iter(source)
    return [x, mask, source], [
        np.array([[next(values) if m else v for v, m in zip(*r, strict=True)] for r in zip(x, mask, strict=True)])
    ]


def _embedding_backward(by_frequency=True):
    def made(draw):
        dy, rows = draw(4, 3), np.array([1, 2, 1, 0])
        y = np.zeros((5, 3), np.float64)
        y[2], y[1] = dy[1], (dy[0] + dy[2]) / (2 if by_frequency else 1)
        return [dy, rows, 5, 0, by_frequency], [y]

    return made


def _renorm(draw):
    x, rows = draw(4, 3), np.array([1, 3, 1])
    y = x.copy()
    for row in (1, 3):
        length = np.sqrt((x[row] ** 2).sum())
        y[row] *= min(1.0, 1.0 / length)
    return [x, rows, 1.0, 2.0], [y]


def _search(draw):
    ordered, x = np.array([-1.0, 0.0, 0.5, 1.0]), np.array([[-2.0, 0.0], [0.75, 3.0]])
    return [ordered, x, False, True, None], [np.array([[0, 2], [3, 4]])]


def _consecutive(draw):
    x = np.array([3, 3, 1, 1, 1, 3])
    return [x, True, True, 1000], [np.array([3, 1, 3]), np.array([0, 0, 1, 1, 1, 2]), np.array([2, 3, 1])]


def _unique(counts):
    def made(draw):
        x = np.array([4, 1, 4, 2])
        outputs = [np.array([1, 2, 4]), np.array([2, 0, 2, 1]), np.array([1, 1, 2])]
        return ([x, True, True, True], outputs) if counts else ([x, True, True], outputs[:2])

    return made


def _unique_rows(draw):
    x = np.array([[1, 2], [0, 5], [1, 2]])
    return [x, True, True, 0], [np.array([[0, 5], [1, 2]]), np.array([1, 0, 1]), np.array([1, 2])]


def _fill_diagonal(draw):
    x = draw(3, 3)
    y = x.copy()
    y[0, 0] = y[1, 1] = y[2, 2] = 1.5
    return [x, Scalar(1.5), False], [y]


def _gather_nd(draw):
    x = draw(3, 4, 2)
    return [x, np.array([[0, 3], [2, 1]]), True], [np.stack([x[0, 3], x[2, 1]])]


def _gather(draw):
    x, index = draw(2, 3), np.array([[2, 0], [1, 1]])
    return [x, 1, index], [np.array([[x[0, 2], x[0, 0]], [x[1, 1], x[1, 1]]])]


def _fills(value):
    return lambda draw: ([draw(*MATRIX), *value], [np.full(MATRIX, 1.5)])


def _complex(draw):
    x, y = draw(4), draw(4)
    return [(x + 1j * y).astype(np.complex64)], [x.astype(np.float32)]


_CASES = {
    "Arange": lambda draw: ([Scalar(1.0), Scalar(4.0), Scalar(0.5)], [np.array([1, 1.5, 2, 2.5, 3, 3.5])]),
    "Cat": lambda draw: ([[x := draw(2, 3), y := draw(2, 1)], 1], [np.array([[*a, *b] for a, b in zip(x, y, strict=True)])]),
    "ConstantPadNd": _constant_pad,
    "Diag": _diag,
    "Embedding": lambda draw: ([x := draw(4, 3), np.array([[1, 3], [0, 1]])], [np.array([[x[1], x[3]], [x[0], x[1]]])]),
    "EmbeddingDenseBackward": _embedding_backward(),
    "EmbeddingRenorm": _renorm,
    "Expand": lambda draw: ([x := draw(3, 1), [2, 3, 2]], [np.array([[[v[0]] * 2 for v in x]] * 2)]),
    "Eye": lambda draw: ([2, 3], [np.array([[1.0, 0, 0], [0, 1.0, 0]])]),
    "Flip": lambda draw: ([x := draw(2, 3), [1]], [np.stack([x[:, 2], x[:, 1], x[:, 0]], 1)]),
    "Gather": _gather,
    "GatherNd": _gather_nd,
    "Index": lambda draw: ([x := draw(3, 4), [np.zeros(0, np.int64), np.array([3, 1])]], [np.stack([x[:, 3], x[:, 1]], 1)]),
    "IndexAdd": _index_add,
    "IndexFill": _index_fill_by_tensor,
    "IndexFillTensor": _index_fill,
    "IndexPutImpl": _index_put,
    "IndexSelect": lambda draw: ([x := draw(3, 4), 1, np.array([2, 2, 0])], [np.stack([x[:, 2], x[:, 2], x[:, 0]], 1)]),
    "InplaceFillDiagonal": _fill_diagonal,
    "InplaceFillScalar": _fills([Scalar(1.5)]),
    "InplaceFillTensor": _fills([np.array([1.5])]),
    "InplaceIndexCopy": _index_copy,
    "InplaceIndexFill": _index_fill_by_tensor,
    "InplaceIndexFillTensor": _index_fill,
    "InplaceMaskedFillScalar": lambda draw: ([x := draw(3, 4), m := draw.booleans(4), Scalar(1.5)], [x * ~m + 1.5 * m]),
    "InplaceMaskedFillTensor": lambda draw: ([x := draw(3, 4), m := draw.booleans(4), np.array(1.5)], [x * ~m + 1.5 * m]),
    "InplaceMaskedScatter": _masked_scatter,
    "InplaceOne": lambda draw: ([draw(*MATRIX)], [np.full(MATRIX, 1.0)]),
    "InplacePut": _put,
    "InplaceScatter": _scatter(2),
    "InplaceScatterUpdate": _scatter_update,
    "InplaceScatterValue": _scatter(0, value=True),
    "InplaceZero": lambda draw: ([draw(*MATRIX)], [np.full(MATRIX, 0.0)]),
    "Linspace": lambda draw: ([Scalar(0.0), Scalar(1.0), 5], [np.array([0, 0.25, 0.5, 0.75, 1])]),
    "MaskedSelect": lambda draw: ([x := draw(3, 4), m := draw.booleans(3, 4)], [np.array([v for v, one in zip(x.reshape(-1), m.reshape(-1), strict=True) if one])]),
    "Meshgrid": lambda draw: ([[x := draw(2), y := draw(3)]], [[np.stack([x] * 3, 1), np.stack([y] * 2)]]),
    "Nonzero": lambda draw: ([np.array([[0, 2], [3, 0]])], [np.array([[0, 1], [1, 0]])]),
    "NonzeroV2": lambda draw: ([np.array([[0, 2, 5], [3, 0, 0]])], [np.array([[0, 0, 1], [1, 2, 0]])]),
    "OneHot": _one_hot,
    "Permute": lambda draw: ([x := draw(2, 3, 4), [2, 0, 1]], [np.array([[[x[i, j, k] for j in range(3)] for i in range(2)] for k in range(4)])]),
    "RealView": _complex,
    "Repeat": lambda draw: ([x := draw(2, 3), [2, 2]], [np.array([[*row, *row] for row in [*x, *x]])]),
    "RepeatInterleave": lambda draw: ([x := draw(3), np.array([2, 0, 1]), 3], [np.array([x[0], x[0], x[2]])]),
    "RepeatInterleaveInt": lambda draw: ([x := draw(2), 2, 4], [np.array([x[0], x[0], x[1], x[1]])]),
    "RepeatInterleaveIntWithDim": lambda draw: ([x := draw(2, 3), 2, 0, 4], [np.stack([x[0], x[0], x[1], x[1]])]),
    "RepeatInterleaveWithDim": lambda draw: ([x := draw(2, 3), np.array([1, 2]), 0, 3], [np.stack([x[0], x[1], x[1]])]),
    "Roll": lambda draw: ([x := draw(3, 4), [1], [1]], [np.stack([x[:, 3], x[:, 0], x[:, 1], x[:, 2]], 1)]),
    "Scatter": _scatter(0),
    "ScatterAdd": _scatter_add,
    "ScatterValue": _scatter(1, value=True),
    "SearchSorted": _search,
    "Slice": _slices,
    "SplitTensor": _split,
    "SplitWithSize": _split_sizes,
    "Stack": lambda draw: ([[x := draw(2, 3), y := draw(2, 3)], 1], [np.array([[a, b] for a, b in zip(x, y, strict=True)])]),
    "Take": lambda draw: ([x := draw(3, 4), np.array([11, 0, 5])], [np.array([x[2, 3], x[0, 0], x[1, 1]])]),
    "Tril": _triangle(lambda i, j: j <= i + 1),
    "Triu": _triangle(lambda i, j: j >= i + 1),
    "Unique": _unique(False),
    "Unique2": _unique(True),
    "UniqueConsecutive": _consecutive,
    "UniqueDim": _unique_rows,
    **{f"{mode.capitalize()}Pad{rank}d": _pads(mode, rank) for mode in ("reflection", "replication") for rank in (1, 2, 3)},
    **{f"{mode.capitalize()}Pad{rank}dBackward": _pads_backward(mode, rank) for mode in ("reflection", "replication") for rank in (1, 2, 3)},
}  # fmt: skip
CASES = {f"aclnn{name}": case for name, case in _CASES.items()}
