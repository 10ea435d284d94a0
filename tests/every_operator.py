"""Small inputs of every operator, for what is tested of all of them alike. They are those of its benchmark."""

from dataclasses import dataclass
from importlib import import_module

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn
from ms_ascend_ops.samples import network
from ms_ascend_ops.samples.cases import Case
from ms_ascend_ops.samples.operators import names, operator

from ms_ascend_ops import registry
from tests.tensors import numpy

# Sizes that a gradient has to know where nothing else is known.
KNOWN = {name: {"weight": (None, None, 3, 3)} for name in ("conv2d", "conv2d_batch_norm", "conv2d_group_norm")}


@dataclass(frozen=True)
class Example:
    """One operator with one set of attributes: forward, or forward and gradient."""

    name: str
    variant: str = ""
    gradient: bool = False

    def __str__(self):
        return "-".join(filter(None, [self.name, "grad" * self.gradient, self.variant]))

    @property
    def operator(self):
        return operator(self.name)

    def case(self, dtype="float32", shape=None):
        """With the first of its small shapes, if none is given."""
        return Case(self.name, self.gradient, shape or self.operator.small_shapes[0], dtype, self.variant)

    def network(self, function=None):
        """The operator, or another function of the same tensors: a cell."""
        forward = network.Forward(function or self.operator.ours, self.case())
        return _Gradient(self, forward) if self.gradient else forward

    def tensors(self, dtype="float32", shape=None):
        """What the network takes."""
        case = self.case(dtype, shape)
        return [network.tensor(array) for array in (case.dys if self.gradient else []) + case.inputs]

    def unknown(self, shape):
        """The same, of which no size is known: `shape` makes what stands for it of a number of dims."""
        known = KNOWN.get(self.name, {}) if self.gradient else {}
        names = ["dy"] * self.operator.outputs * self.gradient + self.case().input_names
        tensors = zip(names, self.tensors(), strict=True)
        return [ms.Tensor(shape=known.get(name, shape(tensor.ndim)), dtype=tensor.dtype) for name, tensor in tensors]

    def golden(self, tensors):
        """What the network gives, in float64. Gradients are central differences: nothing of ours is in them."""
        values = [numpy(tensor) for tensor in tensors]
        if not self.gradient:
            return self.forward(values)
        dys, inputs = values[: self.operator.outputs], values[self.operator.outputs :]
        names = registry.op_spec(self.name).differentiable
        places = [i for i, name in enumerate(self.case().input_names) if name in names]
        return [self._difference(dys, inputs, place) for place in places]

    def forward(self, inputs):
        """By `tests/reference/<name>.py`: forward() takes the inputs, then the attributes of the benchmark."""
        try:
            reference = import_module(f"tests.reference.{self.name}")
        except ImportError:
            pytest.fail(f"{self.name} has no reference: write tests/reference/{self.name}.py, with forward()")
        outputs = reference.forward(*inputs, **self.case().attributes)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        return list(outputs[: len(self.case().output_names)])

    def _difference(self, dys, inputs, place, step=1e-5):
        gradient = np.zeros(inputs[place].shape)
        for i in np.ndindex(gradient.shape):
            sums = []
            for moved in (step, -step):
                changed = [value.copy() if n == place else value for n, value in enumerate(inputs)]
                changed[place][i] += moved
                sums.append(sum(np.sum(dy * y) for dy, y in zip(dys, self.forward(changed), strict=True)))
            gradient[i] = (sums[0] - sums[1]) / (2 * step)
        return gradient


class _Gradient(nn.Cell):
    """The gradients of all inputs that have one. Takes gradients of what the operator returns, then the inputs."""

    def __init__(self, example, forward):
        super().__init__()
        self.forward = forward
        self.outputs = example.operator.outputs
        names = registry.op_spec(example.name).differentiable
        inputs = [i for i, name in enumerate(example.case().input_names) if name in names]
        # Of the scalar it goes back from: MindSpore's vjp takes no unknown shapes.
        self.gradient = ms.grad(self.total, tuple(self.outputs + i for i in inputs))

    def total(self, *tensors):
        results = self.forward(*tensors[self.outputs :])
        results = results if isinstance(results, tuple) else (results,)
        total = 0.0
        for i in range(self.outputs):
            total += (results[i].astype(ms.float32) * tensors[i].astype(ms.float32)).sum()
        return total

    def construct(self, *tensors):
        return self.gradient(*tensors)


def examples(*passes):
    """Of every operator and its variants: forward (False), gradient (True), or both.

    One without a file in samples/ops is missing in all of them: tests/benchmarks/test_harness.py fails, once.
    """
    found = []
    for name in names():
        differentiable = bool(registry.op_spec(name).differentiable)
        of_name = [g for g in passes or (False, True) if differentiable or not g]
        found += [Example(name, variant, g) for g in of_name for variant in operator(name).variants]
    return found


def every_operator(*passes):
    """Parametrize a test by all of them."""
    return pytest.mark.parametrize("example", examples(*passes), ids=str)
