"""y = (x weight^T) * scale * pertoken_scale + bias in float64."""

import numpy as np


def forward(x, weight, scale, pertoken_scale=None, bias=None):
    y = (np.asarray(x, np.float64) @ np.asarray(weight, np.float64).T) * scale
    if pertoken_scale is not None:
        y = y * pertoken_scale[..., None]
    return y if bias is None else y + bias
