"""Values, gradients, shapes and dtypes of every function, with all that it returns, in each row of its types.

Kernels are held to the rules of accuracy in tests/kernels. Here it may go wrong what a function hands to them and back:
attributes, the order of inputs, dtypes, and which gradient belongs to which output. So a few ULP of the largest element
are allowed. Graphs of all functions, without sizes, are in test_dynamic_shapes.py; here is one of every third.
"""

import inspect
from importlib import import_module

import mindspore as ms
import numpy as np
import pytest
from ms_ascend_ops.samples.network import flat
from ms_ascend_ops.samples.operators import Draw, names, operator

from ms_ascend_ops import ops, registry
from ms_ascend_ops.definitions.inference import infer_types
from tests.modes import run
from tests.tensors import dtype_name, numpy, tensor

# Gradients of 16 bits are made of products, outputs and sums that are rounded to them on the way.
TOLERANCES = {"float32": 2e-5, "float16": 2.0**-8, "bfloat16": 2.0**-5}
STEP = 1e-5
SEEN = 100  # elements of a gradient that are compared
COMPILED = 3  # one of so many functions

# Their attributes have other names in the function; or it adds results up, or writes them in place.
OWN_TESTS = ("conv2d", "conv2d_batch_norm", "conv2d_group_norm", "cross_entropy", "kv_cache_update")
# Attributes beside those of the samples, with other values than their defaults.
MORE = {
    "add_layer_norm": [{"epsilon": 0.1}],
    "add_rms_norm": [{"epsilon": 0.1, "scheme": "one_plus_gamma"}],
    "flash_attention": [{"scale": 0.5, "causal": True, "window": 2}],
    "flash_attention_varlen": [{"scale": 0.5, "causal": True, "window": 2}],
    "geglu": [{"axis": 1, "activate_left": True, "approximate": "tanh"}],
    "group_norm": [{"num_groups": 8, "epsilon": 0.1, "activation": "relu"}],
    "layer_norm": [{"epsilon": 0.1, "activation": "relu"}],
    "moe_gating_top_k": [{"k": 3, "renormalize": False}],
    "paged_attention": [{"scale": 0.5, "window": 2, "softcap": 1.5}],
    "rms_norm": [{"epsilon": 0.1, "scheme": "one_plus_gamma"}],
    "softmax": [{"axis": 0}],
    "swiglu": [{"axis": 1, "interleaved": True}],
    "weight_quant_matmul": [{"activation": name} for name in ("relu", "gelu", "gelu_tanh")],
}


def cases():
    """(mode, operator, attributes, row of types): all rows with the first attributes, then one row for others."""
    found = []
    for place, name in enumerate(name for name in names() if name not in OWN_TESTS):
        sample, rows = operator(name), registry.signature(name).types
        first, *others = [{**sample.attributes(*sample.small_shapes[0]), **given} for given in sample.variants.values()]
        found += [("pynative", name, first, row) for row in rows]
        others = [("pynative", name, given, rows[i % len(rows)]) for i, given in enumerate(others + MORE.get(name, []))]
        found += others
        if place % COMPILED == 0:
            found.append(("jit", *found[-1][1:]))
    return found


def label(value):
    return "-".join(map(str, value.values())) if isinstance(value, dict) else value


def arguments(function, count, attributes):
    """The attributes in the order of the parameters: MindSpore differentiates no function with keywords."""
    parameters = list(inspect.signature(function).parameters.values())[count:]
    assert attributes.keys() <= {parameter.name for parameter in parameters}
    return [attributes.get(parameter.name, parameter.default) for parameter in parameters]


def golden(name, attributes, inputs):
    results = import_module(f"tests.reference.{name}").forward(*inputs, **attributes)
    return [np.asarray(result) for result in (results if isinstance(results, tuple) else (results,))]


def difference(function, inputs, place, at):
    """Of a number that depends on an element, by central differences in float64."""
    values = []
    for step in (STEP, -STEP):
        moved = [value.copy() if i == place else value for i, value in enumerate(inputs)]
        moved[place][at] += step
        values.append(function(moved))
    return (values[0] - values[1]) / (2 * STEP)


