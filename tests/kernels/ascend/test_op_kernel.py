"""The generated kernel entries, run on the host layer with the tiling that op_host serialized for a chip."""

import numpy as np
import pytest

from ms_ascend_ops import _C
from ms_ascend_ops.shapes import infer_shapes, infer_types
from tests.kernels.ascend import module
from tests.kernels.ascend.cases import draw, values

# A kernel that writes where an input says needs inputs of its own: tests/kernels/test_kv_cache_update.py.
NAMES = sorted(name for name, kernel in module.kernels().items() if not kernel.signature.writes)
AIV_ONLY, MIX_AIV_1_0 = 1, 2
LARGEST = 60_000  # elements of a tensor
ROUNDS = 4
SYNCHRONIZED_ROUNDS = 2  # dozens of threads that wait for each other are slow on a few CPUs


def inputs_and_outputs(rng, name, shapes, attributes):
    """Arrays of the dtypes that the entry was compiled for; the outputs are poisoned."""
    signature, row = module.kernels()[name].signature, module.run_types(name)
    dtypes = [row.get(tensor.dtype, tensor.dtype) for tensor in signature.inputs]
    inputs = [values(rng, shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    outputs = [
        poisoned(shape, dtype)
        for shape, dtype in zip(
            infer_shapes(signature, shapes, attributes), infer_types(signature, dtypes), strict=True
        )
    ]
    return dtypes, inputs, outputs


def poisoned(shape, dtype):
    """Bytes that no kernel writes."""
    return np.full(int(np.prod(shape)) * np.dtype(dtype).itemsize, 0xA5, np.uint8).view(dtype).reshape(shape)


def untouched(array):
    return array.view(np.dtype(f"u{array.itemsize}")) == poisoned(array.shape, array.dtype).view(f"u{array.itemsize}")


@pytest.fixture
def tiles_of_the_chip():
    """In the host library, whose cores have a larger Unified Buffer."""
    _C.set_ub_bytes(module.KERNEL_UB_BYTES)
    yield
    _C.set_ub_bytes(0)


@pytest.mark.usefixtures("tiles_of_the_chip")
@pytest.mark.parametrize("cores", [40, 48])
@pytest.mark.parametrize("name", NAMES)
def test_results_are_those_of_the_host_library(name, cores):
    """With the tiling of a chip and its Unified Buffer: the host layer ends the process if a kernel takes more."""
    rng, kernel = np.random.default_rng(cores), module.kernels()[name]
    for _ in range(SYNCHRONIZED_ROUNDS if kernel.synchronizes else ROUNDS):
        shapes, _, attributes = draw(rng, kernel.signature, LARGEST)
        dtypes, inputs, outputs = inputs_and_outputs(rng, name, shapes, attributes)
        if all(output.size == 0 for output in outputs):
            continue  # CANN launches nothing then
        tiling = module.tile(name, shapes, dtypes, attributes, cores)
        kind = module.run(name, tiling, [*inputs, *outputs])
        assert kind == (MIX_AIV_1_0 if kernel.synchronizes else AIV_ONLY)
        expected = [np.empty_like(output) for output in outputs]
        _C.launch(name, inputs, expected, attributes)
        for output, reference in zip(outputs, expected, strict=True):
            assert not untouched(output).any(), f"{shapes} {attributes}: elements are missing"
            assert np.array_equal(output, reference), f"{shapes} {attributes}"


@pytest.mark.parametrize("name", [name for name in NAMES if not module.kernels()[name].synchronizes])
def test_every_element_is_written_by_exactly_one_core(name):
    rng, kernel = np.random.default_rng(7), module.kernels()[name]
    for _ in range(3):
        shapes, _, attributes = draw(rng, kernel.signature, LARGEST)
        dtypes, inputs, outputs = inputs_and_outputs(rng, name, shapes, attributes)
        if all(output.size == 0 for output in outputs):
            continue
        tiling = module.tile(name, shapes, dtypes, attributes, 6)
        writers = [np.zeros(output.shape, int) for output in outputs]
        for block in range(tiling.block_dim):
            fresh = [poisoned(output.shape, output.dtype) for output in outputs]
            module.run(name, tiling, [*inputs, *fresh], only=block)
            for i, output in enumerate(fresh):
                writers[i] += ~untouched(output)
        for count in writers:
            assert (count == 1).all(), f"{shapes} {attributes}: {count.min()} to {count.max()} cores write an element"
