"""What was cast from 16 bits, a later group casts again instead of reading floats."""

import random
import struct

import pytest

from ms_ascend_ops.loop_compiler import LoopCompiler
from tests.kernels.host.loops import (
    ANY_BITS,
    FLOATS,
    SLOT,
    Listening,
    assert_same_when_compiled,
    bits,
    compiled,
    store,
)
from tests.kernels.host.module import host_calls
from tests.kernels.host.test_deferred import assert_same_in_any_execution

NARROW, VALUE, RESULT, OTHER, SCRATCH = (slot * SLOT for slot in range(5))
COUNT = 2048


@pytest.fixture(scope="module")
def compiler():
    return LoopCompiler(host_calls())


def binary(op, to, a, b):
    return ("binary", op, "float32", to, a, b, COUNT)


def scalar(op, to, source, value, count=COUNT):
    return ("scalar", op, "float32", to, source, bits(value), count)


# Another number of elements, and nothing in common with the others: what comes behind is another group.
NEXT_GROUP = [scalar("Adds", SCRATCH, SCRATCH, 1.0, 640)]
IN_UB = ("scalar", "Adds", "float32", NARROW, NARROW, bits(0.5), COUNT // 2)


def load(dtype="bfloat16"):
    return ("copy_in_pad", dtype, NARROW, 0, (1, 2 * COUNT, 0, 0), False, (0, 0, 0))


def cast(dtype="bfloat16"):
    return ("cast", "float32", dtype, VALUE, NARROW, 0, COUNT)


def used(factor, offset=0, count=COUNT):
    """And overwritten, so that nobody needs it when the program ends."""
    return [
        scalar("Muls", RESULT, VALUE + 4 * offset, factor, count),
        scalar("Adds", RESULT, RESULT, 0.75, count),
        store(SLOT, 2, 4 * count),
        ("fill", "float32", VALUE, 0, COUNT),
    ]


def reads_of(calls, factor):
    """Texts of compiled loops in which somebody uses the value."""
    listening = Listening(host_calls())
    compiled(listening, calls)
    reads = [text for text in listening.texts if f"float 0x{struct.pack('>d', factor).hex().upper()}" in text]
    assert reads
    return reads


@pytest.mark.usefixtures("_loops")
@pytest.mark.parametrize(
    ("offset", "count", "factor"), [(0, COUNT, 1.6875), (256, 1024, 1.65625)], ids=["all", "a part"]
)
def test_floats_of_16_bits_are_cast_again(offset, count, factor):
    """The test below shows a reader that reads floats."""
    reads = reads_of([load(), cast(), *NEXT_GROUP, *used(factor, offset, count)], factor)
    assert all("getelementptr i16" in text for text in reads)


@pytest.mark.usefixtures("_loops")
def test_what_took_more_than_a_cast_is_read():
    calls = [load(), cast(), scalar("Adds", VALUE, VALUE, 0.5), *NEXT_GROUP, *used(1.4375)]
    assert not any("getelementptr i16" in text for text in reads_of(calls, 1.4375))


HAZARDS = {
    "nothing": ([], []),
    "it is overwritten before": ([binary("Max", VALUE, OTHER, OTHER)], []),
    "a part of it is overwritten before": ([("fill", "float32", VALUE + 512, bits(3.0), 16)], []),
    "it is overwritten in the reader's group": ([], [
        binary("Max", VALUE, OTHER, OTHER), scalar("Adds", SCRATCH, VALUE, 1.0),
    ]),
    "x is overwritten in global memory": ([store(0, 3, 2 * COUNT)], []),
    "a part of x is overwritten in global memory": ([store(2048, 3, 64)], []),
    "x is overwritten in the Unified Buffer": ([binary("Max", NARROW, OTHER, OTHER)], []),
    "x is overwritten in the reader's group": ([], [binary("Min", NARROW, OTHER, OTHER)]),
}  # fmt: skip


@pytest.mark.parametrize("in_ub", [False, True])
@pytest.mark.parametrize(("hazard", "before"), [
    (hazard, before) for hazard, (_, beside) in HAZARDS.items() for before in ((True, False) if beside else (True,))
])  # fmt: skip
def test_what_it_is_made_of_may_have_changed(compiler, hazard, before, in_ub):
    between, beside = HAZARDS[hazard]
    uses = [binary("Mul", RESULT, VALUE, VALUE), store(SLOT, 2, 4 * COUNT)]
    made = [load(), *([IN_UB] if in_ub else []), cast()]
    calls = made + between + NEXT_GROUP + (beside + uses if before else uses + beside)
    assert_same_in_any_execution(calls)
    assert_same_when_compiled(compiler, calls, [FLOATS, ANY_BITS])


def test_its_source_may_be_free(compiler):
    """Then what has made the source may be left out, when nobody reads the value any more."""
    uses = [binary("Mul", RESULT, VALUE, VALUE), store(SLOT, 2, 4 * COUNT), ("fill", "int32", VALUE, 0, COUNT)]
    free, fill = [("free", NARROW, 2 * COUNT)], [("fill", "int32", NARROW, 0, COUNT // 2)]
    calls = [load(), IN_UB, cast(), *free, *NEXT_GROUP, *uses, *fill]
    assert_same_in_any_execution(calls)
    assert_same_when_compiled(compiler, calls, [FLOATS, ANY_BITS])


@pytest.mark.parametrize("narrow", ["float16", "bfloat16"])
def test_halves_of_floats_are_read_as_what_they_are(compiler, narrow):
    """Memory that holds a value is also read by another type, of which nobody has made a value."""
    calls = [
        load(narrow),
        cast(narrow),
        *NEXT_GROUP,
        ("cast", "float32", narrow, RESULT, VALUE, 0, COUNT),
        scalar("Muls", RESULT, RESULT, 0.5),
        store(SLOT, 2, 4 * COUNT),
    ]
    assert_same_in_any_execution(calls)
    assert_same_when_compiled(compiler, calls, [FLOATS, ANY_BITS])


@pytest.mark.parametrize("seed", range(4))
def test_random_hazards(compiler, draws, seed):
    rng = random.Random(seed)
    changes = [change for between, beside in HAZARDS.values() for change in (between, beside) if change]
    for _ in draws(30):
        calls = [load(), *rng.choice([[], [IN_UB]]), cast()]
        for _ in range(rng.randint(1, 4)):
            calls += rng.choice([*changes, NEXT_GROUP, NEXT_GROUP, [binary("Mul", RESULT, VALUE, OTHER)],
                                 [scalar("Muls", VALUE, VALUE, 0.5)], [cast()]])  # fmt: skip
        calls.append(store(SLOT, 2, 4 * COUNT))
        assert_same_in_any_execution(calls)
        assert_same_when_compiled(compiler, calls, [FLOATS])
