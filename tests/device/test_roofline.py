"""What CANN's operators take by the roofline: FLOPs of each kind of product, bounds, and the table of a trace."""

from math import prod

import numpy as np
import pytest

from ms_ascend_ops.device.clock import summary
from ms_ascend_ops.device.operators.memory import Tensor
from ms_ascend_ops.device.roofline import cost, flops
from ms_ascend_ops.profiler.chip import load_chip

CHIP = load_chip("ascend910b2")
FLOAT32, FLOAT16, INT8, INT32 = 0, 1, 2, 3
M, K, N, B = 3, 5, 7, 2


def t(*shape, code=FLOAT16, values=None):
    """A tensor without memory, or with that of an array."""
    strides = tuple(int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
    return Tensor(0 if values is None else values.ctypes.data, code, 0, shape, strides, prod(shape))


LENGTHS = np.array([5, 9], np.int32)
CALLS = {
    "aclnnMatmul": ([t(M, K), t(K, N), t(M, N), 0], 2 * M * K * N),
    "aclnnBatchMatMul": ([t(B, M, K), t(B, K, N), t(B, M, N), 0], 2 * B * M * K * N),
    "aclnnMv": ([t(M, K), t(K), t(M), 0], 2 * M * K),
    "aclnnAddmm": ([t(M, N), t(M, K), t(K, N), 1.0, 1.0, t(M, N), 0], 2 * M * K * N),
    "aclnnInplaceAddmm": ([t(M, N), t(M, K), t(K, N), 1.0, 1.0, 0], 2 * M * K * N),
    "aclnnAddbmm": ([t(M, N), t(B, M, K), t(B, K, N), 1.0, 1.0, t(M, N), 0], 2 * B * M * K * N),
    "aclnnDense": ([t(M, K), t(N, K), None, t(M, N), 0], 2 * M * K * N),
    "aclnnGroupedMatmulV3": (
        [[t(M, K)], [t(B, K, N)], None, None, None, None, None, t(B), 0, 0, [t(M, N)]],
        2 * M * K * N,
    ),
    "aclnnConvolution": (
        [t(1, 4, 6, 6), t(8, 2, 3, 3), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 2, t(1, 8, 6, 6), 0],
        2 * 8 * 36 * 2 * 9,
    ),
    "aclnnFlashAttentionScoreV2": (
        [
            *(t(1, 4, 6, 8), t(1, 2, 10, 8), t(1, 2, 10, 8), None, None, None, None, None, None, None),
            *(1.0, 1.0, 0, 0, 4, "BNSD", 0, 0, 1, None, None, None, t(1, 4, 6, 8)),
        ],
        4 * 4 * 6 * 10 * 8,
    ),
    "aclop:MatMulV2": (
        [2, 1, *("x1", t(K, M), None), *("x2", t(K, N), None), *("y", t(M, N), None), "transpose_x1", True],
        2 * M * K * N,
    ),
    "internal:MatMul": ([2, t(M, K), t(K, N), 1, t(M, N), "transpose_a", 0, "transpose_b", 0], 2 * M * K * N),
    "internal:PagedAttention": (
        [
            *(5, t(2, 32), t(8, 16, 2, 8), t(8, 16, 2, 8), t(2, 4, code=INT32)),
            *(t(2, code=INT32, values=LENGTHS), 1, t(2, 32), "query_lengths", []),
        ],
        4 * 32 * (5 + 9),
    ),
    "aclnnAdd": ([t(M, N), t(M, N), 1.0, t(M, N)], 0),
}


@pytest.mark.parametrize("name", CALLS)
def test_flops(name):
    values, expected = CALLS[name]
    assert flops(name, values) == expected


def test_causal_attention_has_half_and_its_gradient_five_products():
    q, k = t(2, 16, 32), t(2, 16, 32)
    head = [q, k, k, t(2, 16, 32), *[None] * 9]
    values = [*head, 1.0, 1.0, 0, 0, 4, "BSH", 0, 2, None, None, None, None]
    assert flops("aclnnFlashAttentionScoreGrad", values) == 2.5 * 4 * 2 * 16 * 16 * 32 / 2


@pytest.mark.parametrize(("size", "code", "bound"), [(8, FLOAT16, "launch"), (4096, FLOAT16, "cube")])
def test_the_bound_of_a_product(size, code, bound):
    x = t(size, size, code=code)
    found = cost("aclnnMatmul", [x, x, x, 0], CHIP)
    assert found.bound == bound
    peak = 2 * 4096 * 24 * 1.8e3  # FLOPs a microsecond: 24 cores, 4096 products a cycle, 1.8 GHz
    bytes_us = CHIP.cann_memory_ratio * 3 * size**2 * 2 / (1600 * 0.975 * 1e3)
    longest = max(CHIP.cann_cube_ratio * 2 * size**3 / peak, bytes_us)
    assert found.us == pytest.approx(CHIP.launch_us + longest)


def test_dtypes_have_their_peaks():
    def cube_us(code):
        x = t(4096, 4096, code=code)
        return cost("aclnnMatmul", [x, x, x, 0], CHIP).us - CHIP.launch_us

    assert cube_us(FLOAT32) == pytest.approx(4 * cube_us(FLOAT16))
    assert cube_us(FLOAT16) == pytest.approx(2 * cube_us(INT8))


def test_pages_that_are_not_read_take_no_time():
    values = CALLS["internal:PagedAttention"][0]
    caches = 2 * 8 * 16 * 2 * 8 * 2
    others = 2 * (2 * 32 * 2) + 2 * 4 * 4 + 2 * 4
    assert cost("internal:PagedAttention", values, CHIP).bytes == pytest.approx(others + caches * 14 / (8 * 16))


def test_a_broadcast_view_is_read_once():
    x = Tensor(0, FLOAT32, 0, (1024, 8), (0, 1), 8)
    assert cost("aclnnAbs", [x, t(1024, 8, code=FLOAT32)], CHIP).bytes == 4 * (8 + 1024 * 8)


def test_an_operator_that_the_table_has_not_takes_its_bytes():
    found = cost("aclnnNobodyKnows", [t(1024, 1024)], CHIP)
    assert (found.bytes, found.flops) == (2 << 20, 0)


def test_the_table_of_a_trace():
    def row(name, by, stream, begin, us):
        return {"name": name, "tid": stream, "ts": begin, "dur": us, "args": {"by": by, "bound": "HBM"}}

    rows = [row("a", "CANN", 0, 0, 10), row("b", "ours", 0, 15, 30), row("a", "CANN", 1, 5, 10)]
    rows.append(row("host copy", "copies", 1, 15, 1000))
    text = summary("device 0", rows, most=1)
    lines = [line.split() for line in text.splitlines()]
    assert lines[0][:7] == ["predicted", "time", "of", "device", "0:", "0.050", "ms"]
    assert lines[2] == ["b", "ours", "1", "30.0", "60.0%", "HBM"]
    assert lines[3] == ["1", "more", "2", "20.0", "40.0%"]
    assert "all of CANN: 20.0 us, 40.0%" in text
    assert "not counted above: 1000.0 us" in text
    assert "stream 0: 45.0 us, of which 5.0 us wait for other streams" in text
    assert max(map(len, text.splitlines())) <= 90
