import math

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import RotaryEmbedding
from tests.acceptance import assert_accurate
from tests.modes import MODES, run
from tests.reference import rotary_embedding as reference
from tests.tensors import numpy, tensor

LLAMA3 = {
    "type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position": 8192,
}


def angles(positions, dim, base=10000.0):
    return np.asarray(positions, np.float64)[..., None] * base ** (-np.arange(0, dim, 2) / dim)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", ["BSND", "BNSD"])
@pytest.mark.parametrize("positions", [None, (7, 8, 9), ((0, 1, 2), (50, 51, 52))], ids=["start", "offset", "batch"])
def test_values(mode, layout, positions):
    rng, axis = np.random.default_rng(0), 1 if layout == "BSND" else 2
    q, k = (
        tensor(rng.normal(size=(2, 3, heads, 16) if axis == 1 else (2, heads, 3, 16)), "float32") for heads in (4, 2)
    )
    cell = RotaryEmbedding(16, 64, layout=layout, rotary_dim=8)
    inputs = (q, k) if positions is None else (q, k, Tensor(positions, ms.int32))
    theta = angles([0, 1, 2] if positions is None else positions, 8)
    theta = theta[:, None] if theta.ndim == 3 and axis == 2 else theta
    for x, y in zip((q, k), run(mode, cell, inputs), strict=True):
        golden = reference.forward(numpy(x), np.cos(theta), np.sin(theta), "half", axis, 8)
        assert_accurate(numpy(y), golden, "float32", np.full(golden.shape, 8.0))


def test_query_alone():
    x = tensor(np.random.default_rng(0).normal(size=(1, 4, 2, 8)), "float32")
    cell = RotaryEmbedding(8, 4, mode="interleave")
    theta = angles(np.arange(4), 8)
    golden = reference.forward(numpy(x), np.cos(theta), np.sin(theta), "interleave")
    assert_accurate(numpy(cell(x)), golden, "float32", np.full(golden.shape, 8.0))


def test_tables_are_rounded_once():
    """Angles of 100,000 positions in float32 would be wrong in the third digit."""
    cell = RotaryEmbedding(128, 100000, base=500000.0)
    assert cell.cos.dtype == ms.float32
    theta = angles(np.arange(100000), 128, 500000.0)
    assert np.array_equal(cell.cos.asnumpy(), np.cos(theta).astype(np.float32))
    assert np.array_equal(cell.sin.asnumpy(), np.sin(theta).astype(np.float32))


def frequencies(scaling, dim=128, base=500000.0):
    return np.arctan2(
        *(getattr(RotaryEmbedding(dim, 2, base, scaling=scaling), t).asnumpy()[1] for t in ("sin", "cos"))
    )


def test_linear_and_ntk_scaling():
    assert np.allclose(frequencies({"type": "linear", "factor": 4.0}), angles([1], 128, 5e5)[0] / 4, rtol=1e-6)
    base = 5e5 * 4.0 ** (128 / 126)
    assert np.allclose(frequencies({"type": "ntk", "factor": 4.0}), angles([1], 128, base)[0], rtol=1e-6)


def test_llama3_scaling():
    """Pair by pair, as Meta's reference code goes about it."""
    expected = []
    for frequency in angles([1], 128, 5e5)[0]:
        wavelength = 2 * math.pi / frequency
        if wavelength < 8192 / 4.0:
            expected.append(frequency)
        elif wavelength > 8192 / 1.0:
            expected.append(frequency / 8)
        else:
            smooth = (8192 / wavelength - 1.0) / (4.0 - 1.0)
            expected.append((1 - smooth) * frequency / 8 + smooth * frequency)
    assert np.allclose(frequencies(LLAMA3), expected, rtol=1e-6)
    assert len({round(a / b, 3) for a, b in zip(expected, angles([1], 128, 5e5)[0], strict=True)}) > 3


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"head_dim": 7}, ValueError, "must be even and at most head_dim"),
        ({"rotary_dim": 10}, ValueError, "must be even and at most head_dim"),
        ({"rotary_dim": 2.0}, TypeError, "rotary_dim must be an int, got float"),
        ({"max_position": 0}, ValueError, "max_position must be >= 1, got 0"),
        ({"base": 0.0}, ValueError, "base must be > 0"),
        ({"mode": "pairs"}, ValueError, "mode must be 'half' or 'interleave'"),
        ({"layout": "TND"}, ValueError, "layout must be 'BSND' or 'BNSD'"),
        ({"scaling": {"type": "yarn"}}, ValueError, "must be one of linear, ntk, llama3, got 'yarn'"),
        ({"scaling": {"type": "llama3", "factor": 8.0}}, ValueError, "needs low_freq_factor, high_freq_factor"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=f"^RotaryEmbedding: .*{message}"):
        RotaryEmbedding(**{"head_dim": 8, "max_position": 4, **arguments})
