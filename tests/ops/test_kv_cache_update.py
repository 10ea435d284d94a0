"""Caches that are views: written where they are contiguous, refused where they are not."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn
from mindspore import ops as stock

from ms_ascend_ops import custom, graph_writes, ops
from tests.modes import graph_mode

CONTIGUOUS = {
    "a block of several": lambda: Tensor(np.zeros((6, 4, 1, 2), np.float32))[1:5],
    "a layer of several": lambda: Tensor(np.zeros((2, 4, 4, 1, 2), np.float32))[1],
    "axes of one element swapped": lambda: Tensor(np.zeros((4, 1, 4, 2), np.float32)).swapaxes(1, 2),
}
STRIDED = {
    "every second element": lambda: Tensor(np.zeros((4, 4, 1, 4), np.float32))[..., ::2],
    "layers between blocks": lambda: Tensor(np.zeros((4, 2, 4, 1, 2), np.float32))[:, 0],
    "heads first": lambda: Tensor(np.zeros((4, 3, 4, 2), np.float32)).swapaxes(1, 2)[:, :, :1],
}
KEY = Tensor(np.ones((3, 1, 2), np.float32))
SLOTS = Tensor(np.array([0, 5, 6], np.int32))


@pytest.mark.parametrize("make", CONTIGUOUS.values(), ids=CONTIGUOUS)
def test_a_contiguous_view_is_written(make):
    caches = make(), make()
    for cache, result in zip(caches, ops.kv_cache_update(KEY, KEY, *caches, SLOTS), strict=True):
        assert cache.asnumpy().sum() == result.asnumpy().sum() == 6


class Update(nn.Cell):
    def construct(self, *tensors):
        return ops.kv_cache_update(*tensors)


@pytest.mark.parametrize("make", CONTIGUOUS.values(), ids=CONTIGUOUS)
def test_a_cell_that_casts_does_not_cast_what_is_written(make):
    caches = make(), make()
    Update().to_float(ms.float16)(KEY, KEY, *caches, SLOTS)
    assert all(cache.asnumpy().sum() == 6 for cache in caches)


@pytest.mark.parametrize("make", [*CONTIGUOUS.values(), *STRIDED.values()], ids=[*CONTIGUOUS, *STRIDED])
def test_where_mindspore_makes_the_call_no_view_is_taken(make, monkeypatch):
    """As in a trace: it passes a copy."""
    monkeypatch.setattr(custom, "usable", lambda writes=False: False)
    with pytest.raises(ValueError, match="key_cache is written in place and must be contiguous"):
        ops.kv_cache_update(KEY, KEY, make(), Tensor(np.zeros((4, 4, 1, 2), np.float32)), SLOTS)


@pytest.mark.parametrize("make", STRIDED.values(), ids=STRIDED)
def test_a_strided_view_is_refused(make):
    whole = Tensor(np.zeros((4, 4, 1, 2), np.float32))
    for caches, name in (((make(), whole), "key_cache"), ((whole, make()), "value_cache")):
        message = f"kv_cache_update: {name} is written in place and must be contiguous, got strides"
        with pytest.raises(ValueError, match=message):
            ops.kv_cache_update(KEY, KEY, *caches, SLOTS)
    assert not whole.asnumpy().any()


def test_append_refuses_it_too():
    cache = Tensor(np.zeros((1, 2, 4, 1, 2), np.float32))[:, 0]
    strided = Tensor(np.zeros((1, 4, 1, 4), np.float32))[..., ::2]
    new, position = Tensor(np.ones((1, 3, 1, 2), np.float32)), Tensor(np.array([1], np.int32))
    with pytest.raises(ValueError, match="value_cache is written in place and must be contiguous"):
        ops.kv_cache_append(new, new, cache, strided, position)
    assert not cache.asnumpy().any()
    ops.kv_cache_append(new, new, cache, Tensor(np.zeros((1, 4, 1, 2), np.float32)), position)
    assert cache.asnumpy().sum() == 6


def test_tensors_whose_size_is_a_method(monkeypatch):
    """As MindNLP makes it for all of MindSpore's."""
    whole = Tensor(np.zeros((2, 4, 1, 2), np.float32))
    new, position = Tensor(np.ones((1, 3, 1, 2), np.float32)), Tensor(np.array([1], np.int32))
    monkeypatch.setattr(Tensor, "size", lambda self, dim=None: self.shape)
    ops.kv_cache_append(new, new, whole[:1], whole[1:], position)
    assert whole.asnumpy().sum() == 12
    assert graph_writes.describe_view(whole[:1]) == "the first 8 elements of more for shape (1, 4, 1, 2)"
    with pytest.raises(ValueError, match=r"position must have 1 element or key\.shape\[0\] \(1\) of them, got \(2,\)"):
        ops.kv_cache_append(new, new, whole[:1], whole[1:], Tensor(np.array([1, 2], np.int32)))


BLOCKS = (4, 4, 1, 2)


# MindSpore reads the source of functions: a lambda in a table is none for it.
def reshaped(cache):
    return cache.reshape(BLOCKS)


def viewed(cache):
    return cache.view(BLOCKS)


