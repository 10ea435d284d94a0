"""What a few instructions have made of global memory, a later group makes again instead of reading it."""

import random
import struct

import pytest

from ms_ascend_ops.loop_compiler import LoopCompiler
from tests.kernels.host.module import host_calls
from tests.kernels.host.test_deferred import assert_same_in_any_execution
from tests.kernels.host.test_fused_loops import (
    ANY_BITS,
    FLOATS,
    SLOT,
    Listening,
    assert_same_when_compiled,
    bits,
    compiled,
    counted,
    load,
    store,
)

X, VALUE, RESULT, OTHER, BLOCK, SCRATCH, NARROW = (slot * SLOT for slot in range(7))
COUNT = 2048


@pytest.fixture(scope="module")
def compiler():
    return LoopCompiler(host_calls())


def with_block(op, to, source, count=COUNT):
    return counted(("binary_repeat", op, "float32", to, source, BLOCK, 0, 1, (1, 1, 0, 8, 8, 0), False), count)


def binary(op, to, a, b, count=COUNT):
    return ("binary", op, "float32", to, a, b, count)


def scalar(op, to, source, value, count=COUNT):
    return ("scalar", op, "float32", to, source, bits(value), count)


# Another number of elements, and nothing in common with the rest: what comes behind is another group.
NEXT_GROUP = [scalar("Adds", SCRATCH, SCRATCH, 1.0, 640)]


def made(*ops, dtype="float32", count=COUNT):
    """A value made of x."""
    if dtype == "float32":
        calls = [load(0, 0, 4 * count), *with_block(ops[0], VALUE, X, count)]
    else:
        calls = [
            ("copy_in_pad", dtype, NARROW, 0, (1, 2 * count, 0, 0), False, (0, 0, 0)),
            ("cast", "float32", dtype, VALUE, NARROW, 0, count),
            *with_block(ops[0], VALUE, VALUE, count),
        ]
    return calls + [scalar(op, VALUE, VALUE, 0.75, count) for op in ops[1:]]


def used(factor, count=COUNT):
    """And overwritten, so that nobody needs it when the program ends."""
    return [
        scalar("Muls", RESULT, VALUE, factor, count),
        store(SLOT, 2, 4 * count),
        ("fill", "float32", VALUE, 0, count),
    ]


def texts_with(calls, factor):
    """All texts that were compiled, and those in which somebody uses the value."""
    listening = Listening(host_calls())
    compiled(listening, calls)
    reads = [text for text in listening.texts if f"float 0x{struct.pack('>d', factor).hex().upper()}" in text]
    assert reads
    return listening.texts, reads


@pytest.mark.usefixtures("_loops")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_values_of_a_few_links_are_made_again(dtype):
    """And nobody writes them: of the two loops, one is left."""
    factor = 1.625 if dtype == "float32" else 1.6875
    texts, reads = texts_with(made("Sub", "Muls", dtype=dtype) + NEXT_GROUP + used(factor), factor)
    assert all("fsub" in text for text in reads)
    assert sum("fsub" in text for text in texts) == len(reads)


@pytest.mark.usefixtures("_loops")
@pytest.mark.parametrize(("calls", "factor"), [
    pytest.param([*made("Div"), *NEXT_GROUP, *used(1.375)], 1.375, id="a division"),
    pytest.param([*made("Sub", "Muls", "Adds", "Muls"), *NEXT_GROUP, *used(1.4375)], 1.4375, id="many links"),
    pytest.param([*made("Sub", count=384), *NEXT_GROUP, *used(1.5625, 384)], 1.5625, id="few floats"),
    pytest.param([*made("Sub", dtype="bfloat16", count=1920), *NEXT_GROUP, *used(1.3125, 1920)], 1.3125,
                 id="few floats of 16 bits"),
])  # fmt: skip
def test_what_takes_long_or_lies_in_the_cache_is_read(calls, factor):
    _, reads = texts_with(calls, factor)
    assert not any("fsub" in text or "fdiv" in text for text in reads)


