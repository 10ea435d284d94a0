"""y = (x weight^T) * scale * pertoken_scale of groups of rows, in float64."""

import numpy as np

from tests.reference import grouped_matmul


def forward(x, weight, scale, group_list, pertoken_scale=None):
    x, weight, scale = (np.asarray(values, np.float64) for values in (x, weight, scale))
    rows = np.diff(np.asarray(group_list).astype(int), prepend=0)
    y = grouped_matmul.forward(x, weight, group_list, True) * np.repeat(scale, rows, axis=0)
    return y if pertoken_scale is None else y * pertoken_scale[..., None]
