"""A launch that is replayed gives the bits that its kernel gives, whatever the values and wherever the tensors are.

A thread that is new has seen no launch yet: what it launches first, its kernel does; the third time is a replay
(kernels/host/replay.h).
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ms_ascend_ops import registry
from ms_ascend_ops.library import native
from ms_ascend_ops.shapes import infer_shapes, infer_types
from tests.dtypes import FLOATS, encode, poisoned
from tests.every_operator import every_operator

SMALL_UB = 64 * 1024  # several tiles


@pytest.fixture(autouse=True)
def _one_core_with_little_memory():
    threads, ub = native().get_thread_num(), native().get_ub_bytes()
    native().set_thread_num(1)  # the calling thread
    native().set_ub_bytes(SMALL_UB)
    yield
    native().set_thread_num(threads)
    native().set_ub_bytes(ub)


def launched(example, dtype, shift=0):
    """The bits of all results, for inputs whose values are rolled on, in tensors that are new."""
    case = example.case(dtype, max(example.operator.small_shapes, key=np.prod))
    for array in case.inputs:
        if array.dtype.kind != "i":
            array[...] = np.roll(array, shift)
    for launch in case.launches:
        native().launch(launch.kernel, launch.inputs, launch.outputs, launch.attributes)
    return b"".join(result.tobytes() for result in case.results)


def on_a_new_thread(function):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


@every_operator()
@pytest.mark.parametrize("dtype", FLOATS)
def test_same_bits(example, dtype):
    def replayed():
        others = [launched(example, dtype, shift) for shift in (1, 2)]
        return others, launched(example, dtype)

    expected = on_a_new_thread(lambda: launched(example, dtype))
    others, bits = on_a_new_thread(replayed)
    assert bits == expected
    assert expected not in others


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["add", "silu_mul", "gelu_mul", "add_rms_norm", "add_layer_norm"])
def test_two_inputs_that_were_one(op, dtype):
    """A plan that was made when two inputs were the same tensor is right when they are not."""
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((7, 304)) for _ in range(2)]
    inputs += [rng.standard_normal(304) for _ in range(len(registry.signature(op).inputs) - 2)]
    x, other, *rest = [encode(values, dtype) for values in inputs]

    def launched_on(first, second):
        tensors = [first, second, *rest]
        types = [dtype] * len(tensors)
        signature = registry.signature(op)
        shapes = infer_shapes(signature, [t.shape for t in tensors], signature.check_attributes({}))
        kinds = infer_types(signature, types)
        outputs = [poisoned(shape, kind) for shape, kind in zip(shapes, kinds, strict=True)]
        native().launch(op, tensors, outputs, {}, [*types, *kinds])
        return b"".join(output.tobytes() for output in outputs)

    expected = on_a_new_thread(lambda: launched_on(x, other))
    assert on_a_new_thread(lambda: [launched_on(x, x), launched_on(x, other)])[1] == expected


def test_tensors_that_overlap():
    """x * sigmoid(x) * x, with one tensor as both inputs: apart or not, each time what is asked for."""
    x, up = np.random.default_rng(0).standard_normal((2, 7, 300)).astype(np.float32)

    def launches(*gates):
        results = []
        for gate in gates:
            results.append(np.empty_like(x))
            native().launch("silu_mul", [x, gate], [results[-1]], {})
        return results

    apart, together = on_a_new_thread(lambda: launches(up)), on_a_new_thread(lambda: launches(x))
    mixed = on_a_new_thread(lambda: launches(up, up, up, x, x, x, up))
    for result, right in zip(mixed, [*apart * 3, *together * 3, *apart], strict=True):
        assert np.array_equal(result, right)
