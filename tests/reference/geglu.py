"""geglu(x) and its gradient in float64."""

from tests.reference import gelu_mul, swiglu


def _gate_and_up(x, axis, activate_left):
    left, right = swiglu.split(x, axis, False)
    return (left, right) if activate_left else (right, left)


def _whole(gate, up, axis, activate_left):
    return swiglu.join(*((gate, up) if activate_left else (up, gate)), axis, False)


def forward(x, axis=-1, activate_left=False, approximate="none"):
    return gelu_mul.forward(*_gate_and_up(x, axis, activate_left), approximate)


def backward(dy, x, axis=-1, activate_left=False, approximate="none"):
    gradients = gelu_mul.backward(dy, *_gate_and_up(x, axis, activate_left), approximate)
    return _whole(*gradients, axis, activate_left)


def backward_terms(dy, x, axis=-1, activate_left=False, approximate="none"):
    terms = gelu_mul.backward_terms(dy, *_gate_and_up(x, axis, activate_left), approximate)
    return _whole(*terms, axis, activate_left)
