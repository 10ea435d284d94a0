"""Products, normalizations, convolutions, poolings and sizes of images."""

import itertools

import numpy as np

from tests.device.calls import Scalar
from tests.device.operator_cases import gradients


def _product(*shapes):
    def made(draw):
        x, y = (draw(*shape) for shape in shapes)
        return [x, y], [np.einsum("...ij,...jk->...ik", x, y)]

    return made


def _addmm(name, *shapes):
    def made(draw):
        x, y, z = (draw(*shape) for shape in shapes)
        product = np.einsum(name, y, z)
        return [x, y, z, Scalar(0.5), Scalar(1.5)], [0.5 * x + 1.5 * product]

    return made


def _addmv(draw):
    x, y, z = draw(3), draw(3, 4), draw(4)
    return [x, y, z, Scalar(1.5), Scalar(0.5)], [0.5 * x + 1.5 * np.array([sum(row * z) for row in y])]


def _addr(draw):
    x, y, z = draw(3, 4), draw(3), draw(4)
    return [x, y, z, None, Scalar(1.5)], [x + 1.5 * y[:, None] * z]


def _dense(draw):
    x, weight, bias = draw(2, 3, 4), draw(5, 4), draw(5)
    return [x, weight, bias], [np.einsum("bij,kj->bik", x, weight) + bias]


def _cross(draw):
    x, y = draw(2, 3), draw(2, 3)
    columns = [x[:, i] * y[:, j] - x[:, j] * y[:, i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return [x, y, 1], [np.stack(columns, 1)]


def _inverse(draw):
    x = draw(3, 3) + 4 * np.eye(3)
    cofactors = [[(-1) ** (i + j) * _minor(x, i, j) for i in range(3)] for j in range(3)]
    return [x.astype(np.float32)], [(np.array(cofactors) / _determinant(x)).astype(np.float32)]


def _minor(x, i, j):
    a = np.delete(np.delete(x, i, 0), j, 1)
    return a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]


def _determinant(x):
    return sum((-1) ** j * x[0, j] * _minor(x, 0, j) for j in range(3))


def _solve(draw):
    b, a = draw(3, 2).astype(np.float32), (np.triu(draw(3, 3)) + 3 * np.eye(3)).astype(np.float32)
    x = np.zeros((3, 2))
    for row in (2, 1, 0):
        x[row] = (b[row] - a[row, row + 1 :] @ x[row + 1 :]) / a[row, row]
    return [b, a, True, False, False], [x.astype(np.float32), a]


def _layer_norm(x, gamma, beta):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-3) * gamma + beta


def _moments(x):
    mean = x.mean(-1, keepdims=True)
    return mean.astype(np.float32), (((x - mean) ** 2).mean(-1, keepdims=True) + 1e-3).astype(np.float32) ** -0.5


def _layer_norm_case(draw):
    x, gamma, beta = draw(3, 5), draw(5), draw(5)
    return [x, [5], gamma, beta, 1e-3], [_layer_norm(x, gamma, beta), *_moments(x)]


def _layer_norm_backward(draw):
    dy, x, gamma, beta = draw(3, 5), draw(3, 5), draw(5), draw(5)
    inputs = [dy, x, [5], *_moments(x), gamma, beta, [1, 1, 1]]
    return inputs, gradients(_layer_norm, [x, gamma, beta], dy)


def _add_layer_norm(draw):
    x1, x2, gamma, beta, bias = draw(3, 5), draw(3, 5), draw(5), draw(5), draw(5)
    x = x1 + x2 + bias
    return [x1, x2, gamma, beta, bias, 1e-3, True], [_layer_norm(x, gamma, beta), *_moments(x), x]


def _add_layer_norm_grad(draw):
    dy, x1, x2, gamma, dsum = draw(3, 5), draw(3, 5), draw(3, 5), draw(5), draw(3, 5)
    mean, rstd = _moments(x1 + x2)
    dx, dgamma, dbeta = gradients(_layer_norm, [x1 + x2, gamma, np.zeros(5)], dy)
    return [dy, x1, x2, rstd, mean, gamma, dsum], [dx + dsum, dgamma, dbeta]


