import numpy as np
import pytest

from ms_ascend_ops import registry
from ms_ascend_ops.library import native
from tests.dtypes import FLOATS, STORAGE


def bits(rng, shape, dtype):
    """Any bits: NaN, Inf and denormals among them."""
    storage = STORAGE[dtype]
    return rng.integers(0, 256, (*shape, storage.itemsize), np.uint8).view(storage).reshape(shape)


def update(key, value, key_cache, value_cache, slots, dtype):
    status = np.full(1, -1, np.int32)
    arrays = [key, value, key_cache, value_cache, np.asarray(slots, np.int32)]
    types = [dtype] * 4 + ["int32"]
    native().launch("kv_cache_update", arrays, [status], {}, [*types, "int32"])
    assert status[0] == 0


def same(a, b):
    return np.array_equal(a.view(np.uint8), b.view(np.uint8))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("tokens", "heads", "sizes", "blocks", "block_size"),
    [
        (1, 2, (64, 64), 3, 4),  # decoding
        (37, 3, (5, 7), 8, 16),  # rows of no whole blocks, values of another size than keys
        (300, 8, (128, 128), 40, 16),  # several tiles and cores
        (2, 64, (1024, 8), 2, 2),  # a token larger than a tile
        (2100, 1, (2, 2), 3, 1000),  # more slots than are looked at together
    ],
)
def test_only_the_slots_change(tokens, heads, sizes, blocks, block_size, dtype):
    rng = np.random.default_rng(tokens)
    key, value = (bits(rng, (tokens, heads, size), dtype) for size in sizes)
    caches = [bits(rng, (blocks, block_size, heads, size), dtype) for size in sizes]
    slots = rng.permutation(blocks * block_size)[:tokens]
    slots[tokens // 2] = -1 if tokens > 1 else slots[0]
    expected = [cache.copy() for cache in caches]
    for cache, new in zip(expected, (key, value), strict=True):
        cache.reshape(-1, *new.shape[1:])[slots[slots >= 0]] = new[slots >= 0]
    update(key, value, *caches, slots, dtype)
    assert all(same(*pair) for pair in zip(caches, expected, strict=True))


@pytest.mark.parametrize("tokens", [2, 5000])
@pytest.mark.parametrize("wrong", [6000, 2**31 - 1])
def test_a_slot_beyond_the_cache_stops_before_anything_is_written(wrong, tokens):
    rng = np.random.default_rng(0)
    key, cache = bits(rng, (tokens, 2, 8), "float16"), bits(rng, (6, 1000, 2, 8), "float16")
    before, slots = cache.copy(), np.arange(tokens)
    slots[-1] = wrong
    with pytest.raises(RuntimeError, match="Trap"):
        update(key, key, cache, cache.copy(), slots, "float16")
    assert same(cache, before)
    slots[-1] = 5999
    update(key, key, cache, cache.copy(), slots, "float16")
    assert same(cache.reshape(-1, 2, 8)[slots], key)


def test_negative_slots_are_skipped():
    key, cache = np.ones((3, 1, 4), np.float32), np.zeros((1, 2, 1, 4), np.float32)
    update(key, key, cache, cache.copy(), [-1, -(2**31), 1], "float32")
    assert np.array_equal(cache[0, :, 0, 0], [0, 1])


def test_no_tokens():
    cache = np.zeros((1, 2, 1, 4), np.float32)
    update(np.zeros((0, 1, 4), np.float32), np.zeros((0, 1, 4), np.float32), cache, cache.copy(), [], "float32")
    assert not cache.any()


def test_the_definition_says_what_is_written():
    assert registry.signature("kv_cache_update").writes == ("key_cache", "value_cache")


def test_caches_that_cannot_be_written_are_refused():
    key, slots, status = np.ones((1, 1, 4), np.float32), np.zeros(1, np.int32), np.zeros(1, np.int32)
    whole = np.zeros((1, 2, 1, 8), np.float32)
    frozen = np.zeros((1, 2, 1, 4), np.float32)
    frozen.flags.writeable = False

    def launch(key_cache, value_cache):
        native().launch("kv_cache_update", [key, key, key_cache, value_cache, slots], [status], {})

    for cache, message in ((whole[..., ::2], "C-contiguous"), (frozen, "writeable"), (whole[..., :4], "C-contiguous")):
        with pytest.raises(ValueError, match=rf"kv_cache_update: inputs\[2\] must be {message}"):
            launch(cache, np.zeros((1, 2, 1, 4), np.float32))
    cache = np.zeros((1, 2, 1, 4), np.float32)
    with pytest.raises(ValueError, match=r"kv_cache_update: inputs\[3\] must not overlap another array"):
        launch(cache, cache)
    assert not cache.any()
