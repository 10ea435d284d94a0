"""Compositions of stock operators against the references in float64, in PyNative and in graphs."""

import mindspore as ms
import numpy as np
import pytest

from ms_ascend_ops import dispatch
from ms_ascend_ops.dispatch.implementations import built_in
from tests.acceptance import assert_accurate, assert_close
from tests.every_operator import examples
from tests.tensors import numpy

EXAMPLES = [example for example in examples(False) if "composition" in [one.version for one in built_in(example.name)]]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_values(example, dtype):
    """Of all outputs that the samples return, through the operator's function."""
    dispatch.use(dispatch.Fixed("composition"), example.name)
    tensors = example.tensors(dtype)
    results = example.network()(*tensors)
    results = results if isinstance(results, tuple) else (results,)
    golden = example.golden(tensors)
    assert all(one.failures == {} for one in dispatch.status(example.name))
    for mine, exact in zip(results, golden, strict=True):
        product = example.name.startswith(("matmul", "linear", "quant", "weight"))
        terms = np.abs(exact).max() if product else None
        assert_accurate(numpy(mine), exact, str(mine.dtype).lower(), terms)


@pytest.mark.parametrize("example", [example for example in EXAMPLES if not example.variant], ids=str)
def test_all_outputs_are_those_of_the_kernel(example, monkeypatch):
    """Shapes and dtypes, too: by the guard, which compares every output, in a call by the operator's function."""
    dispatch.use(dispatch.Fixed("kernel"), example.name, guard=dispatch.Guard("composition", first=1))
    example.network()(*example.tensors())
    assert all(one.failures == {} for one in dispatch.status(example.name))


@pytest.mark.parametrize(
    "name", ["rms_norm", "matmul", "rotary_embedding", "flash_attention", "cross_entropy", "swiglu"]
)
def test_in_a_graph(name):
    example = next(example for example in EXAMPLES if example.name == name)
    dispatch.use(dispatch.Fixed("composition"), name)
    tensors = example.tensors()
    net = example.network()
    results = ms.jit(net.construct)(*tensors)
    results = results if isinstance(results, tuple) else (results,)
    assert {choice.version for choice in dispatch.choices()} == {"composition"}
    for mine, exact in zip(results, example.golden(tensors), strict=True):
        assert_close(numpy(mine), exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["rms_norm", "silu_mul", "layer_norm"])
def test_gradients(name):
    example = next(example for example in examples(True) if example.name == name)
    dispatch.use(dispatch.Fixed("composition"), name)
    tensors = example.tensors()
    results = example.network()(*tensors)
    results = results if isinstance(results, tuple) else (results,)
    for mine, exact in zip(results, example.golden(tensors), strict=True):
        assert_close(numpy(mine), exact, rtol=1e-4, atol=1e-5)
