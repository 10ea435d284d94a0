"""The generated kernel entries, run on the host layer with the tiling that op_host serialized for a chip."""

import subprocess
from itertools import product

import numpy as np
import pytest
from codegen.ascend import op_kernel, project

from ms_ascend_ops import _C
from tests.kernels.ascend import module
from tests.kernels.ascend.cases import poisoned, random_call, untouched, values

# A kernel that writes where an input says needs inputs of its own, below.
NAMES = sorted(name for name, kernel in module.kernels().items() if not kernel.signature.writes)
LARGEST = 60_000  # elements of a tensor


def tile(call, cores):
    return module.tile(call.signature.name, call.shapes, call.dtypes, call.attributes, cores)


def run(call, tiling, outputs, only=None):
    types = [*call.dtypes, *call.output_types]
    module.run(call.signature.name, call.row, tiling, [*call.inputs, *outputs], types, only)


@pytest.fixture
def tiles_of_the_chip():
    """In the host library, whose cores have a larger Unified Buffer."""
    _C.set_ub_bytes(module.KERNEL_UB_BYTES)
    yield
    _C.set_ub_bytes(0)


@pytest.mark.usefixtures("tiles_of_the_chip")
@pytest.mark.parametrize("name", NAMES)
def test_results_are_those_of_the_host_library(name):
    """With the tiling of a chip and its Unified Buffer: the host layer ends the process if a kernel takes more."""
    rng, kernel = np.random.default_rng(0), module.kernels()[name]
    for row, cores in product(range(len(kernel.signature.types)), (40, 48)):
        call = random_call(rng, kernel.signature, row, LARGEST)
        if all(output.size == 0 for output in call.outputs):
            continue  # CANN launches nothing then
        run(call, tile(call, cores), call.outputs)
        expected = [np.empty_like(output) for output in call.outputs]
        _C.launch(name, call.inputs, expected, call.attributes)
        for output, reference in zip(call.outputs, expected, strict=True):
            assert not untouched(output).any(), f"{call.shapes} {call.attributes}: elements are missing"
            assert output.tobytes() == reference.tobytes(), f"{call.shapes} {call.attributes}"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "group_norm" and not name.endswith("norm_grad")])
def test_every_element_is_written_by_exactly_one_core(name):
    rng, kernel = np.random.default_rng(7), module.kernels()[name]
    for _ in range(3):
        call = random_call(rng, kernel.signature, len(kernel.signature.types) - 1, LARGEST)
        if all(output.size == 0 for output in call.outputs):
            continue
        tiling = tile(call, 6)
        if tiling.schedule_mode != 0:
            continue  # its cores wait for each other: none can run alone
        writers = [np.zeros(output.shape, int) for output in call.outputs]
        for block in range(tiling.block_dim * (2 if kernel.multiplies else 1)):
            fresh = [poisoned(output.shape, output.dtype) for output in call.outputs]
            run(call, tiling, fresh, only=block)
            for i, output in enumerate(fresh):
                writers[i] += ~untouched(output)
        for count in writers:
            assert (count == 1).all(), f"{call.attributes}: {count.min()} to {count.max()} cores write an element"


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
    module.run(name, row, tiling, [*inputs, status, *updated], [*dtypes, "int32", dtype, dtype])
    assert status[0] == 0
    for cache, kept, result, new in zip(caches, before, updated, (key, value), strict=True):
        expected = kept.copy()
        expected.reshape(12, *new.shape[1:])[slots[slots >= 0]] = new[slots >= 0]
        assert np.array_equal(result, expected)
        assert np.array_equal(cache, kept)


def test_entries_compile_without_optional_inputs(tmp_path):
    """CANN defines no dtype for an input that is absent."""
    text, folders = '#include "binding/entry.h"\n', []
    for kernel in module.kernels().values():
        signature, defined = kernel.signature, op_kernel.macros(kernel.signature, kernel.signature.types[-1])
        optional = {f"DTYPE_{tensor.name.upper()}" for tensor in signature.inputs if tensor.optional}
        if not optional:
            continue
        folders.append(module.ROOT / "kernels" / kernel.spec.name)
        text += op_kernel.tiling_struct(signature, kernel.fields, kernel.multiplies)
        text += "".join(f"#define {name} {value}\n" for name, value in defined.items() if name not in optional)
        text += project.entry(kernel, module.ROOT / "kernels")
        text += "".join(f"#undef {name.partition('(')[0]}\n" for name in defined)
    assert len(folders) > 5
    unit = tmp_path / "entries.cpp"
    unit.write_text(text, encoding="utf-8")
    kernels = module.ROOT / "kernels"
    includes = [f"-I{path}" for path in (kernels, kernels / "host", module.BUILD / "generated", *folders)]
    command = ["g++", *module.FLAGS, *includes, "-fsyntax-only", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
