"""Small instructions that follow each other are compiled as one, and calculate what they did, bit for bit."""

import random

import pytest

from ms_ascend_ops.loop_compiler import LoopCompiler
from tests.kernels.host.module import host_calls, writes_loops
from tests.kernels.host.programs import BINARY, BLOCK, LANES, Generator, disjoint, elements, inside
from tests.kernels.host.test_fused_loops import ANY_BITS, FLOATS, Listening, assert_same_when_compiled, bits, compiled

SUMS, STATISTICS, BLOCKS, ROW = 0, 4096, 8192, 16384


@pytest.fixture(scope="module")
def compiler():
    return LoopCompiler(host_calls())


class Small(Generator):
    """What is done once a row or tile: few elements, anywhere."""

    def __init__(self, rng):
        super().__init__(rng)
        self.dtype = "float32"
        self.counts = [rng.choice([1, 4, 8, 8, 11, 16, 33, 64]) for _ in range(2)]
        self.rows = rng.randint(1, 9)

    def count(self):
        return self.rng.choice(self.counts)

    def reduce_max(self):
        src, dst = self.ub(), self.ub()
        s, d = elements(src, 4, self.rows, 256, LANES), elements(dst, 4, 1, 0, self.rows)
        if inside(s, 4) and inside(d, 4) and disjoint(s, 4, d, 4):
            self.calls.append(("reduce_max", dst, src, LANES, self.rows, 1, 8))

    def one_repeat(self):
        """By elements, with a block, or collecting: instructions by repeats may be just one."""
        rng = self.rng
        strides = rng.choice([(1, 1, 1, 8, 8, 8), (1, 1, 0, 8, 8, 0), (1, 0, 1, 8, 0, 8)])
        dst, a, b = self.ub(), self.ub(), self.ub()
        if rng.random() < 0.3:  # collects
            strides, b = (1, 1, 1, 0, 8, 0), dst
        self.repeat(rng.choice(BINARY[self.dtype]), dst, a, b, rng.choice([1, 8, 33, 64]), 1, strides)

    def narrow_copy(self):
        """Of bytes that are no whole floats."""
        self.copy(self.rng.random() < 0.5, "bfloat16", self.ub(), self.gm(2), self.rng.randint(1, 3),
                  self.rng.choice([1, 7, 20, 33]), 0, self.rng.choice([0, 3]))  # fmt: skip

    def program(self):
        for _ in range(self.rng.randint(3, 20)):
            self.rng.choice(self.TEMPLATES)(self)
        return self.calls

    TEMPLATES = (
        Generator.element_chain, Generator.in_place_chain, Generator.reduce_rows, reduce_max, Generator.fill,
        Generator.load_vector, Generator.store_vector, Generator.load_rows, narrow_copy,
        one_repeat, one_repeat,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_random_sequences(compiler, draws, seed):
    rng = random.Random(seed)
    sequences = 0
    for _ in draws(25):
        sequences += assert_same_when_compiled(compiler, Small(rng).program(), [FLOATS, ANY_BITS])
    assert (sequences > 0) == writes_loops()


def statistics(rows, scale, at=0):
    """What a norm does between two passes over rows. No two tests scale alike: code is made once in a process."""
    sums, state, blocks = SUMS + at, STATISTICS + at, BLOCKS + at
    return [
        ("reduce_sum", state, sums, LANES, rows, 1, 8),
        ("scalar", "Muls", "float32", state, state, bits(scale), 8),
        ("unary", "Sqrt", "float32", state, state, 8),
        ("broadcast", "float32", blocks, state, 1, 1, 8),
    ]


@pytest.mark.usefixtures("_loops")
@pytest.mark.parametrize("rows", [1, 4, 8])
def test_what_is_done_once_a_tile_is_one_piece_of_code(rows):
    listening = Listening(host_calls())
    assert compiled(listening, statistics(rows, 0.125 + rows)) > 0
    assert all("= fadd" in text and "@llvm.sqrt.v" in text.split("loop:")[1] for text in listening.texts)


@pytest.mark.usefixtures("_loops")
def test_sequences_of_one_form_share_their_code(compiler):
    """Wherever they lie."""
    assert compiled(compiler, statistics(5, 0.25)) > 0
    assert compiled(compiler, statistics(5, 0.25, at=BLOCK)) == 0


@pytest.mark.usefixtures("_loops")
def test_one_instruction_is_no_sequence(compiler):
    assert compiled(compiler, statistics(6, 0.5)[:1]) == 0


@pytest.mark.usefixtures("_loops")
def test_many_elements_are_no_part_of_a_sequence(compiler):
    """They have loops, or code of their own: what is before and behind is too little."""
    long = ("unary", "Sqrt", "float32", ROW, ROW, 1000)
    first, second, *_ = statistics(7, 0.75)
    assert compiled(compiler, [first, long, second]) == 0
