"""Samples dynamic_quant of one token and of a prompt."""

from __future__ import annotations

import numpy as np
from mindspore import ops
from mindspore.ops import auto_generate

from ms_ascend_ops import ops as fused

SHAPES = ((1, 4096), (128, 4096), (2048, 4096), (333, 1029))
OUTPUTS = 2


def inputs(draw, *shape):
    return [draw.normal(*shape), (np.abs(draw.random.standard_normal(shape[-1])) + 0.5).astype(draw.normal(1).dtype)]


def bytes_moved(arrays, gradient):
    """Return the bytes of everything once."""
    return sum(array.nbytes for array in arrays.values())


def ours(x, smooth_scales):
    return fused.dynamic_quant(x, smooth_scales)


def stock(x, smooth_scales):
    values = x.astype("float32") * smooth_scales.astype("float32")
    scale = ops.amax(ops.abs(values), -1) / 127
    return ops.round(values / scale.expand_dims(-1)).astype("int8"), scale


def pytorch(torch, x, smooth_scales):
    values = x.float() * smooth_scales.float()
    scale = values.abs().amax(-1) / 127
    return (values / scale[..., None]).round().to(torch.int8), scale


def dynamic_quant_ext(x, smooth_scales):
    return auto_generate.DynamicQuantExt()(x, smooth_scales)


CANN = {"DynamicQuantV2": dynamic_quant_ext}
CANN_SHAPE = (2048, 4096)
