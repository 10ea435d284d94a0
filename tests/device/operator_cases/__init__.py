"""Inputs and golden values for each row of CANN's operators (ms_ascend_ops/device/aclnn.txt).

A case gets a Draw and returns the inputs in the order of C, without outputs, and what the outputs must be: float64
becomes the dtype that is drawn, float32 and integers stay what they are.
"""

from importlib import import_module

import numpy as np

from tests.device.calls import Memory, bits, values_of

__all__ = ["MODULES", "Draw", "all_cases", "families", "gradients"]

MODULES = ("attention", "elementwise", "lists", "losses", "networks", "reductions", "tensors")
_STEP = 1e-6


class Draw:
    """Random inputs that a dtype holds exactly, as float64."""

    def __init__(self, dtype, seed=0):
        self.dtype = dtype
        self.random = np.random.default_rng(seed)

    def __call__(self, *shape, low=-2.0, high=2.0):
        return values_of(bits(self.random.uniform(low, high, shape), self.dtype)).astype(np.float64)

    def positive(self, *shape):
        return self(*shape, low=0.25, high=3.0)

    def integers(self, high, *shape, low=0, dtype=np.int64):
        return self.random.integers(low, high, shape).astype(dtype)

    def booleans(self, *shape):
        return self.random.random(shape) < 0.5


def families():
    """The cases by the module that they stand in."""
    return {stem: import_module(f"{__name__}.{stem}").CASES for stem in MODULES}


def all_cases():
    cases = {}
    for more in families().values():
        assert not cases.keys() & more.keys()
        cases |= more
    return cases


def gradients(function, inputs, *douts):
    """Of sum(dout * output) for each input, by central differences in float64."""

    def total(values):
        outputs = function(*values)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        return sum(np.sum(dout * output) for dout, output in zip(douts, outputs, strict=True))

    found = []
    for place, given in enumerate(inputs):
        result = np.zeros(given.shape)
        for at in np.ndindex(*given.shape):
            sides = []
            for sign in (1, -1):
                moved = given.copy()
                moved[at] += sign * _STEP
                sides.append(total([*inputs[:place], moved, *inputs[place + 1 :]]))
            result[at] = (sides[0] - sides[1]) / (2 * _STEP)
        found.append(result)
    return found


def stored(array, dtype, strided):
    """A tensor of these values; `strided`: not contiguous."""
    memory = bits(array, dtype) if array.dtype == np.float64 else Memory(np.array(array))
    if strided:
        whole = memory.array
        if whole.ndim > 1:
            memory.array = np.ascontiguousarray(whole.T).T
        elif whole.ndim == 1:
            memory.array = np.repeat(whole, 2)[::2]
    return memory