HAZARDS = {
    "nothing": ([], []),
    "its block is overwritten before": ([("fill", "float32", BLOCK, bits(3.0), 8)], []),
    "its block is overwritten in the reader's group": ([], [binary("Min", BLOCK, BLOCK, OTHER)]),
    "it is overwritten before": ([binary("Max", VALUE, OTHER, OTHER)], []),
    "a part of it is overwritten before": ([("fill", "float32", VALUE + 512, bits(3.0), 16)], []),
    "it is overwritten in the reader's group": ([], [
        binary("Max", VALUE, OTHER, OTHER), scalar("Adds", SCRATCH, VALUE, 1.0),
    ]),
    "x is overwritten in global memory": ([store(0, 3, 4 * COUNT)], []),
    "a part of x is overwritten in global memory": ([store(4096, 3, 64)], []),
    "x is overwritten in the Unified Buffer": ([binary("Max", X, OTHER, OTHER)], []),
}  # fmt: skip


@pytest.mark.parametrize(("hazard", "before"), [
    (hazard, before) for hazard, (_, beside) in HAZARDS.items() for before in ((True, False) if beside else (True,))
])  # fmt: skip
def test_what_it_is_made_of_may_have_changed(compiler, hazard, before):
    between, beside = HAZARDS[hazard]
    uses = [binary("Mul", RESULT, VALUE, VALUE), store(SLOT, 2, 4 * COUNT)]
    calls = made("Add") + between + NEXT_GROUP + (beside + uses if before else uses + beside)
    assert_same_in_any_execution(calls)
    assert_same_when_compiled(compiler, calls, [FLOATS, ANY_BITS])


def test_its_block_may_be_free(compiler):
    """Then what has made the block may be left out, when nobody reads the value any more."""
    uses = [binary("Mul", RESULT, VALUE, VALUE), store(SLOT, 2, 4 * COUNT), ("fill", "int32", VALUE, 0, COUNT)]
    block = [("fill", "float32", BLOCK, bits(3.0), 8)], [("free", BLOCK, 32)], [("fill", "int32", BLOCK, 0, 8)]
    calls = block[0] + made("Add") + block[1] + NEXT_GROUP + uses + block[2]
    assert_same_in_any_execution(calls)
    assert_same_when_compiled(compiler, calls, [FLOATS, ANY_BITS])


@pytest.mark.parametrize("narrow", ["float16", "bfloat16"])
def test_halves_of_floats_are_read_as_what_they_are(compiler, narrow):
    """Memory that holds a value is also read by another type, of which nobody has made a value."""
    calls = [
        ("copy_in_pad", narrow, NARROW, 0, (1, 2 * COUNT, 0, 0), False, (0, 0, 0)),
        ("cast", "float32", narrow, VALUE, NARROW, 0, COUNT),
        *NEXT_GROUP,
        ("cast", "float32", narrow, RESULT, VALUE, 0, COUNT),
        scalar("Muls", RESULT, RESULT, 0.5),
        store(SLOT, 2, 4 * COUNT),
    ]
    assert_same_in_any_execution(calls)
    assert_same_when_compiled(compiler, calls, [FLOATS, ANY_BITS])


@pytest.mark.parametrize("seed", range(4))
def test_random_hazards(compiler, seed):
    rng = random.Random(seed)
    changes = [change for between, beside in HAZARDS.values() for change in (between, beside) if change]
    for _ in range(30):
        calls = made(rng.choice(["Add", "Sub", "Mul"]), *rng.choices(["Adds", "Muls"], k=rng.randint(0, 2)))
        for _ in range(rng.randint(1, 4)):
            calls += rng.choice([*changes, NEXT_GROUP, NEXT_GROUP, [binary("Mul", RESULT, VALUE, OTHER)],
                                 [scalar("Muls", VALUE, VALUE, 0.5)], made("Sub")])  # fmt: skip
        calls.append(store(SLOT, 2, 4 * COUNT))
        assert_same_in_any_execution(calls)
        assert_same_when_compiled(compiler, calls, [FLOATS])
