"""The generated kernel entries, run on the host layer with the tiling that op_host serialized for a chip."""

from dataclasses import dataclass

import numpy as np
import pytest

from ms_ascend_ops import _C
from ms_ascend_ops.inference import given_types, infer_shapes, infer_types
from tests.kernels.ascend import module
from tests.kernels.ascend.cases import arrays, draw, numpy_type, types_of, values

# A kernel that writes where an input says needs inputs of its own, below.
NAMES = sorted(name for name, kernel in module.kernels().items() if not kernel.signature.writes)
LARGEST = 60_000  # elements of a tensor


@dataclass
class Case:
    """A random call; the outputs are poisoned."""

    row: int
    attributes: dict
    dtypes: list  # of inputs
    inputs: list
    outputs: list
    output_types: list

    def tile(self, name, cores):
        shapes = [None if array is None else array.shape for array in self.inputs]
        return module.tile(name, shapes, self.dtypes, self.attributes, cores)

    def run(self, name, tiling, outputs, only=None):
        types = [*self.dtypes, *self.output_types]
        module.run(name, self.row, tiling, [*self.inputs, *outputs], types, only)


def case(rng, name, row):
    """With the dtypes of a row of the definition."""
    signature = module.kernels()[name].signature
    shapes, _, attributes = draw(rng, signature, LARGEST)
    dtypes = given_types(shapes, types_of(signature, signature.types[row]))
    types = infer_types(signature, dtypes)
    outputs = [poisoned(s, dtype) for s, dtype in zip(infer_shapes(signature, shapes, attributes), types, strict=True)]
    return Case(row, attributes, dtypes, arrays(rng, signature, shapes, dtypes), outputs, types)


def poisoned(shape, dtype):
    """Bytes that no kernel writes."""
    dtype = numpy_type(dtype)
    size = dtype.itemsize
    byte = {1: 0x80, 2: 0xFF}.get(size, 0xA5)  # -128, which quantisation leaves out; no number; one that is not met
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
    for row in range(len(kernel.signature.types)):
        one = case(rng, name, row)
        if all(output.size == 0 for output in one.outputs):
            continue  # CANN launches nothing then
        one.run(name, one.tile(name, cores), one.outputs)
        expected = [np.empty_like(output) for output in one.outputs]
        _C.launch(name, one.inputs, expected, one.attributes)
        for output, reference in zip(one.outputs, expected, strict=True):
            shapes = [None if array is None else array.shape for array in one.inputs]
            assert not untouched(output).any(), f"{shapes} {one.attributes}: elements are missing"
            assert output.tobytes() == reference.tobytes(), f"{shapes} {one.attributes}"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "group_norm" and not name.endswith("norm_grad")])
def test_every_element_is_written_by_exactly_one_core(name):
    rng, kernel = np.random.default_rng(7), module.kernels()[name]
    for _ in range(3):
        one = case(rng, name, len(kernel.signature.types) - 1)
        if all(output.size == 0 for output in one.outputs):
            continue
        tiling = one.tile(name, 6)
        if tiling.schedule_mode != 0:
            continue  # its cores wait for each other: none can run alone
        writers = [np.zeros(output.shape, int) for output in one.outputs]
        for block in range(tiling.block_dim * (2 if kernel.multiplies else 1)):
            fresh = [poisoned(output.shape, output.dtype) for output in one.outputs]
            one.run(name, tiling, fresh, only=block)
            for i, output in enumerate(fresh):
                writers[i] += ~untouched(output)
        for count in writers:
            assert (count == 1).all(), f"{one.attributes}: {count.min()} to {count.max()} cores write an element"


def test_a_cache_is_updated_through_the_output_of_its_name():
    """CANN passes the cache twice: as an input and as an output. Both are one tensor there; the kernel writes to the
    output."""
    rng, name = np.random.default_rng(0), "kv_cache_update"
    row = 0
    dtype = module.kernels()[name].signature.types[row]["T"]
    key, value = (values(rng, (5, 2, size), dtype) for size in (24, 40))
    caches = [values(rng, (3, 4, 2, size), dtype) for size in (24, 40)]
    slots = np.array([11, 0, -1, 4, 7], np.int32)
    inputs = [key, value, *caches, slots]
    dtypes = [dtype] * 4 + ["int32"]
    tiling = module.tile(name, [array.shape for array in inputs], dtypes, {}, 40)
    assert tiling.ok
    updated, status = [cache.copy() for cache in caches], poisoned((1,), "int32")
    before = [cache.copy() for cache in caches]
    module.run(name, row, tiling, [*inputs, *updated, status], [*dtypes, dtype, dtype, "int32"])
    assert status[0] == 0
    for cache, kept, result, new in zip(caches, before, updated, (key, value), strict=True):
        expected = kept.copy()
        expected.reshape(12, *new.shape[1:])[slots[slots >= 0]] = new[slots >= 0]
        assert np.array_equal(result, expected)
        assert np.array_equal(cache, kept)
