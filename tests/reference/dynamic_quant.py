"""y = round(x / scale) in float64, with scale = max|x| / 127 for each row, of x * smooth_scales if they are given."""

import numpy as np


def smoothed(x, smooth_scales=None):
    x = np.asarray(x, np.float64)
    return x if smooth_scales is None else x * np.asarray(smooth_scales, np.float64)


def forward(x, smooth_scales=None):
    x = smoothed(x, smooth_scales)
    scale = np.abs(x).max(-1) / 127
    with np.errstate(all="ignore"):
        y = np.rint(x / scale[..., None])
    return np.nan_to_num(y, nan=0.0, posinf=0.0, neginf=0.0), scale
