"""The references' gradients are the derivatives of their forward passes: central differences, in float64."""

import inspect
from importlib import import_module

import numpy as np
import pytest

from ms_ascend_ops import registry
from tests.every_operator import examples

STEP = 1e-5

# Their functions take other tensors (sums, sizes of windows), which their own tests know.
OTHERS = ("add_layer_norm", "add_rms_norm", "conv2d_group_norm", "flash_attention_varlen")


def is_tested(example):
    return hasattr(reference(example), "backward") and example.name not in OTHERS


def reference(example):
    return import_module(f"tests.reference.{example.name}")


def difference(function, douts, inputs, place):
    """Of sum(dout * output) for the input at this place."""
    gradient = np.zeros(inputs[place].shape)
    for at in np.ndindex(gradient.shape):
        sums = []
        for moved in (STEP, -STEP):
            changed = [value.copy() if i == place else value for i, value in enumerate(inputs)]
            changed[place][at] += moved
            sums.append(sum(np.sum(dout * out) for dout, out in zip(douts, function(changed), strict=False)))
        gradient[at] = (sums[0] - sums[1]) / (2 * STEP)
    return gradient


@pytest.mark.parametrize("example", [example for example in examples(True) if is_tested(example)], ids=str)
def test_backward_is_the_derivative(example):
    """Through every output that backward() takes a gradient of: those in front of the inputs, by their names."""
    made, attributes, names = reference(example), example.case().attributes, example.case().input_names
    inputs = [np.array(array, np.float64) for array in example.case().inputs]

    def forward(values):
        results = made.forward(*values, **attributes)
        return results if isinstance(results, tuple) else (results,)

    rng, outputs = np.random.default_rng(0), forward(inputs)
    known = dict(zip(names, inputs, strict=True)) | attributes
    known |= dict(zip([t.name for t in registry.signature(example.name).outputs], outputs, strict=False))
    parameters = list(inspect.signature(made.backward).parameters)
    count = next(i for i, name in enumerate(parameters) if name in known)
    douts = [rng.normal(size=output.shape) for output in outputs[:count]]
    results = made.backward(*douts, **{name: known[name] for name in parameters if name in known})
    results = results if isinstance(results, tuple) else (results,)
    places = [i for i, name in enumerate(names) if name in registry.op_spec(example.name).differentiable]
    assert results
    for result, place in zip(results, places, strict=False):  # tables and masks have a function of their own
        np.testing.assert_allclose(result, difference(forward, douts, inputs, place), 1e-5, 1e-6, err_msg=names[place])