def layer_of_several(cache):
    return cache[1]


def blocks_of_several(cache):
    return cache.narrow(0, 1, 4)


def axes_swapped(cache):
    return cache.swapaxes(0, 1)


def one_of_two(cache):
    return stock.split(cache, 4)[1]


def view_of_a_view(cache):
    return cache[0].reshape(BLOCKS)


def whole(cache):
    return cache


VIEWS = [
    ((16, 1, 2), reshaped),
    ((16, 1, 2), viewed),
    ((2, *BLOCKS), layer_of_several),
    ((6, 4, 1, 2), blocks_of_several),
    (BLOCKS, axes_swapped),
    ((8, 4, 1, 2), one_of_two),
    ((2, 16, 1, 2), view_of_a_view),
]


class Layer(nn.Cell):
    """A Parameter, of which `view` makes the cache; the argument is the other one."""

    def __init__(self, shape, view):
        super().__init__()
        self.keys = Parameter(np.zeros(shape, np.float32), name="keys")
        self.view = view

    @ms.jit
    def jitted(self, cache):
        return ops.kv_cache_update(KEY, KEY, self.view(self.keys), cache, SLOTS)

    def construct(self, cache):
        return ops.kv_cache_update(KEY, KEY, self.view(self.keys), cache, SLOTS)


def call(layer, mode, cache):
    if mode == "jit":
        return layer.jitted(cache)
    with graph_mode():
        return layer(cache)


@pytest.mark.parametrize("mode", ["jit", "graph"])
@pytest.mark.parametrize(("shape", "view"), VIEWS, ids=lambda part: getattr(part, "__name__", ""))
def test_a_graph_does_not_take_a_view_of_a_parameter(shape, view, mode):
    """It would write to a copy. The second call has the graph already."""
    layer, cache = Layer(shape, view), Tensor(np.zeros(BLOCKS, np.float32))
    for _ in range(2):
        with pytest.raises(ValueError, match="kv_cache_update: key_cache is written in place and must be a whole Pa"):
            call(layer, mode, cache)
    assert not layer.keys.asnumpy().any()
    assert not cache.asnumpy().any()


@pytest.mark.parametrize("mode", ["jit", "graph"])
def test_what_a_graph_takes_is_a_whole_tensor(mode):
    layer, given = Layer(BLOCKS, whole), Tensor(np.zeros(BLOCKS, np.float32))
    results = call(layer, mode, given)
    for cache in (layer.keys, given, *results):
        assert cache.asnumpy().sum() == 6
    parts = [Tensor(np.zeros((6, 4, 1, 2), np.float32))[first : first + 4] for first in (0, 1)]
    for view in (*parts, Tensor(np.zeros((4, 4, 1, 4), np.float32))[..., ::2]):
        with pytest.raises(ValueError, match="kv_cache_update: value_cache is written in place and must be whole in"):
            call(layer, mode, view)
        assert not view.asnumpy().any()
    assert layer.keys.asnumpy().sum() == 6
    call(layer, mode, given)


class OfTuple(nn.Cell):
    def construct(self, caches):
        return ops.kv_cache_update(KEY, KEY, caches[0], caches[1], SLOTS)


def test_tensors_of_a_tuple_are_whole():
    """As MindFormers passes its caches."""
    caches = [Tensor(np.zeros(BLOCKS, np.float32)) for _ in range(2)]
    with graph_mode():
        OfTuple()(ms.mutable(tuple(caches)))
    assert all(cache.asnumpy().sum() == 6 for cache in caches)


class Constants(nn.Cell):
    def __init__(self):
        super().__init__()
        self.keys, self.values = (Tensor(np.zeros(BLOCKS, np.float32)) for _ in range(2))

    def construct(self):
        return ops.kv_cache_update(KEY, KEY, self.keys, self.values, SLOTS)


def test_constants_are_refused():
    """MindSpore makes one of two that have equal values: keys and values would go to the same memory."""
    held, caches = Constants(), tuple(Tensor(np.zeros(BLOCKS, np.float32)) for _ in range(2))
    for call in (held, lambda: OfTuple()(caches)):
        with graph_mode(), pytest.raises(ValueError, match=r"key_cache is written .* got a constant, .*mutable"):
            call()
    assert not held.keys.asnumpy().any()


def test_a_view_that_is_only_read_is_taken():
    @ms.jit
    def append(key, keys, values, position):
        return ops.kv_cache_append(key, key * 2, keys, values, position)

    key, position = Tensor(np.ones((1, 3, 1, 4), np.float32))[..., ::2], Tensor(np.array([5, 1], np.int32))[1:]
    keys, values = (Tensor(np.zeros((1, 4, 1, 2), np.float32)) for _ in range(2))
    for cache, result, total in zip((keys, values), append(key, keys, values, position), (6, 12), strict=True):
        assert cache.asnumpy().sum() == result.asnumpy().sum() == total
    part = Tensor(np.zeros((2, 4, 1, 2), np.float32))[1:]
    with pytest.raises(ValueError, match="_cache is written in place and must be whole in a graph"):
        append(key, keys, part, position)
    assert not part.asnumpy().any()
