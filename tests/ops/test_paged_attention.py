import mindspore as ms
import numpy as np
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.acceptance import assert_close
from tests.inputs import draw
from tests.tensors import numpy, tensor


def test_after_kv_cache_update():
    """Token by token is as all tokens at once, and as flash_attention without a cache."""
    rng = np.random.default_rng(0)
    query, key, value = (tensor(draw(rng, shape) / 2, "float32") for shape in ((1, 9, 4, 8), (9, 2, 8), (9, 2, 8)))
    caches = [Tensor(np.full((3, 4, 2, 8), np.nan, np.float32)) for _ in range(2)]
    tables = Tensor([[2, 0, 1]], ms.int32)
    slots = [8, 9, 10, 11, 0, 1, 2, 3, 4]
    one_by_one = []
    for token in range(9):
        new = [x[token : token + 1] for x in (key, value)]
        caches = ops.kv_cache_update(*new, *caches, Tensor(slots[token : token + 1], ms.int32))
        length = Tensor([token + 1], ms.int32)
        one_by_one.append(numpy(ops.paged_attention(query[:, token : token + 1], *caches, tables, length)))
    together = ops.paged_attention(query, *caches, tables, length)
    windowed = ops.paged_attention(query, *caches, tables, length, window=3)
    narrow, _ = ops.flash_attention(query, key[None], value[None], causal=True, window=3, layout="BSND")
    assert_close(numpy(windowed), numpy(narrow), rtol=1e-5, atol=1e-6)
    assert_close(numpy(together), np.concatenate(one_by_one, 1), rtol=1e-5, atol=1e-6)
    dense, _ = ops.flash_attention(query, key[None], value[None], causal=True, layout="BSND")
    assert_close(numpy(together), numpy(dense), rtol=1e-5, atol=1e-6)
