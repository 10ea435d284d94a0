"""y = (x weight^T) * scale * pertoken_scale of groups of rows, in float64."""

import numpy as np

from tests.reference import grouped_matmul


def forward(x, weight, scale, group_list, pertoken_scale=None):
    x, weight = np.asarray(x, np.float64), np.asarray(weight, np.float64)
    y = grouped_matmul.forward(x, weight * np.asarray(scale, np.float64)[..., None], group_list, True)
    return y if pertoken_scale is None else y * pertoken_scale[..., None]