@pytest.mark.parametrize(("mode", "name", "attributes", "row"), cases(), ids=label)
def test_values_and_gradients(mode, name, attributes, row):
    spec, sample, function = registry.op_spec(name), operator(name), getattr(ops, name)
    arrays = sample.inputs(Draw("float32"), *sample.small_shapes[0])
    given = spec.forward.inputs[: len(arrays)]
    dtypes = [row.get(one.dtype, one.dtype) for one in given]
    tolerance = max(TOLERANCES.get(dtype, 0) for dtype in row.values())
    inputs = [tensor(array, dtype) for array, dtype in zip(arrays, dtypes, strict=True)]
    exact, behind = [numpy(one) for one in inputs], arguments(function, len(inputs), attributes)

    results, expected = flat(run(mode, function, inputs, *behind)), golden(name, attributes, exact)
    out_dtypes = infer_types(spec.forward, [*dtypes, *[None] * (len(spec.forward.inputs) - len(dtypes))])
    assert [dtype_name(result) for result in results] == out_dtypes[: len(results)]
    for result, value, one in zip(results, expected, spec.forward.outputs, strict=False):
        assert result.shape == value.shape, one.name
        allowed = tolerance * np.abs(value).max(initial=0)
        np.testing.assert_allclose(numpy(result), value, 0, allowed, err_msg=one.name)
    if not spec.differentiable:
        return

    rng = np.random.default_rng(1)
    weights = [tensor(rng.normal(size=r.shape), "float32") if "float" in dtype_name(r) else None for r in results]

    def total(*tensors):
        outputs, summed = function(*tensors, *behind), 0.0
        for i in range(len(weights)):
            if weights[i] is not None:
                output = outputs[i] if len(weights) > 1 else outputs
                summed += (output.astype(ms.float32) * weights[i]).sum()
        return summed

    weighted = [(i, numpy(weight)) for i, weight in enumerate(weights) if weight is not None]

    def exactly(values):
        outputs = golden(name, attributes, values)
        return sum(np.sum(outputs[i] * weight) for i, weight in weighted)

    places = [i for i, one in enumerate(given) if one.name in spec.differentiable]
    for place, gradient in zip(places, flat(run(mode, ms.grad(total, tuple(places)), inputs)), strict=True):
        assert (gradient.shape, dtype_name(gradient)) == (exact[place].shape, dtypes[place])
        some = np.unravel_index(rng.permutation(exact[place].size)[:SEEN], exact[place].shape)
        value = np.array([difference(exactly, exact, place, at) for at in zip(*some, strict=True)])
        allowed = tolerance * np.abs(numpy(gradient)).max()
        np.testing.assert_allclose(numpy(gradient)[some], value, 0, allowed, err_msg=f"d{given[place].name}")


@pytest.mark.parametrize("function", [ops.linear_silu_mul, ops.linear_gelu_mul], ids=lambda one: one.__name__)
def test_rows_of_any_dims(function):
    """Rows of all batches are one matrix, in gradients, too; a vector is one row."""
    rng = np.random.default_rng(0)
    x, *weights = (tensor(rng.normal(size=shape), "float32") for shape in ((6, 16), (8, 16), (8, 16)))
    gradient = ms.grad(lambda x, *weights: function(x, *weights).square().sum(), (0, 1, 2))
    expected, gradients = numpy(function(x, *weights)), [numpy(one) for one in gradient(x, *weights)]
    np.testing.assert_allclose(numpy(function(x[0], *weights)), expected[0], 1e-5, 1e-5)
    wide = x.reshape(2, 3, 16)
    np.testing.assert_allclose(numpy(function(wide, *weights)), expected.reshape(2, 3, 8), 1e-5, 1e-5)
    for found, one in zip(gradient(wide, *weights), gradients, strict=True):
        np.testing.assert_allclose(numpy(found).reshape(one.shape), one, 1e-4, 1e-4)
    assert gradient(wide, *weights)[0].shape == wide.shape
