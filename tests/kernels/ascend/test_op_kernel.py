"""The generated kernel entries, run on the host layer with the tiling that op_host serialized for a chip."""

import numpy as np
import pytest

from ms_ascend_ops import _C
from ms_ascend_ops.inference import given_types, infer_shapes, infer_types
from tests.kernels.ascend import module
from tests.kernels.ascend.cases import arrays, draw, types_of, values

# A kernel that writes where an input says needs inputs of its own, below.
NAMES = sorted(name for name, kernel in module.kernels().items() if not kernel.signature.writes)
AIV_ONLY, MIX_AIV_1_0, MIX_AIC_1_2 = 1, 2, 3
LARGEST = 60_000  # elements of a tensor
ROUNDS = 4
SYNCHRONIZED_ROUNDS = 2  # dozens of threads that wait for each other are slow on a few CPUs


def inputs_and_outputs(rng, name, shapes, attributes):
    """Arrays of the dtypes that the entry was compiled for; the outputs are poisoned."""
    signature, row = module.kernels()[name].signature, module.run_types(name)
    dtypes = given_types(shapes, types_of(signature, row))
    inputs = arrays(rng, signature, shapes, dtypes)
    outputs = [
        poisoned(shape, dtype)
        for shape, dtype in zip(
            infer_shapes(signature, shapes, attributes), infer_types(signature, dtypes), strict=True
        )
    ]
    return dtypes, inputs, outputs


def poisoned(shape, dtype):
    """Bytes that no kernel writes."""
    size = np.dtype(dtype).itemsize
    byte = 0x80 if size == 1 else 0xA5  # as a number of 8 bits -128, which quantisation leaves out
    return np.full(int(np.prod(shape)) * size, byte, np.uint8).view(dtype).reshape(shape)


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
        assert kind == (MIX_AIC_1_2 if kernel.multiplies else MIX_AIV_1_0 if kernel.synchronizes else AIV_ONLY)
        expected = [np.empty_like(output) for output in outputs]
        _C.launch(name, inputs, expected, attributes)
        for output, reference in zip(outputs, expected, strict=True):
            assert not untouched(output).any(), f"{shapes} {attributes}: elements are missing"
            assert np.array_equal(output, reference), f"{shapes} {attributes}"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "group_norm" and not name.endswith("norm_grad")])
def test_every_element_is_written_by_exactly_one_core(name):
    rng, kernel = np.random.default_rng(7), module.kernels()[name]
    for _ in range(3):
        shapes, _, attributes = draw(rng, kernel.signature, LARGEST)
        dtypes, inputs, outputs = inputs_and_outputs(rng, name, shapes, attributes)
        if all(output.size == 0 for output in outputs):
            continue
        tiling = module.tile(name, shapes, dtypes, attributes, 6)
        if tiling.schedule_mode != 0:
            continue  # its cores wait for each other: none can run alone
        writers = [np.zeros(output.shape, int) for output in outputs]
        for block in range(tiling.block_dim * (2 if kernel.multiplies else 1)):
            fresh = [poisoned(output.shape, output.dtype) for output in outputs]
            module.run(name, tiling, [*inputs, *fresh], only=block)
            for i, output in enumerate(fresh):
                writers[i] += ~untouched(output)
        for count in writers:
            assert (count == 1).all(), f"{shapes} {attributes}: {count.min()} to {count.max()} cores write an element"


def test_a_cache_is_updated_through_the_output_of_its_name():
    """CANN passes the cache twice: as an input and as an output. Both are one tensor there; the kernel writes to the
    output."""
    rng, name = np.random.default_rng(0), "kv_cache_update"
    dtype = module.run_types(name)["T"]
    key, value = (values(rng, (5, 2, size), dtype) for size in (24, 40))
    caches = [values(rng, (3, 4, 2, size), dtype) for size in (24, 40)]
    slots = np.array([11, 0, -1, 4, 7], np.int32)
    inputs = [key, value, *caches, slots]
    dtypes = [dtype] * 4 + ["int32"]
    tiling = module.tile(name, [array.shape for array in inputs], dtypes, {}, 40)
    assert tiling.ok
    updated, status = [cache.copy() for cache in caches], poisoned((1,), "int32")
    before = [cache.copy() for cache in caches]
    assert module.run(name, tiling, [*inputs, *updated, status]) == AIV_ONLY
    assert status[0] == 0
    for cache, kept, result, new in zip(caches, before, updated, (key, value), strict=True):
        expected = kept.copy()
        expected.reshape(12, *new.shape[1:])[slots[slots >= 0]] = new[slots >= 0]
        assert np.array_equal(result, expected)
        assert np.array_equal(cache, kept)
