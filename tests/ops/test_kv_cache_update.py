"""Caches that are views: written where they are contiguous, refused where they are not."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

from ms_ascend_ops import custom, ops

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
    with pytest.raises(ValueError, match="_cache is written in place and must be contiguous"):
        ops.kv_cache_append(new, new, cache, strided, position)
    assert not cache.asnumpy().any()
    ops.kv_cache_append(new, new, cache, Tensor(np.zeros((1, 4, 1, 2), np.float32)), position)
    assert cache.asnumpy().sum() == 6
