"""Each row of CANN's operators (ms_ascend_ops/device/aclnn.txt) against independent formulas in float64."""

import numpy as np
import pytest

from ms_ascend_ops.device.aclnn_table import rows
from tests.device.calls import Memory, execute, values_of
from tests.device.operator_cases import Draw, all_cases, stored

CASES = all_cases()
# Half of the last place of a dtype, and what float32 adds on the way.
ROUNDING = {"float32": 0.0, "float16": 2.0**-11, "bfloat16": 2.0**-8}
ACCUMULATED = 1e-5
SKIPPED = {"_": {"int": 0, "int8": 0, "int32": 0, "dtype": 0, "tensor": None, "text": ""}}


def _output(golden, dtype, strided):
    """A tensor for a result, full of what no operator returns; None: nobody wants it."""
    if golden is None:
        return None
    poison = np.nan if golden.dtype.kind in "fc" else 77 if golden.dtype.kind in "iu" else True
    return stored(np.full(golden.shape, poison, golden.dtype), dtype, strided)


def _assert_equal(name, memory, golden, dtype):
    found = values_of(memory)
    assert found.shape == golden.shape
    if golden.dtype.kind in "fc":
        # Results are exact but for their rounding, and that of sums of float32.
        rounding = ROUNDING[dtype] if golden.dtype == np.float64 else 0.0
        allowed = (rounding + ACCUMULATED) * np.abs(golden) + ACCUMULATED * np.abs(golden).max(initial=0.0)
        wide = found.astype(np.complex128 if golden.dtype.kind == "c" else np.float64)
        assert np.all(np.abs(wide - golden) <= allowed), f"{name}: {np.abs(wide - golden).max()}"
    else:
        np.testing.assert_array_equal(found, golden)


def _run(name, dtype, strided=False):
    inputs, goldens = CASES[name](Draw(dtype))
    inputs, goldens = iter(inputs), iter(goldens)
    arguments, expected = [], []
    for parameter in rows()[name].parameters:
        if parameter.mark == "_":
            arguments.append(SKIPPED["_"][parameter.kind])
            continue
        value = next(inputs) if parameter.is_input else None
        if isinstance(value, np.ndarray):
            value = stored(value, dtype, strided)
        elif parameter.kind == "tensors" and value is not None:
            value = [stored(one, dtype, strided) for one in value]
        if parameter.is_output:
            golden = next(goldens)
            if parameter.mark == ">":
                many = isinstance(golden, list)
                value = [_output(one, dtype, strided) for one in golden] if many else _output(golden, dtype, strided)
            expected.append((value, golden))
        arguments.append(value)
    assert next(inputs, "none is left") == next(goldens, "none is left") == "none is left"
    shapes = np.zeros((len(expected), 9), np.int64)
    if rows()[name].is_dynamic:
        arguments.append(shapes.__array_interface__["data"][0])
    execute(name, *arguments)
    for place, (value, golden) in enumerate(expected):
        if value is None:
            continue
        if rows()[name].is_dynamic:
            assert [*shapes[place, 1 : 1 + shapes[place, 0]]] == [*golden.shape]
        pairs = zip(value, golden, strict=True) if isinstance(value, list) else [(value, golden)]
        for one, wanted in pairs:
            _assert_equal(name, one, wanted, dtype)


@pytest.mark.parametrize("name", [name for name in rows() if name.startswith("aclnn")])
def test_operator(name):
    """In each dtype; and with tensors that are not contiguous."""
    for dtype in ROUNDING:
        _run(name, dtype)
    if not rows()[name].is_dynamic:  # its memory is larger than its result
        _run(name, "float32", strided=True)


def test_memory_without_elements():
    empty = np.empty((0, 3), np.float32)
    execute("aclnnExp", empty, Memory(np.empty((0, 3), np.float32)))
