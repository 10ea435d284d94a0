"""Loops that look results up calculate what the instructions that they stand for do, bit for bit."""

import os
import random
import subprocess
import sys

import numpy as np
import pytest

from tests.kernels.host.loops import (
    ANY_BITS,
    BLOCK,
    BYTES,
    FLOATS,
    SLOT,
    Listening,
    assert_same_when_compiled,
    bits,
    collect,
    load,
    store,
    with_block,
)
from tests.kernels.host.module import ROOT, host_calls

COUNT = 1999  # elements of a tile; the last ones are left to the interpreter
X, OTHER, VALUE, T, SECOND, NARROW = (SLOT * i for i in range(6))
TILES = 4


def every_number():
    """Global memories in which `tiles` finds all that 16 bits can be."""
    numbers = np.arange(1 << 16, dtype=np.uint16)
    for begin in range(0, numbers.size, TILES * COUNT):
        some = np.resize(numbers[begin : begin + TILES * COUNT], (TILES, COUNT))
        memory = np.zeros(BYTES // 2, np.uint16)
        for tile in range(TILES):
            memory[2 * COUNT * tile :][:COUNT] = some[tile]
        yield memory.view(np.float32)


ALL = list(every_number())


WAY = os.environ.get("MS_ASCEND_OPS_TEST_LOOK_UPS", "gathered")


@pytest.fixture(autouse=True)
def _looks_up(_loops):
    """Every launch is large enough, and every CPU fast enough."""
    host_calls().set_lookups(1, WAY == "by_element")
    yield
    host_calls().set_lookups(0, False)


@pytest.fixture
def listening():
    return Listening(host_calls())


def looked_up(texts):
    """How many tables each of the loops uses."""
    tables = [
        {line.split("inttoptr (i64 ")[1].split()[0] for line in text.splitlines() if "inttoptr" in line}
        for text in texts
    ]
    return [len(used) for used in tables if used]


def tiles(body, narrow, result=None, reads=2):
    """The body on tiles, which is stored from NARROW, or floats from `result`. What is stored is not loaded again."""
    calls = []
    for tile in range(TILES):
        calls += [load(0, 2 * COUNT * 2 * tile, 2 * COUNT), load(1, 2 * COUNT * (2 * tile + 1), 2 * COUNT)][:reads]
        calls += [("cast", "float32", narrow, VALUE, X, 0, COUNT), *body]
        to = 32 * 1024 + 7000 * tile
        calls += [store(to, NARROW // SLOT, 2 * COUNT, narrow) if result is None else store(to, result // SLOT, 4000)]
    return calls


def softplus():
    """T = ln(1 + exp(-VALUE)), which takes longer than looking it up either way."""
    return [
        ("scalar", "Muls", "float32", T, VALUE, bits(-1.0), COUNT),
        ("unary", "Exp", "float32", T, T, COUNT),
        ("scalar", "Adds", "float32", T, T, bits(1.0), COUNT),
        ("unary", "Ln", "float32", T, T, COUNT),
    ]


def rounded(source, narrow):
    return [("cast", narrow, "float32", NARROW, source, 1, COUNT)]


NARROWS = pytest.mark.parametrize("narrow", ["float16", "bfloat16"])


@NARROWS
def test_an_activation_is_looked_up(listening, narrow):
    """Whole: its rounded results are in the table. No element is calculated."""
    body = [*softplus(), ("binary", "Div", "float32", T, VALUE, T, COUNT), *rounded(T, narrow)]
    assert_same_when_compiled(listening, tiles(body, narrow, reads=1), [FLOATS, ANY_BITS, *ALL])
    (text,) = listening.texts[-1:]
    assert looked_up([text]) == [1]
    assert "getelementptr i16, ptr inttoptr" in text
    assert ("load i32, ptr" in text) == (WAY == "by_element")  # two numbers of entries
    assert "fdiv" not in text[: text.index("check:")]  # the last elements, less than an iteration, are calculated


@NARROWS
def test_what_depends_on_two_elements_is_calculated(listening, narrow):
    """The product of an activation and something else: only the activation is looked up."""
    body = [
        ("cast", "float32", narrow, SECOND, OTHER, 0, COUNT),
        *softplus(),
        ("binary", "Div", "float32", T, VALUE, T, COUNT),
        ("binary", "Mul", "float32", SECOND, SECOND, T, COUNT),
        *rounded(SECOND, narrow),
    ]
    assert_same_when_compiled(listening, tiles(body, narrow), [FLOATS, ANY_BITS, *ALL])
    (text,) = listening.texts[-1:]
    assert looked_up([text]) == [1]
    assert ("getelementptr i32, ptr inttoptr" if WAY == "gathered" else "getelementptr float, ptr inttoptr") in text
    assert "fmul" in text
    assert "fdiv" not in text[: text.index("check:")]  # the last elements, less than an iteration, are calculated


@NARROWS
def test_two_results_of_the_same_element(listening, narrow):
    """One is stored, the other summed up."""
    body = [
        *softplus(),
        ("unary", "Exp", "float32", SECOND, T, COUNT),
        ("unary", "Ln", "float32", SECOND, SECOND, COUNT),
        *collect("Add", SECOND, COUNT),
        ("binary", "Div", "float32", T, VALUE, T, COUNT),
        ("unary", "Sqrt", "float32", T, T, COUNT),
        *rounded(T, narrow),
    ]
    assert_same_when_compiled(listening, tiles(body, narrow, reads=1), [np.abs(FLOATS), ANY_BITS])
    assert max(looked_up(listening.texts)) == 2


@NARROWS
@pytest.mark.parametrize("first", [True, False], ids=["1 / x", "x / 1"])
def test_a_block_of_ones_is_a_constant(listening, narrow, first):
    """What was looked up for ones is not for another block, nor is anything for a block of which nothing is known."""

    def calls(ones):
        body = [*softplus(), ("unary", "Sqrt", "float32", T, T, COUNT), *with_block("Div", T, T, COUNT, first)]
        filled = [("fill", "float32", BLOCK, bits(ones), 8)]
        return [*filled, *tiles([*body, *rounded(T, narrow)], narrow, reads=1)]

    assert_same_when_compiled(listening, calls(2.0), [FLOATS])
    assert looked_up(listening.texts) == []
    assert_same_when_compiled(listening, calls(1.0), [FLOATS, *ALL])
    assert set(looked_up(listening.texts)) == {1}
    count = len(listening.texts)
    assert_same_when_compiled(listening, calls(2.0), [FLOATS, *ALL])
    assert len(listening.texts) == count


@NARROWS
def test_a_block_that_stops_being_ones(listening, narrow):
    """Blocks are made of numbers of each tile, in one group with what divides by the first of them."""
    count, numbers, blocks, at = 512, OTHER, 6 * SLOT, 48 * 1024
    memory = FLOATS.copy()
    calls = []
    for tile in range(TILES):
        memory[at // 4 + count * tile :][:count] = 1.0 if tile < TILES - 1 else 2.0
        divide = ("binary_repeat", "Div", "float32", T, T, blocks, 0, 1, (1, 1, 0, 8, 8, 0), False)
        calls += [load(0, 2 * count * tile, 2 * count), load(1, at + 4 * count * tile, 4 * count)]
        calls += [("broadcast", "float32", blocks, numbers, count // 8, 1, 8)]
        calls += [
            ("cast", "float32", narrow, VALUE, X, 0, count),
            ("unary", "Exp", "float32", T, VALUE, count),
            ("scalar", "Adds", "float32", T, T, bits(1.0), count),
            ("unary", "Ln", "float32", T, T, count),
            ("set_mask", "counter", 0, count),
            divide,
            ("clear_mask",),
            ("cast", narrow, "float32", NARROW, T, 1, count),
            store(32 * 1024 + 2 * count * tile, NARROW // SLOT, 2 * count, narrow),
        ]
    assert_same_when_compiled(listening, calls, [memory])
    assert max(looked_up(listening.texts)) == 1


@NARROWS
@pytest.mark.parametrize("op", ["Exp", "Abs"])
def test_what_is_calculated_faster_is_not_looked_up(listening, narrow, op):
    body = [("unary", op, "float32", T, VALUE, COUNT), *rounded(T, narrow)]
    assert_same_when_compiled(listening, tiles(body, narrow, reads=1), [FLOATS])
    assert looked_up(listening.texts) == []


def test_floats_are_not_looked_up(listening):
    calls = [
        load(2, 0, 4 * COUNT),
        *softplus(),
        ("binary", "Div", "float32", T, VALUE, T, COUNT),
        store(32768, 3, 4 * COUNT),
    ]
    assert_same_when_compiled(listening, calls, [FLOATS])
    assert looked_up(listening.texts) == []


@NARROWS
def test_small_launches_calculate(listening, narrow):
    host_calls().set_lookups(0, False)
    body = [*softplus(), ("binary", "Div", "float32", T, T, VALUE, COUNT), *rounded(T, narrow)]
    assert_same_when_compiled(listening, tiles(body, narrow, reads=1), [FLOATS])
    assert looked_up(listening.texts) == []


@NARROWS
def test_a_result_in_the_place_of_its_element(listening, narrow):
    """Who looks up one element after the other reads them again for the second result, and so calculates here."""
    calls = []
    for tile in range(TILES):
        calls += [load(X // SLOT, 2 * COUNT * tile, 2 * COUNT)]
        calls += [("fill", "float32", X, bits(0.5), 8)]  # now it is no view of global memory any more
        calls += [("cast", "float32", narrow, VALUE, X, 0, COUNT), *softplus()]
        calls += [("scalar", "Muls", "float32", SECOND, T, bits(0.5), COUNT)]
        calls += [("cast", narrow, "float32", X, SECOND, 1, COUNT)]
        calls += [("binary", "Div", "float32", T, VALUE, T, COUNT), *rounded(T, narrow)]
        calls += [store(32 * 1024 + 8000 * tile, NARROW // SLOT, 2 * COUNT, narrow)]
        calls += [("get", X)]  # so all of it is there
    assert_same_when_compiled(listening, calls, [FLOATS, ANY_BITS, *ALL])
    assert set(looked_up(listening.texts)) == ({2} if WAY == "gathered" else set())


def draw_activation(rng):
    """Something long of the value, some of it with another one, stored rounded or not."""
    narrow = rng.choice(["float16", "bfloat16"])
    whole, other = [VALUE, T], rng.choice([SECOND, None])
    body = [] if other is None else [("cast", "float32", narrow, SECOND, OTHER, 0, COUNT)]
    body += [("fill", "float32", BLOCK, bits(rng.choice([1.0, 1.0, 1.0, 0.5])), 8)] if rng.random() < 0.5 else []
    body += softplus()
    for _ in range(rng.randint(2, 9)):
        a, b = rng.choice(whole), rng.choice(whole)
        to, scalar = rng.choice([VALUE, T]), bits(rng.choice([0.5, -1.25, 3.0, 1.0]))
        body += rng.choice(
            [
                [("unary", rng.choice(["Exp", "Ln", "Sqrt", "Abs", "Relu"]), "float32", to, a, COUNT)],
                [("binary", rng.choice(["Add", "Sub", "Mul", "Div", "Max", "Min"]), "float32", to, a, b, COUNT)],
                [("scalar", rng.choice(["Adds", "Muls", "Maxs", "Mins"]), "float32", to, a, scalar, COUNT)],
                [("axpy", to, a, scalar, COUNT)],
                with_block(rng.choice(["Sub", "Div", "Mul"]), to, a, COUNT, rng.random() < 0.7),
                [("cast", narrow, "float32", NARROW, a, 1, COUNT), ("cast", "float32", narrow, to, NARROW, 0, COUNT)],
                collect(rng.choice(["Add", "Max"]), a, COUNT),
                [] if other is None else [("binary", "Mul", "float32", rng.choice([to, other]), a, other, COUNT)],
            ]
        )
    result = rng.choice([VALUE, T, None if other is None else SECOND])
    if result is None or rng.random() < 0.7:
        return tiles([*body, *rounded(result or T, narrow)], narrow)
    return tiles(body, narrow, result)


# More would take more tables than a process has.
@pytest.mark.parametrize("seed", range(1 if WAY == "by_element" else 3))
def test_random_activations(listening, draws, seed):
    for i in draws(20):
        calls = draw_activation(random.Random(100 * seed + i))
        assert_same_when_compiled(listening, calls, [FLOATS, ANY_BITS])
    assert len(looked_up(listening.texts)) > len(draws(20)) // 5


MANY = """
from tests.kernels.host import test_lookup_tables as tables
from tests.kernels.host.loops import Listening, assert_same_when_compiled, FLOATS, bits
tables.host_calls().set_lookups(1, tables.WAY == "by_element")
listening = Listening(tables.host_calls())
for i in range(67):
    scaled = ("scalar", "Muls", "float32", tables.VALUE, tables.VALUE, bits(1.0 + i), tables.COUNT)
    divided = ("binary", "Div", "float32", tables.T, tables.VALUE, tables.T, tables.COUNT)
    body = [scaled, *tables.softplus(), divided, *tables.rounded(tables.T, "bfloat16")]
    assert_same_when_compiled(listening, tables.tiles(body, "bfloat16", reads=1)[:10], [FLOATS])
print(len(tables.looked_up(listening.texts)))
"""


@pytest.mark.slow  # for sanitizers there is nothing in it: what LLVM compiles they do not see
@pytest.mark.skipif(WAY == "by_element", reason="the tables are the same")
def test_a_process_has_64_tables_at_most():
    """What comes later is calculated."""
    done = subprocess.run([sys.executable, "-c", MANY], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("64\n", "")


@pytest.mark.slow
@pytest.mark.skipif(WAY == "by_element", reason="this is that process")
def test_one_element_after_the_other():
    """All of this file, as CPUs do it that gather slowly. A process has one code for loops that are alike."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "MS_ASCEND_OPS_TEST_LOOK_UPS": "by_element"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
