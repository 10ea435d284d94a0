"""Loops whose outputs bypass the caches, and what they prefetch."""

import pytest

from tests.kernels.host.loops import (
    ANY_BITS,
    BINARY,
    FLOATS,
    SLOT,
    Listening,
    assert_same_when_compiled,
    assert_same_with_non_temporal_stores,
    bits,
    collect,
    load,
    prefetches,
    shifted,
    store,
    turn_heads,
    with_block,
)
from tests.kernels.host.module import host_calls, writes_loops


@pytest.mark.usefixtures("_streaming")
@pytest.mark.parametrize("narrow", [None, "float16", "bfloat16"])
def test_rows_with_non_temporal_stores(narrow):
    assert (assert_same_with_non_temporal_stores(turn_heads(narrow, 3, 4, 160)) > 0) == writes_loops()


@pytest.mark.usefixtures("_loops")
@pytest.mark.parametrize("narrow", [None, "float16", "bfloat16"])
def test_a_loop_asks_for_what_it_will_get_to(narrow):
    """Lines of the inputs; of the output if that is of floats; none of scratch in the Unified Buffer."""
    count, width = 1024, 4 if narrow is None else 2
    calls = [load(0, 0, width * count), load(1, 8192, 4 * count)]
    calls += [] if narrow is None else [("cast", "float32", narrow, 2 * SLOT, 0, 0, count)]
    value = 0 if narrow is None else 2 * SLOT
    calls += [
        ("binary", "Add", "float32", 3 * SLOT, value, SLOT, count),
        ("unary", "Abs", "float32", *2 * [3 * SLOT], count),
    ]
    calls += [] if narrow is None else [("cast", narrow, "float32", 4 * SLOT, 3 * SLOT, 1, count)]
    calls += [store(16384, 3, width * count) if narrow is None else store(16384, 4, width * count, narrow)]
    listening = Listening(host_calls())
    assert_same_when_compiled(listening, calls, [FLOATS])
    (text,) = listening.texts
    read, written = prefetches(text)
    assert read > 0
    assert written == (read // 2 if narrow is None else 0)


@pytest.mark.usefixtures("_loops", "_streaming")
def test_what_non_temporal_stores_write_is_not_prefetched():
    calls = [load(0, 0, 4096), *(("unary", "Abs", "float32", SLOT * i, 0, 1024) for i in (1, 2)), store(16384, 2, 4096)]
    listening = Listening(host_calls())
    assert_same_when_compiled(listening, calls, [FLOATS])
    (text,) = [text for text in listening.texts if "!nontemporal" in text]
    read, written = prefetches(text)
    assert read > 0
    assert written == 0


@pytest.mark.usefixtures("_loops", "_streaming")
def test_a_chain_of_more_than_32_operands():
    """Of each is known whether it is in global memory, as two inputs and the output are, and whether it changes."""
    count, many, space = 300, 40, 1280
    first, second, value = (space * i for i in range(many - 2, many + 1))
    calls = []
    for tile in range(4):
        for gm, to in ((0, first), (16384, second)):
            calls += [("copy_in_pad", "float32", to, gm + space * tile, (1, 4 * count, 0, 0), False, (0, 0, 0))]
        calls += [("binary", "Add", "float32", value, 0, space, count)]
        calls += [("binary", BINARY[i % 3], "float32", *2 * [value], space * i, count) for i in range(2, many)]
        calls += [("copy_out_pad", "float32", 32768 + space * tile, value, (1, 4 * count, 0, 0))]
    listening = Listening(host_calls())
    assert_same_when_compiled(listening, calls, [FLOATS, ANY_BITS])
    for text in listening.texts:
        assert f"%base{many} = " in text
        streams, (read, written) = "!nontemporal" in text, prefetches(text)
        assert read > 0
        assert written == (0 if streams else read // 2)
        assert ("%past = and" in text) == streams
    assert any("!nontemporal" in text for text in listening.texts)


@pytest.mark.usefixtures("_streaming")
@pytest.mark.parametrize("narrow", [None, "float16", "bfloat16"])
def test_what_is_stored_and_read_later(narrow):
    """A sum that is handed out and worked on again: the loop that makes it stores it to both places."""
    count, width, handed_out = 1000, 4 if narrow is None else 2, 2 if narrow is None else 3
    calls = [load(0, 0, 4 * count), load(1, 6000, 4 * count)]
    calls += [("binary", "Add", "float32", 2 * SLOT, 0, SLOT, count)]
    calls += [] if narrow is None else [("cast", narrow, "float32", 3 * SLOT, 2 * SLOT, 1, count)]
    calls += [("binary", "Mul", "float32", 4 * SLOT, 2 * SLOT, 2 * SLOT, count), *collect("Add", 4 * SLOT, count)]
    shifted_by = handed_out * SLOT + 32  # so that it is another pass
    if narrow is None:
        calls += [("unary", "Abs", "float32", 5 * SLOT, shifted_by, count - 8)]
    else:
        calls += [("cast", "float32", narrow, 5 * SLOT, shifted_by, 0, count - 16)]
    calls += [store(16384, handed_out, width * count), store(32768, 5, 4 * (count - 16))]
    listening = Listening(host_calls())
    assert_same_when_compiled(listening, calls, [FLOATS])
    kind = "float" if narrow is None else "i16"
    sums = [text for text in listening.texts if " fadd " in text and "!nontemporal" in text]
    assert any(f" x {kind}> " in line for text in sums for line in text.splitlines() if "!nontemporal" in line) == (
        writes_loops()
    )


@pytest.mark.usefixtures("_streaming")
@pytest.mark.parametrize("narrow", [None, "float16", "bfloat16"])
@pytest.mark.parametrize("count", [1536, 1700, 2048])
def test_long_loops_with_non_temporal_stores_begin_at_a_line(count, narrow):
    """They go over some elements twice, but not where they overwrite what they have read."""
    width = 4 if narrow is None else 2
    calls = [load(0, 0, 4 * count), load(1, 8192, 4 * count)]
    calls += [
        ("binary", "Add", "float32", 2 * SLOT, 0, SLOT, count),
        ("scalar", "Muls", "float32", *2 * [2 * SLOT], bits(count), count),  # no other count has this loop
    ]
    calls += [] if narrow is None else [("cast", narrow, "float32", 3 * SLOT, 2 * SLOT, 1, count)]
    calls += [store(32768, 2, width * count) if narrow is None else store(32768, 3, width * count, narrow)]
    listening = Listening(host_calls())
    for further in (0, 4, 16, 48, 60):
        assert_same_when_compiled(listening, [shifted(call, further) for call in calls], [FLOATS])
    texts = [text for text in listening.texts if "!nontemporal" in text]
    assert len(texts) == int(writes_loops())
    assert all("align 16, !nontemporal" in text and "%past = and" in text for text in texts)


@pytest.mark.usefixtures("_loops", "_streaming")
@pytest.mark.parametrize(
    ("row_bytes", "gap", "further", "streams"),
    [(4096, 4096, 0, True), (4096, 4096, 16, False), (4096, 0, 16, True), (512, 512, 16, True)],
    ids=["whole lines", "shared lines", "one behind the other", "short"],
)
def test_rows_apart_with_non_temporal_stores(row_bytes, gap, further, streams):
    """Pieces of rows that end within lines stay in the caches: such a line would go past them in two parts."""
    rows = 8192 // row_bytes
    count = rows * row_bytes // 4
    calls = [load(0, 0, 4 * count), load(1, 8192, 4 * count)]
    calls += [
        ("binary", "Add", "float32", 2 * SLOT, 0, SLOT, count),
        ("scalar", "Muls", "float32", *2 * [2 * SLOT], bits(row_bytes + gap + further), count),
        ("copy_out_pad", "float32", 32768 + further, 2 * SLOT, (rows, row_bytes, 0, gap)),
    ]
    listening = Listening(host_calls())
    assert_same_when_compiled(listening, calls, [FLOATS])
    assert bool(listening.texts) == writes_loops()
    assert any("!nontemporal" in text for text in listening.texts) == (streams and writes_loops())


@pytest.mark.usefixtures("_streaming")
@pytest.mark.parametrize("narrow", [None, "bfloat16"])
def test_blocks_in_long_loops_with_non_temporal_stores(compiler, narrow):
    """A DataBlock begins anew with every eighth element, wherever turns begin."""
    count, width = 2000, 4 if narrow is None else 2
    calls = [load(0, 0, 4 * count), *with_block("Sub", 2 * SLOT, 0, count, first=False)]
    calls += [] if narrow is None else [("cast", narrow, "float32", 3 * SLOT, 2 * SLOT, 1, count)]
    calls += [store(32768, 2, width * count) if narrow is None else store(32768, 3, width * count, narrow)]
    for further in (0, 16, 32, 48):
        assert_same_when_compiled(compiler, [shifted(call, further) for call in calls], [FLOATS])
