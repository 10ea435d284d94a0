"""Operators by their names of the graph engine that change inputs: inputs, attributes, outputs, and what changes."""

import numpy as np

from tests.device.operator_cases.by_name import PLACES, SHAPE, P, X, exact, positive, scalar, scattered, tensor


def step(function, *inputs, changed, outputs=(), **attributes):
    """A step of an optimizer: `function` gives new values of the inputs `changed`; `outputs`, which of these come out."""

    def made(draw):
        arrays = [one(draw) if callable(one) else one for one in inputs]
        new = dict(zip(changed, function(*map(exact, arrays)), strict=True))
        return arrays, attributes, [new[place] for place in outputs], new

    return made


def _adam(var, m, v, p1, p2, lr, b1, b2, eps, grad):
    m, v = b1 * m + (1 - b1) * grad, b2 * v + (1 - b2) * grad**2
    return var - lr * np.sqrt(1 - p2) / (1 - p1) * m / (np.sqrt(v) + eps), m, v


def _amsgrad(var, m, v, most, p1, p2, lr, b1, b2, eps, grad):
    m, v = b1 * m + (1 - b1) * grad, b2 * v + (1 - b2) * grad**2
    most = np.maximum(most, v)
    return var - lr * np.sqrt(1 - p2) / (1 - p1) * m / (np.sqrt(most) + eps), m, v, most


def _rms_prop(var, ms, mom, lr, grad, rho=0.9, momentum=0.5, eps=1e-3):
    ms = rho * ms + (1 - rho) * grad**2
    mom = momentum * mom + lr * grad / np.sqrt(ms + eps)
    return var - mom, ms, mom


def _centred(var, mg, ms, mom, lr, rho, momentum, eps, grad):
    mg, ms = rho * mg + (1 - rho) * grad, rho * ms + (1 - rho) * grad**2
    mom = momentum * mom + lr * grad / np.sqrt(ms - mg**2 + eps)
    return var - mom, mg, ms, mom


def _ftrl(var, accum, linear, grad, lr, l1, l2, power):
    new = accum + grad**2
    linear = linear + grad - (new**-power - accum**-power) / lr * var
    outside = np.where(linear > l1, l1 - linear, np.where(linear < -l1, -l1 - linear, 0))
    return outside / (new**-power / lr + 2 * l2), new, linear


def _sgd(var, grad, lr, accum, momentum, stat):
    accum = momentum * accum + grad
    return var - lr * accum, accum, stat


def _decayed(grad, v, m, var, lr, b1, r1, b2, r2, decay, eps):
    m, v = b1 * m + r1 * grad, b2 * v + r2 * grad**2
    return v, m, var - lr * (m / (np.sqrt(v) + eps) + decay * var)


def _lamb(grad, v, m, var, b1, r1, b2, r2, eps, steps, use, decay):
    m, v = b1 * m + r1 * grad, b2 * v + r2 * grad**2
    return v, m, m / (1 - b1**steps) / (np.sqrt(v / (1 - b2**steps)) + eps) + use * decay * var


