"""MindSpore tensors of any float dtype from float64 values, and back."""

import mindspore as ms
import numpy as np
from mindspore import Tensor


def tensor(values, dtype):
    return Tensor(np.asarray(values, np.float32), getattr(ms, dtype))


def numpy(value):
    return value.astype(ms.float32).asnumpy().astype(np.float64)


def dtype_name(value):
    return str(value.dtype).lower()
