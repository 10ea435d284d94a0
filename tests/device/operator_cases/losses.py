"""Losses, their gradients, random numbers and steps of optimizers."""

import numpy as np

from tests.device.operator_cases import gradients

SHAPE = (3, 4)


def _mean(loss):
    return lambda x, y: np.array(loss(x, y).sum() / x.size)


def _smooth(x, y, beta=0.5):
    far = abs(x - y)
    return np.where(far < beta, far**2 / (2 * beta), far - beta / 2)


_PAIRS = {
    "MseLoss": (lambda x, y: (x - y) ** 2, ()),
    "L1Loss": (lambda x, y: abs(x - y), ()),
    "SmoothL1Loss": (_smooth, (0.5,)),
    "SoftMarginLoss": (lambda x, y: np.log(1 + np.exp(-x * y)), ()),
}


def _pair(loss, more):
    def made(draw):
        x, y = draw(*SHAPE), draw(*SHAPE)
        return [x, y, 1, *more], [_mean(loss)(x, y)]

    return made


def _pair_backward(loss, more):
    def made(draw):
        dy, x, y = draw(1), draw(*SHAPE), draw(*SHAPE)
        return [dy, x, y, 1, *more], gradients(lambda x: _mean(loss)(x, y), [x], dy[0])

    return made


def _divergence(x, y):
    return y * (np.log(y) - x)


def _divergence_case(draw):
    x, y = draw(*SHAPE), draw.positive(*SHAPE)
    return [x, y, 2, False], [np.array(_divergence(x, y).sum())]


def _divergence_backward(draw):
    dy, x, y = draw(*SHAPE), draw(*SHAPE), draw.positive(*SHAPE)
    return [dy, x, y, 0, False], gradients(lambda x: _divergence(x, y), [x], dy)


def _entropy(p, y, weight):
    return -weight * (y * np.log(p) + (1 - y) * np.log(1 - p))


def _entropy_inputs(draw):
    return draw(*SHAPE, low=0.1, high=0.9), draw(*SHAPE, low=0.0, high=1.0), draw.positive(4)


def _entropy_case(draw):
    p, y, weight = _entropy_inputs(draw)
    return [p, y, weight, 1], [np.array(_entropy(p, y, weight).mean())]


def _entropy_backward(draw):
    p, y, weight = _entropy_inputs(draw)
    dy = draw(*SHAPE)
    return [dy, p, y, weight, 0], gradients(lambda p: _entropy(p, y, weight), [p], dy)


def _logits(x, y, weight, positive):
    p = 1 / (1 + np.exp(-x))
    return -weight * (positive * y * np.log(p) + (1 - y) * np.log(1 - p))


def _logits_inputs(draw):
    return draw(*SHAPE), draw(*SHAPE, low=0.0, high=1.0), draw.positive(4), draw.positive(4)


def _logits_case(draw):
    inputs = _logits_inputs(draw)
    return [*inputs, 2], [np.array(_logits(*inputs).sum())]


def _logits_backward(draw):
    x, *rest = _logits_inputs(draw)
    dy = draw(1)
    return [dy, x, *rest, 1], gradients(lambda x: _logits(x, *rest).mean(), [x], dy[0])


def _likelihood(x, target, weight, ignore=1):
    """The mean, with the weights of classes, and their sum."""
    moved = np.moveaxis(x, 1, -1).reshape(-1, x.shape[1])
    rows = [(row, cls) for row, cls in zip(moved, target.reshape(-1), strict=True) if cls != ignore]
    total = sum(weight[cls] for _, cls in rows)
    return np.array(-sum(weight[cls] * row[cls] for row, cls in rows) / total), np.array(total)


def _likelihood_case(*area):
    def made(draw):
        x, target, weight = draw(3, 4, *area), draw.integers(4, 3, *area), draw.positive(4)
        target.reshape(-1)[:2] = 0, 1
        return [x, target, weight, 1, 1], list(_likelihood(x, target, weight))

    return made


def _likelihood_backward(*area):
    def made(draw):
        (x, target, weight, *_), (_, total) = _likelihood_case(*area)(draw)
        dy = draw(1)
        inputs = [dy, x, target, weight, 1, 1, total.astype(np.float32)]
        return inputs, gradients(lambda x: _likelihood(x, target, weight)[0], [x], dy[0])

    return made


def _cross_entropy(x, target, smoothing=0.25):
    logs = x - np.log(np.exp(x).sum(1, keepdims=True))
    chosen = np.array([row[cls] for row, cls in zip(logs, target, strict=True)])
    return -((1 - smoothing) * chosen + smoothing * logs.mean(1)).mean(), logs


def _cross_entropy_case(draw):
    x, target = draw(*SHAPE), draw.integers(4, 3)
    loss, logs = _cross_entropy(x, target)
    return [x, target, None, "mean", -100, 0.25, 0.0, False], [np.array(loss), logs, None, None]


def _cross_entropy_grad(draw):
    x, target, dy = draw(*SHAPE), draw.integers(4, 3), draw(1)
    logs = _cross_entropy(x, target)[1].astype(np.float32)
    inputs = [dy, logs, target, None, None, None, "mean", -100, 0.25, 0.0]
    return inputs, gradients(lambda x: _cross_entropy(x, target)[0], [x], dy[0])


def _adam_w(draw):
    var, m, v, grad = draw(5), draw(5), draw.positive(5), draw(5)
    lr, beta1, beta2, decay, eps = 0.125, 0.875, 0.9375, 0.25, 1e-3
    new_m, new_v = beta1 * m + (1 - beta1) * grad, beta2 * v + (1 - beta2) * grad**2
    unit = new_m / (1 - beta1**3) / (np.sqrt(new_v / (1 - beta2**3)) + eps)
    inputs = [var, m, v, None, grad, np.array([2.0]), lr, beta1, beta2, decay, eps, False, False]
    return inputs, [var - lr * decay * var - lr * unit, new_m, new_v, None]


def _dropped(draw):
    x, mask = draw(9), np.array([0b01101001, 0b1], np.uint8)
    keep = np.array([1, 0, 0, 1, 0, 1, 1, 0, 1])
    return [x, mask, 0.5], [x * keep * 2]


CASES = {
    **{f"aclnn{name}": _pair(*row) for name, row in _PAIRS.items()},
    **{f"aclnn{name}Backward": _pair_backward(*row) for name, row in _PAIRS.items()},
    "aclnnKlDiv": _divergence_case,
    "aclnnKlDivBackward": _divergence_backward,
    "aclnnBinaryCrossEntropy": _entropy_case,
    "aclnnBinaryCrossEntropyBackward": _entropy_backward,
    "aclnnBinaryCrossEntropyWithLogits": _logits_case,
    "aclnnBinaryCrossEntropyWithLogitsBackward": _logits_backward,
    "aclnnNLLLoss": _likelihood_case(),
    "aclnnNLLLossBackward": _likelihood_backward(),
    "aclnnNLLLoss2d": _likelihood_case(2, 2),
    "aclnnNLLLoss2dBackward": _likelihood_backward(2, 2),
    "aclnnCrossEntropyLoss": _cross_entropy_case,
    "aclnnCrossEntropyLossGrad": _cross_entropy_grad,
    "aclnnApplyAdamWV2": _adam_w,
    "aclnnDropoutDoMask": _dropped,
}
