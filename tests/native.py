"""Direct launches through ms_ascend_ops._C, in decoded values."""

import numpy as np

from ms_ascend_ops import registry
from ms_ascend_ops.library import native
from ms_ascend_ops.shapes import infer_shapes, infer_types
from tests.dtypes import decode, encode, poisoned


def launch(name, inputs, dtypes, **attributes):
    """Run a kernel on float64 values that are rounded to `dtypes` before; every output is poisoned before the launch.

    Returns the outputs as float64 and the rounded inputs as float64.
    """
    signature = registry.signature(name)
    arrays = [np.ascontiguousarray(encode(values, dtype)) for values, dtype in zip(inputs, dtypes, strict=True)]
    values = signature.check_attributes(attributes)
    output_dtypes = infer_types(signature, dtypes)
    outputs = [
        poisoned(shape, dtype)
        for shape, dtype in zip(
            infer_shapes(signature, [array.shape for array in arrays], values), output_dtypes, strict=True
        )
    ]
    native().launch(name, arrays, outputs, values, [*dtypes, *output_dtypes])
    rounded = [decode(array, dtype) for array, dtype in zip(arrays, dtypes, strict=True)]
    return [decode(array, dtype) for array, dtype in zip(outputs, output_dtypes, strict=True)], rounded