CASES = {
    "Assign": step(lambda _, value: [value], X, X, changed=[0], outputs=[0]),
    "AssignAdd": step(lambda x, value: [x + value], X, X, changed=[0], outputs=[0]),
    "AssignSub": step(lambda x, value: [x - value], X, X, changed=[0], outputs=[0]),
    "ScatterNdAdd": step(lambda *given: [scattered(*given, True)], X, PLACES, tensor(3), changed=[0], outputs=[0]),
    "ScatterNdUpdate": step(lambda *given: [scattered(*given, False)], X, PLACES, tensor(3), changed=[0], outputs=[0]),
    "ApplyGradientDescent": step(lambda var, lr, d: [var - lr * d], X, scalar(0.1), X, changed=[0], outputs=[0]),
    "ApplyAdagrad": step(
        lambda var, a, lr, g: [var - lr * g / np.sqrt(a + g**2), a + g**2],
        X, P, scalar(0.1), X, changed=[0, 1], outputs=[0], update_slots=1,
    ),
    "ApplyAdagradD": step(
        lambda var, a, lr, g: [var - lr * g / np.sqrt(a), a],
        X, P, scalar(0.1), X, changed=[0, 1], outputs=[0, 1], update_slots=0,
    ),
    "ApplyAdagradV2": step(
        lambda var, a, lr, e, g: [var - lr * g / (np.sqrt(a + g**2) + e), a + g**2],
        X, P, scalar(0.1), scalar(1e-3), X, changed=[0, 1], outputs=[0], update_slots=1,
    ),
    "ApplyAdam": step(
        _adam, X, X, P, *map(scalar, (0.9, 0.99, 0.1, 0.9, 0.99, 1e-3)), X,
        changed=[0, 1, 2], outputs=[0], use_nesterov=0,
    ),
    "ApplyAdamD": step(
        _adam, X, X, P, *map(scalar, (0.9, 0.99, 0.1, 0.9, 0.99, 1e-3)), X,
        changed=[0, 1, 2], outputs=[0, 1, 2], use_nesterov=0,
    ),
    "ApplyAdamWithAmsgrad": step(
        _amsgrad, X, X, P, P, *map(scalar, (0.9, 0.99, 0.1, 0.9, 0.99, 1e-3)), X, changed=[0, 1, 2, 3], outputs=[0]
    ),
    "ApplyRMSProp": step(
        lambda var, ms, mom, lr, _rho, _momentum, _eps, grad: _rms_prop(var, ms, mom, lr, grad),
        X, P, X, *map(scalar, (0.1, 0.9, 0.5, 1e-3)), X, changed=[0, 1, 2], outputs=[0],
    ),
    "ApplyRMSPropD": step(
        _rms_prop, X, P, X, scalar(0.1), X, changed=[0, 1, 2], outputs=[0, 1, 2], rho=0.9, momentum=0.5, epsilon=1e-3
    ),
    "ApplyCenteredRMSProp": step(
        _centred, X, lambda draw: draw(*SHAPE) * np.float32(0.1), P, X, *map(scalar, (0.1, 0.9, 0.5, 1.0)), X,
        changed=[0, 1, 2, 3], outputs=[0],
    ),
    "ApplyFtrl": step(
        _ftrl, X, P, X, X, *map(scalar, (0.1, 0.2, 0.3, -0.5)), changed=[0, 1, 2], outputs=[0]
    ),
    "SGD": step(
        _sgd, X, X, scalar(0.1), X, scalar(0.9), tensor(*SHAPE, draws=lambda draw, *shape: np.zeros(shape, np.float32)),
        changed=[0, 3, 5], outputs=[0], dampening=0.0, weight_decay=0.0, nesterov=0,
    ),
    "AdamApplyOneWithDecayAssign": step(
        _decayed,
        X, P, X, X, *map(scalar, (0.1, 0.9, 0.1, 0.99, 0.01, 0.05, 1e-3)), changed=[1, 2, 3], outputs=[1, 2, 3],
    ),
    "LambApplyWeightAssign": step(
        lambda a, b, lr, d, var: [var - lr * a / b * d], scalar(3), scalar(2), scalar(0.1), X, X, changed=[4], outputs=[4]
    ),
}  # fmt: skip


def _lamb_step(draw):
    numbers = [scalar(value) for value in (0.9, 0.1, 0.99, 0.01, 1e-3, 3, 1, 0.05)]
    inputs = [draw(*SHAPE), positive(draw, *SHAPE), draw(*SHAPE), draw(*SHAPE), *numbers]
    v, m, out = _lamb(*map(exact, inputs))
    return inputs, {}, [out, v, m], {1: v, 2: m}


def _rows(change):
    """Rows of a tensor, none of them twice."""

    def new(x, at, updates):
        out = x.copy()
        for place, row in zip(at, updates, strict=True):
            out[place] = change(out[place], row)
        return [out]

    return step(new, X, np.array([2, 0], np.int32), tensor(2, 4), changed=[0], outputs=[0])


CASES |= {
    "LambApplyOptimizerAssign": _lamb_step,
    "ScatterAdd": _rows(lambda old, row: old + row),
    "ScatterSub": _rows(lambda old, row: old - row),
    "ScatterUpdate": _rows(lambda _, row: row),
}