def _rms(x):
    return 1 / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3)


def _rms_norm(draw):
    x, gamma = draw(3, 5), draw(5)
    return [x, gamma, 1e-3], [x * _rms(x) * gamma, _rms(x).astype(np.float32)]


def _rms_norm_grad(draw):
    dy, x, gamma = draw(3, 5), draw(3, 5), draw(5)
    return [dy, x, _rms(x).astype(np.float32), gamma], gradients(lambda x, g: x * _rms(x) * g, [x, gamma], dy)


def _add_rms_norm(draw):
    x1, x2, gamma = draw(3, 5), draw(3, 5), draw(5)
    x = x1 + x2
    return [x1, x2, gamma, 1e-3], [x * _rms(x) * gamma, _rms(x).astype(np.float32), x]


def _group_norm(x, gamma, beta):
    """(2, 4, 3) in two groups."""
    unit = _layer_norm(x.reshape(2, 2, 6), 1, 0).reshape(2, 4, 3)
    return unit * gamma[:, None] + beta[:, None]


def _group_norm_case(draw):
    x, gamma, beta = draw(2, 4, 3), draw(4), draw(4)
    moments = [one[..., 0] for one in _moments(x.reshape(2, 2, 6))]
    return [x, gamma, beta, 2, 4, 3, 2, 1e-3], [_group_norm(x, gamma, beta), *moments]


def _group_norm_backward(draw):
    dy, x, gamma, beta = draw(2, 4, 3), draw(2, 4, 3), draw(4), draw(4)
    moments = [one[..., 0] for one in _moments(x.reshape(2, 2, 6))]
    return [dy, x, *moments, gamma, 2, 4, 3, 2, [1, 1, 1]], gradients(_group_norm, [x, gamma, beta], dy)


def _batch_norm(x, gamma, beta):
    rows = np.moveaxis(x, 1, 0).reshape(3, -1)
    return _layer_norm(rows, gamma[:, None], beta[:, None]).reshape(3, 2, 4).swapaxes(0, 1)


def _batch_moments(x):
    return [one[:, 0] for one in _moments(np.moveaxis(x, 1, 0).reshape(3, -1))]


def _batch_norm_case(draw):
    x, gamma, beta, mean, var = draw(2, 3, 4), draw(3), draw(3), draw(3), draw.positive(3)
    saved = _batch_moments(x)
    unbiased = np.moveaxis(x, 1, 0).reshape(3, -1).var(1) * 8 / 7
    running = [0.75 * mean + 0.25 * x.mean((0, 2)), 0.75 * var + 0.25 * unbiased]
    return [x, gamma, beta, mean, var, True, 0.25, 1e-3], [*running, _batch_norm(x, gamma, beta), *saved]


def _batch_norm_backward(draw):
    dy, x, gamma, beta = draw(2, 3, 4), draw(2, 3, 4), draw(3), draw(3)
    inputs = [dy, x, gamma, None, None, *_batch_moments(x), True, 1e-3, [1, 1, 1]]
    return inputs, gradients(_batch_norm, [x, gamma, beta], dy)


def _batch_norm_elemt(draw):
    x, gamma, beta = draw(2, 3, 4), draw(3), draw(3)
    return [x, gamma, beta, *_batch_moments(x), 1e-3], [_batch_norm(x, gamma, beta)]


