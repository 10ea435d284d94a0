"""What a few instructions have made of global memory, a later group makes again instead of reading it."""

import random

import pytest

from ms_ascend_ops.loop_compiler import LoopCompiler
from tests.kernels.host.module import host_calls
from tests.kernels.host.test_deferred import assert_same_in_any_execution
from tests.kernels.host.test_loops import (
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

X, VALUE, RESULT, OTHER, BLOCK, SCRATCH = (slot * SLOT for slot in range(6))
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


def made(*ops):
    """A value made of x, and a result made of the value in a later group."""
    calls = [load(0, 0, 4 * COUNT), *with_block(ops[0], VALUE, X)]
    return calls + [scalar(op, VALUE, VALUE, 0.75) for op in ops[1:]]


def used(factor):
    """The scratch is overwritten, and so not needed when the program ends."""
    return [scalar("Muls", RESULT, VALUE, factor), store(SLOT, 2, 4 * COUNT), ("fill", "float32", VALUE, 0, COUNT)]


@pytest.mark.usefixtures("_loops")
def test_values_of_a_few_links_are_made_again():
    listening = Listening(host_calls())
    compiled(listening, made("Sub", "Muls") + NEXT_GROUP + used(1.625))
    again = [text for text in listening.texts if "float 0x3FFA000000000000" in text]  # 1.625
    assert again
    assert all("fsub" in text for text in again)


@pytest.mark.usefixtures("_loops")
@pytest.mark.parametrize("calls", [
    pytest.param([*made("Div"), *NEXT_GROUP, *used(1.375)], id="a division"),
    pytest.param([*made("Sub", "Muls", "Adds", "Muls"), *NEXT_GROUP, *used(1.375)], id="many links"),
    pytest.param([*made("Sub"), *used(1.375)], id="in the same group"),
])  # fmt: skip
def test_what_takes_long_or_lies_in_the_cache_is_read(calls):
    listening = Listening(host_calls())
    compiled(listening, calls)
    assert sum(text.count("fsub") for text in listening.texts) <= 8
    assert sum(text.count("fdiv") for text in listening.texts) <= 8


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


@pytest.mark.parametrize("hazard", HAZARDS)
@pytest.mark.parametrize("before", [True, False])
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
