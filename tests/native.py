"""Direct launches through ms_ascend_ops._C, in decoded values."""

from contextlib import contextmanager

import numpy as np

from ms_ascend_ops import registry
from ms_ascend_ops.definitions.inference import infer_shapes, infer_types
from ms_ascend_ops.library import check_built, native
from tests.dtypes import decode, encode, poisoned


def launch(name, inputs, dtypes, **attributes):
    """Run a kernel on float64 values that are rounded to `dtypes` before; every output is poisoned before the launch.

    An input that is None is absent.

    Returns the outputs as float64 and the rounded inputs as float64.
    """
    signature = registry.signature(name)
    check_built(signature)
    dtypes = [None if values is None else dtype for values, dtype in zip(inputs, dtypes, strict=True)]
    arrays = [
        None if values is None else np.ascontiguousarray(encode(values, dtype))
        for values, dtype in zip(inputs, dtypes, strict=True)
    ]
    shapes = [None if array is None else array.shape for array in arrays]
    values = signature.check_attributes(attributes)
    output_dtypes = infer_types(signature, dtypes)
    outputs = [
        poisoned(shape, dtype)
        for shape, dtype in zip(infer_shapes(signature, shapes, values), output_dtypes, strict=True)
    ]
    native().launch(name, arrays, outputs, values, [*dtypes, *output_dtypes])
    rounded = [None if array is None else decode(array, dtype) for array, dtype in zip(arrays, dtypes, strict=True)]
    return [decode(array, dtype) for array, dtype in zip(outputs, output_dtypes, strict=True)], rounded


@contextmanager
def tiles_of_a_chip(given=True):
    """With them the kernel answers, also where a library of the host would."""
    native().set_ub_bytes(188160 if given else 0)
    try:
        yield
    finally:
        native().set_ub_bytes(0)
