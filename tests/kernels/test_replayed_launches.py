"""A launch that is replayed gives the bits that its kernel gives, whatever the values and wherever the tensors are.

A thread that is new has seen no launch yet: what it launches first, its kernel does; the third time is a replay
(kernels/host/replay.h).
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ms_ascend_ops.library import native
from tests.dtypes import FLOATS
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
