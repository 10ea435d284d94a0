"""Matmul objects: whole products and base blocks, against float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.host.memory import Memory
from tests.kernels.host.module import host_calls, program

WAYS = ("all", "blocks", "behind")
UNTOUCHED = -77.0


def launch(calls, memory):
    return host_calls().run([program(calls)], memory.gm, memory.ub, "deferred")[0]


class Product:
    """Random operands in a global memory; `stride`: of rows of c."""

    def __init__(self, shape, *, dtype="float32", transposed=(False, False), biased=False, stride=None):
        rng = np.random.default_rng(sum(shape))
        m, n, k = self.shape = shape
        self.dtype, self.transposed, self.stride = dtype, transposed, stride or n
        self.a, self.b = (rng.normal(size=size).astype(dtype) for size in ((m, k), (k, n)))
        self.bias = rng.normal(size=n).astype(np.float32) if biased else None
        stored = [x.T if t else x for x, t in zip((self.a, self.b), transposed, strict=True)]
        self.offsets = [0, 4096, 8192 if biased else host_calls().Program.NONE, 16384]
        self.memory = Memory(gm_bytes=1 << 16)
        for offset, array in zip(self.offsets, stored, strict=False):
            self.memory.put_gm(offset, np.ascontiguousarray(array))
        if biased:
            self.memory.put_gm(8192, self.bias)
        self.memory.put_gm(16384, np.full(8192, UNTOUCHED, np.float32))

    def run(self, way, base, *, adds=False):
        """Where blocks went, and what lies from the start of c on."""
        call = ("product", self.dtype, way, self.shape, base, self.transposed, self.offsets, self.stride, adds)
        places = launch([call], self.memory)
        return places, self.memory.gm[16384 : 16384 + 4 * 8192].view(np.float32)

    def expected(self):
        y = self.a.astype(np.float64) @ self.b.astype(np.float64)
        return y if self.bias is None else y + self.bias

    def close(self, y, expected):
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5 * self.shape[2])


sizes = st.integers(1, 24)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(sizes, sizes, sizes),
    base=st.sampled_from([(16, 16), (4, 8), (24, 5), (1, 1)]),
    transposed=st.tuples(st.booleans(), st.booleans()),
    dtype=st.sampled_from(["float32", "float16"]),
    biased=st.booleans(),
    gap=st.integers(0, 3),
)
def test_blocks_are_the_whole_product(shape, base, transposed, dtype, biased, gap):
    m, n, _ = shape
    for way in ("all", "blocks"):
        product = Product(shape, dtype=dtype, transposed=transposed, biased=biased, stride=n + gap)
        places, c = product.run(way, base)
        assert len(places) == (0 if way == "all" else -(-m // base[0]) * -(-n // base[1]))
        rows = c[: m * (n + gap)].reshape(m, n + gap)
        product.close(rows[:, :n], product.expected())
        assert (rows[:, n:] == UNTOUCHED).all()
        assert (c[m * (n + gap) :] == UNTOUCHED).all()


def test_blocks_go_down_the_rows_first():
    """With sequential writes each has its own width from row to row."""
    product = Product((40, 24, 8), biased=True)
    places, c = product.run("behind", (16, 16))
    assert len(places) == 6
    expected = product.expected()
    for block, place in enumerate(places):
        row, col = block % 3 * 16, block // 3 * 16
        part = expected[row : row + 16, col : col + 16]
        at = (place - 16384) // 4
        product.close(c[at : at + part.size].reshape(part.shape), part)


@pytest.mark.parametrize("way", WAYS[:2])
def test_sums(way):
    product = Product((20, 12, 7))
    _, c = product.run(way, (16, 8), adds=True)
    product.close(c[: 20 * 12].reshape(20, 12), product.expected() + UNTOUCHED)
