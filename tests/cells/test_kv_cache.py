"""In place, in every mode, and in a MindIR in a process that imports MindSpore only."""

import subprocess
import sys
from contextlib import nullcontext

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

from ms_ascend_ops import KVCache, ops
from tests.modes import MODES, Caller, graph_mode, run

HEADS, DIM = 2, 4


class Step(nn.Cell):
    """A decoding step: reads the cache before, updates it, and reads it after."""

    def __init__(self, contiguous):
        super().__init__()
        self.cache = KVCache(2, 3, HEADS, DIM, ms.float32, contiguous)

    def construct(self, key, value, where):
        before = self.cache.key_cache.sum()
        keys, values = self.cache(key, value, where)
        return before, keys * 1.0, values * 1.0


def tokens(rng, shape):
    return [rng.normal(size=(*shape, HEADS, DIM)).astype(np.float32) for _ in range(2)]


def paged(step):
    """Tokens, slots and the places they belong to."""
    slots = [[4, 0], [1, -1], [5, 3]][step]
    return (2,), slots, [(i, slot) for i, slot in enumerate(slots) if slot >= 0]


def contiguous(step):
    position = [[0], [1], [2, 2]][step]
    return (2, 1), position, [(i, 3 * i + step) for i in range(2)]


def play(run, form, before=lambda total: None):
    """Three steps of `run(key, value, where)` against caches in NumPy."""
    rng = np.random.default_rng(0)
    expected = [np.zeros((6, HEADS, DIM), np.float32) for _ in range(2)]
    for step in range(3):
        shape, where, places = form(step)
        new = tokens(rng, shape)
        total = expected[0].sum()
        for cache, values in zip(expected, new, strict=True):
            for token, slot in places:
                cache[slot] = values.reshape(2, HEADS, DIM)[token]
        was, keys, values = run(*new, np.array(where, np.int32))
        assert np.isclose(was, total, atol=1e-5)
        assert np.array_equal(keys.reshape(6, HEADS, DIM), expected[0])
        assert np.array_equal(values.reshape(6, HEADS, DIM), expected[1])
    return expected


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", [paged, contiguous])
def test_in_place(mode, form):
    network = Step(form is contiguous)
    if mode == "jit":
        network.construct = ms.jit(network.construct)

    def run(*arrays):
        return [value.asnumpy() for value in network(*map(Tensor, arrays))]

    if mode == "graph":
        with graph_mode():
            expected = play(run, form)
    else:
        expected = play(run, form)
    for parameter, cache in zip((network.cache.key_cache, network.cache.value_cache), expected, strict=True):
        assert np.array_equal(parameter.asnumpy().reshape(cache.shape), cache)


RUN = """
import sys
import mindspore as ms
import numpy as np

ms.set_context(mode=ms.GRAPH_MODE)
for form in ("paged", "contiguous"):
    network = ms.nn.GraphCell(ms.load(f"{form}.mindir"))
    for i in range(3):
        outputs = network(*(ms.Tensor(np.load(f"{form}_{name}{i}.npy")) for name in ("key", "value", "where")))
        for name, value in zip(("was", "keys", "values"), outputs):
            np.save(f"{form}_{name}{i}.npy", value.asnumpy())
assert "ms_ascend_ops" not in sys.modules
"""


def test_mindirs_in_a_fresh_process(tmp_path):
    """One for both: MindSpore takes longer to import than they to run."""
    for form in (paged, contiguous):
        export(form)
    subprocess.run([sys.executable, "-c", RUN], check=True)
    for form in (paged, contiguous):
        steps = iter(range(3))

        def saved(*_, form=form, steps=steps):
            step = next(steps)
            return [np.load(f"{form.__name__}_{name}{step}.npy") for name in ("was", "keys", "values")]

        play(saved, form)


def export(form):
    """The network as a file, and what play() gives it."""
    rng, made = np.random.default_rng(0), []  # the tokens of play()
    for step in range(3):
        shape, where, _ = form(step)
        where = where if form is paged or len(where) == 2 else where * 2
        made.append((*tokens(rng, shape), np.array(where, np.int32)))
        for name, array in zip(("key", "value", "where"), made[-1], strict=True):
            np.save(f"{form.__name__}_{name}{step}.npy", array)
    with graph_mode():
        network = Step(form is contiguous)
        ms.export(network, *map(Tensor, made[0]), file_name=form.__name__, file_format="MINDIR")


BEYOND = {"slot": (paged, [0, 6]), "beyond": (contiguous, [3]), "before": (contiguous, [-1])}


# A graph hands on the kernel's error, whichever it is; one that failed sleeps for three seconds.
@pytest.mark.parametrize(("mode", "case"), [*(("pynative", case) for case in BEYOND), ("graph", "slot")])
def test_beyond_the_cache(mode, case):
    """An error, and nothing is written."""
    form, where = BEYOND[case]
    network = Step(form is contiguous)
    key, value = tokens(np.random.default_rng(0), form(0)[0])
    with graph_mode() if mode == "graph" else nullcontext(), pytest.raises(RuntimeError):
        network(Tensor(key), Tensor(value), Tensor(np.array(where, np.int32)))[1].asnumpy()
    assert not network.cache.key_cache.asnumpy().any()


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"^KVCache: blocks, block_size, heads and head_dim must be >= 1, got \(0, 3"):
        KVCache(0, 3, HEADS, DIM)
    key, cache = Tensor(np.ones((2, HEADS, DIM), np.float32)), Tensor(np.ones((2, 3, HEADS, 5), np.float32))
    with pytest.raises(
        ValueError, match=r"^kv_cache_update: key_cache.shape\[3\] must equal key.shape\[-1\] \(4\), got"
    ):
        ops.kv_cache_update(key, key, cache, cache, Tensor([0, 1], ms.int32))


@pytest.mark.parametrize("mode", MODES)
def test_as_many_sequences_as_the_cache_has(mode):
    key, cache = Tensor(np.ones((2, 1, HEADS, DIM), np.float32)), Tensor(np.ones((3, 5, HEADS, DIM), np.float32))
    with pytest.raises(
        ValueError, match=r"^kv_cache_append: key_cache.shape\[0\] must equal key.shape\[0\] \(2\), got"
    ):
        run(mode, ops.kv_cache_append, (key, key, cache, cache, Tensor([0], ms.int32)))


def test_as_many_sequences_as_the_cache_has_where_dims_are_unknown():
    unknown = [Tensor(shape=(None,) * 4, dtype=ms.float32)] * 4
    key, cache = Tensor(np.ones((2, 1, HEADS, DIM), np.float32)), Tensor(np.zeros((3, 5, HEADS, DIM), np.float32))
    with graph_mode():
        network = Caller(ops.kv_cache_append)
        network.set_inputs(*unknown, Tensor(shape=(None,), dtype=ms.int32))
        with pytest.raises(
            RuntimeError, match=r"slot_mapping.shape must equal key.shape\[:-2\] \(2, 1\), got \(3, 1\)"
        ):
            network(key, key, cache, cache, Tensor([0], ms.int32))
    assert not cache.asnumpy().any()
