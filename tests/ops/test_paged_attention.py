import re

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate, assert_close
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.kernels.test_flash_attention import TERMS
from tests.modes import MODES, run
from tests.reference import paged_attention as reference
from tests.tensors import dtype_name, numpy, tensor

SHAPES = ((2, 3, 4, 16), (5, 4, 2, 16), (5, 4, 2, 12), (2, 3), (2,))  # query, caches, tables, lengths
TABLES = Tensor([[4, 2, 3], [1, 0, -1]], ms.int32)
LENGTHS = Tensor([10, 6], ms.int32)


def inputs(dtype):
    rng = np.random.default_rng(0)
    return [*[tensor(draw(rng, shape) / 2, dtype) for shape in SHAPES[:3]], TABLES, LENGTHS]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_forward(mode, dtype):
    tensors = inputs(dtype)
    out = run(mode, ops.paged_attention, tensors)
    assert dtype_name(out) == dtype
    query, key, value, *rest = map(numpy, tensors)
    golden = reference.forward(query, key, value, *rest, scale=0.25)
    terms = reference.forward(query, key, np.abs(value), *rest, scale=0.25)
    assert_accurate(numpy(out), golden, dtype, TERMS[dtype] * terms)


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
    assert_close(numpy(together), np.concatenate(one_by_one, 1), rtol=1e-5, atol=1e-6)
    dense, _ = ops.flash_attention(query, key[None], value[None], causal=True, layout="BSND")
    assert_close(numpy(together), numpy(dense), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_there_is_no_gradient(mode):
    query, *rest = inputs("float32")

    def total(query):
        return ops.paged_attention(query, *rest).sum()

    with pytest.raises(RuntimeError, match=r"^paged_attention: it has no gradient"):
        run(mode, ms.grad(total), (query,))


@pytest.mark.parametrize("wrong", [(Tensor([[5, 2, 3], [1, 0, 0]], ms.int32), LENGTHS), (TABLES, LENGTHS - 7)])
def test_a_wrong_block_or_length(wrong):
    message = r"block_tables must be at least 0 and below key_cache.shape\[0\]; context_lengths must be at least 0 and "
    with pytest.raises(RuntimeError, match=rf"^paged_attention: the kernel stopped itself .*{message}"):
        ops.paged_attention(*inputs("float32")[:3], *wrong)


BAD = [
    ((2, 3, 5, 16), 0, "query.shape[2] must be a multiple of"),
    ((2, 4, 16), 0, "query must have 4 dims"),
    ((5, 4, 2, 8), 1, "key_cache.shape[3] must equal query.shape[3] (16)"),
    ((5, 5, 2, 12), 2, "value_cache.shape[1] must equal key_cache.shape[1] (4)"),
    ((5, 4, 2, 257), 2, "value_cache.shape[-1] must be at most 256"),
    ((3, 3), 3, "block_tables.shape[0] must equal query.shape[0] (2)"),
    ((3,), 4, "context_lengths.shape[0] must equal query.shape[0] (2)"),
]


@pytest.mark.parametrize(("shape", "place", "message"), BAD)
def test_bad_shapes(shape, place, message):
    shapes = [*SHAPES[:place], shape, *SHAPES[place + 1 :]]
    tensors = [Tensor(np.zeros(shape, np.int32 if i > 2 else np.float32)) for i, shape in enumerate(shapes)]
    with pytest.raises(ValueError, match="^" + re.escape("paged_attention: ") + ".*" + re.escape(message)):
        ops.paged_attention(*tensors)


@pytest.mark.parametrize(("place", "dtype"), [(1, ms.float16), (3, ms.int64), (4, ms.float32)])
def test_bad_dtypes(place, dtype):
    tensors = inputs("float32")
    tensors[place] = tensors[place].astype(dtype)
    with pytest.raises(TypeError, match=r"^paged_attention: "):
        ops.paged_attention(*tensors)