def _convolved(x, weight, bias, stride=2, pad=1, groups=2):
    """Element by element."""
    rank = x.ndim - 2
    wide = np.pad(x, [(0, 0), (0, 0), *[(pad, pad)] * rank])
    kernel, per = weight.shape[2:], weight.shape[1]
    area = [(size - k) // stride + 1 for size, k in zip(wide.shape[2:], kernel, strict=True)]
    y = np.zeros((len(x), len(weight), *area))
    for n, o, *at in np.ndindex(*y.shape):
        begin = o // (len(weight) // groups) * per
        window = tuple(slice(place * stride, place * stride + k) for place, k in zip(at, kernel, strict=True))
        y[(n, o, *at)] = (wide[(n, slice(begin, begin + per), *window)] * weight[o]).sum() + bias[o]
    return y


_MOVES = ([2, 2], [1, 1], [1, 1])


def _convolution(draw):
    x, weight, bias = draw(1, 4, 5, 4), draw(2, 2, 3, 3), draw(2)
    return [x, weight, bias, *_MOVES, False, [0, 0], 2], [_convolved(x, weight, bias)]


def _convolution_backward(draw):
    x, weight, bias = draw(1, 4, 5, 4), draw(2, 2, 3, 2), draw(2)
    y = _convolved(x, weight, bias)
    dy = draw(*y.shape)
    inputs = [dy, x, weight, [2], *_MOVES, False, [0, 0], 2, [1, 1, 1]]
    return inputs, gradients(_convolved, [x, weight, bias], dy)


def _conv_tbc(draw):
    x, weight, bias = draw(4, 2, 3), draw(2, 3, 2), draw(2)
    wide = np.pad(x, ((1, 1), (0, 0), (0, 0)))
    return [x, weight, bias, 1], [np.stack([sum(wide[t + k] @ weight[k] for k in range(2)) + bias for t in range(5)])]


def _columns(x):
    windows = [x[:, :, i : i + 3, j : j + 3].reshape(1, 2, 9) for i in range(2) for j in range(2)]
    return np.stack(windows, 2).reshape(1, 8, 9)


def _im2col(draw):
    x = draw(1, 2, 4, 4)
    return [x, [2, 2], [1, 1], [0, 0], [1, 1]], [_columns(x)]


def _im2col_backward(draw):
    x, dy = draw(1, 2, 4, 4), draw(1, 8, 9)
    return [dy, [4, 4], [2, 2], [1, 1], [0, 0], [1, 1]], gradients(_columns, [x], dy)


def _pooled(x, rank, reduce):
    """Windows of 2 that do not overlap."""
    area = [size // 2 for size in x.shape[-rank:]]
    y = np.zeros((*x.shape[:-rank], *area))
    for at in np.ndindex(*area):
        window = tuple(slice(2 * place, 2 * place + 2) for place in at)
        y[(..., *at)] = reduce(x[(..., *window)].reshape(*x.shape[:-rank], -1))
    return y


def _average(values):
    return values.sum(-1) / values.shape[-1]


def _distinct(draw, *shape):
    return draw.random.permutation(int(np.prod(shape))).reshape(shape) / 8.0 - 2


def _avg_pool(rank, adaptive=False):
    def made(draw):
        x = draw(1, 2, *[4] * rank)
        more = [[2] * rank] if adaptive else [[2] * rank, [2] * rank, [0] * rank, False, True, 0]
        return [x, *more], [_pooled(x, rank, _average)]

    return made


def _avg_pool_backward(rank, adaptive=False):
    def made(draw):
        x, dy = draw(1, 2, *[4] * rank), draw(1, 2, *[2] * rank)
        more = [] if adaptive else [[2] * rank, [2] * rank, [0] * rank, False, True, 0]
        return [dy, x, *more], gradients(lambda x: _pooled(x, rank, _average), [x], dy)

    return made


def _places(x):
    """Of the largest, in the two last dimensions."""
    found = np.zeros((1, 2, 2, 2), np.int64)
    for n, c, i, j in np.ndindex(*found.shape):
        best = max((x[n, c, a, b], a * 4 + b) for a in (2 * i, 2 * i + 1) for b in (2 * j, 2 * j + 1))
        found[n, c, i, j] = best[1]
    return found


_WINDOW = ([2, 2], [2, 2], [0, 0], [1, 1], False)


def _max_pool(window, mask=False):
    def made(draw):
        x = _distinct(draw, 1, 2, 4, 4)
        return [x, *window], [_pooled(x, 2, lambda v: v.max(-1)), None if mask else _places(x)]

    return made


def _max_pool_backward(window, mask=False):
    def made(draw):
        x, dy = _distinct(draw, 1, 2, 4, 4), draw(1, 2, 2, 2)
        places = np.zeros(8, np.int8) if mask else _places(x)
        return [dy, x, places, *window], gradients(lambda x: _pooled(x, 2, lambda v: v.max(-1)), [x], dy)

    return made


def _max_unpool(draw):
    x = _distinct(draw, 1, 2, 4, 4)
    y = _pooled(x, 2, lambda v: v.max(-1))
    return [y, _places(x), [4, 4]], [np.where(np.isin(x, y), x, 0)]


def _weights(kind, corners, new, old):
    """How much each old element counts for each new one."""
    result = np.zeros((new, old))
    for place in range(new):
        centre = place * (old - 1) / (new - 1) if corners else (place + 0.5) * old / new - 0.5
        if kind == "nearest":
            result[place, place * old // new] = 1
            continue
        for source in range(-4, old + 4):
            weight = {"linear": _tent, "cubic": _cubic}[kind]
            at = min(max(source, 0), old - 1)
            bounded = min(max(centre, 0), old - 1) if kind == "linear" else centre
            result[place, at] += weight(abs(bounded - source))
    return result


def _tent(far):
    return max(1 - far, 0)


def _cubic(far, a=-0.75):
    if far <= 1:
        return (a + 2) * far**3 - (a + 3) * far**2 + 1
    return a * (far**3 - 5 * far**2 + 8 * far - 4) if far < 2 else 0


def _resized(x, kind, corners, size):
    for axis, new in enumerate(size, 2):
        x = np.moveaxis(np.tensordot(_weights(kind, corners, new, x.shape[axis]), x, (1, axis)), 0, axis)
    return x


_SIZES = ((5, 7, 4), (4, 3, 5))


def _upsample(kind, rank, backward=False, scaled=False):
    new, old = ([*size[:rank]] for size in _SIZES)
    corners = [] if kind == "nearest" else [True]

    def made(draw):
        x = draw(1, 2, *old)
        # The forward functions of one and two dimensions take no scales for the nearest.
        scales = [0.0] * rank if backward or scaled or kind != "nearest" or rank == 3 else []
        if not backward:
            return [x, new, *corners, *scales], [_resized(x, kind, True, new)]
        dy = draw(1, 2, *new)
        inputs = [dy, new, [1, 2, *old], *corners, *scales]
        return inputs, gradients(lambda x: _resized(x, kind, True, new), [x], dy)

    return made


def _looked_up(x, grid):
    """Linear, zeros outside, element by element."""
    out = np.zeros((1, 2, *grid.shape[1:3]))
    for i, j in np.ndindex(*grid.shape[1:3]):
        column, row = ((grid[0, i, j, n] + 1) * 4 - 1 for n in (0, 1))
        column, row = column / 2, row / 2
        for a, b in itertools.product(range(4), range(4)):
            out[0, :, i, j] += x[0, :, a, b] * max(1 - abs(row - a), 0) * max(1 - abs(column - b), 0)
    return out


def _grid(draw):
    x, grid = draw(1, 2, 4, 4), draw(1, 3, 2, 2, low=-1.2, high=1.2)
    return [x, grid, 0, 0, False], [_looked_up(x, grid)]


def _grid_backward(draw):
    (x, grid, *more), (y,) = _grid(draw)
    dy = draw(*y.shape)
    return [dy, x, grid, *more, [1, 1]], gradients(_looked_up, [x, grid], dy)


_UPSAMPLED = {f"UpsampleNearest{rank}dV2": _upsample("nearest", rank, scaled=True) for rank in (1, 2)} | {
    f"Upsample{name}{suffix}": _upsample(kind, rank, bool(suffix))
    for name, kind, rank, back in (
        ("Bicubic2d", "cubic", 2, "Backward"),
        ("Bilinear2d", "linear", 2, "BackwardV2"),
        ("Linear1d", "linear", 1, "Backward"),
        ("Nearest1d", "nearest", 1, "Backward"),
        ("Nearest2d", "nearest", 2, "Backward"),
        ("Nearest3d", "nearest", 3, "Backward"),
        ("Trilinear3d", "linear", 3, "Backward"),
    )
    for suffix in ("", back)
}
_CASES = {
    "Addbmm": _addmm("bij,bjk->ik", (3, 5), (2, 3, 4), (2, 4, 5)),
    "Addmm": _addmm("ij,jk->ik", (5,), (3, 4), (4, 5)),
    "InplaceAddmm": _addmm("ij,jk->ik", (3, 5), (3, 4), (4, 5)),
    "Baddbmm": _addmm("bij,bjk->bik", (2, 1, 5), (2, 3, 4), (2, 4, 5)),
    "Addmv": _addmv,
    "InplaceAddr": _addr,
    "BatchMatMul": _product((2, 3, 4), (2, 4, 5)),
    "Matmul": _product((2, 3, 4), (4, 5)),
    "Mm": _product((3, 4), (4, 5)),
    "Mv": lambda draw: ([x := draw(3, 4), y := draw(4)], [np.array([sum(row * y) for row in x])]),
    "Dot": lambda draw: ([x := draw(4), y := draw(4)], [np.array(sum(x * y))]),
    "Dense": _dense,
    "Inverse": _inverse,
    "LinalgCross": _cross,
    "TriangularSolve": _solve,
    "LayerNorm": _layer_norm_case,
    "LayerNormBackward": _layer_norm_backward,
    "AddLayerNorm": _add_layer_norm,
    "AddLayerNormGrad": _add_layer_norm_grad,
    "RmsNorm": _rms_norm,
    "RmsNormGrad": _rms_norm_grad,
    "AddRmsNorm": _add_rms_norm,
    "GroupNorm": _group_norm_case,
    "GroupNormBackward": _group_norm_backward,
    "BatchNorm": _batch_norm_case,
    "BatchNormBackward": _batch_norm_backward,
    "BatchNormElemt": _batch_norm_elemt,
    "BatchNormStats": lambda draw: ([x := draw(2, 3, 4), 1e-3], _batch_moments(x)),
    "Convolution": _convolution,
    "ConvolutionBackward": _convolution_backward,
    "ConvTbc": _conv_tbc,
    "Im2col": _im2col,
    "Im2colBackward": _im2col_backward,
    **{f"{prefix}AvgPool{rank}d": _avg_pool(rank, bool(prefix)) for prefix in ("", "Adaptive") for rank in (2, 3)},
    **{
        f"{prefix}AvgPool{rank}dBackward": _avg_pool_backward(rank, bool(prefix))
        for prefix in ("", "Adaptive")
        for rank in (2, 3)
    },
    "MaxPool2dWithIndices": _max_pool(_WINDOW),
    "MaxPool2dWithIndicesBackward": _max_pool_backward(_WINDOW),
    "MaxPool2dWithMask": _max_pool(_WINDOW, mask=True),
    "MaxPool2dWithMaskBackward": _max_pool_backward(_WINDOW, mask=True),
    "AdaptiveMaxPool2d": _max_pool([[2, 2]]),
    "AdaptiveMaxPool2dBackward": _max_pool_backward([]),
    "MaxUnpool2d": _max_unpool,
    "GridSampler2D": _grid,
    "GridSampler2DBackward": _grid_backward,
    **_UPSAMPLED,
}
CASES = {f"aclnn{name}": case for name, case in _CASES.items()}
