"""Every layer survives a MindIR, with the attributes of its operators."""

import numpy as np
import pytest

from ms_ascend_ops import (
    GEGLU,
    GELU,
    AddRMSNorm,
    GroupNorm,
    LayerNorm,
    RMSNorm,
    RotaryEmbedding,
    SwiGLU,
    export_mindir,
    load,
)
from tests.modes import graph_mode
from tests.tensors import numpy, tensor

LAYERS = {
    "GELU": (lambda: GELU(approximate=True), [(3, 8)]),
    "GEGLU": (GEGLU, [(3, 8)]),
    "SwiGLU": (SwiGLU, [(3, 8)]),
    "RMSNorm": (lambda: RMSNorm(8, eps=1e-3), [(3, 8)]),
    "AddRMSNorm": (lambda: AddRMSNorm(8, eps=1e-3), [(3, 8), (3, 8)]),
    "LayerNorm": (lambda: LayerNorm((8,), epsilon=1e-3), [(3, 8)]),
    "GroupNorm": (lambda: GroupNorm(2, 4, activation="silu"), [(2, 4, 3)]),
    "GroupNorm NHWC": (lambda: GroupNorm(2, 4, data_format="NHWC"), [(2, 3, 4)]),
    "RotaryEmbedding": (lambda: RotaryEmbedding(8, 16, mode="interleave"), [(1, 5, 2, 8), (1, 5, 1, 8)]),
}


@pytest.mark.parametrize("name", LAYERS)
def test_round_trip(name, tmp_path):
    make, shapes = LAYERS[name]
    layer, rng = make(), np.random.default_rng(0)
    inputs = [tensor(rng.normal(size=shape), "float32") for shape in shapes]
    with graph_mode():
        expected = layer(*inputs)
        path = export_mindir(layer, *inputs, path=tmp_path / "layer")
        results = load(path)(*inputs)
    expected, results = ([x] if not isinstance(x, tuple) else list(x) for x in (expected, results))
    for y, golden in zip(results, expected, strict=True):
        assert np.array_equal(numpy(y), numpy(golden))
