"""y = silu(x gate^T + bias) * (x up^T + bias) in float64, of weights as those of weight_quant_matmul, gate first."""

import numpy as np

from tests.reference import weight_quant_matmul
from tests.reference.matmul import ACTIVATIONS


def forward(x, weight, scale, offset=None, bias=None, quantize_x="none"):
    if quantize_x == "int8":
        x = weight_quant_matmul.rounded(x, scale.shape[1])
    gate, up = np.split(weight_quant_matmul.product(x, weight, scale, offset, bias), 2, axis=-1)
    return ACTIVATIONS["silu"](gate) * up


def forward_terms(x, weight, scale, offset=None, bias=None, dtype="float32"):
    """As of weight_quant_matmul, through the product of both halves; the slope of SiLU is 1.1 at most."""
    gate, up = np.split(weight_quant_matmul.product(x, weight, scale, offset, bias), 2, axis=-1)
    sums = weight_quant_matmul.forward_terms(x, weight, scale, offset, bias, dtype)
    gate_terms, up_terms = np.split(sums, 2, axis=-1)
    return 1.1 * gate_terms * np.abs(up) + np.abs(gate) * up_terms
