"""Runs of operators as one node of a graph: what is in them, and the same bits as without."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn
from ms_ascend_ops.export.files.model import read_model
from ms_ascend_ops.export.files.retarget import retarget
from ms_ascend_ops.export.passes.run_products import join_products
from ms_ascend_ops.export.passes.super_kernels import group_kernels
from ms_ascend_ops.samples.network import flat

from examples import llama
from ms_ascend_ops import export_mindir, load, ops, optimize_mindir
from tests import small_llama


def draw(*shape, seed=0):
    return Tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def lists(file):
    """The lists of kernels of a file, each without its views."""
    model = read_model(file, "test")
    retarget(model, "test")
    join_products(model)
    count = group_kernels(model)
    texts = [a.s.decode() for p in model.primitives for a in p.attribute if a.name == "kernels"]
    assert len(texts) == count
    steps = [[line.split()[0] for line in text.splitlines()[1:]] for text in texts]
    return [[name for name in names if name not in ("view", "transpose")] for names in steps]


def check_bits(file, *calls):
    """Every call gives the same bits with super kernels and without; a network may have state."""
    with_them, without = load(file), load(file, super_kernels=False)
    for inputs in calls:
        results, expected = flat(with_them(*inputs)), flat(without(*inputs))
        assert len(results) == len(expected)
        for result, value in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result.asnumpy(), value.asnumpy())


LAYER = ["flash_attention", "matmul", "add_rms_norm", "matmul", "swiglu", "matmul", "add_rms_norm", "matmul"]


def test_a_decoder_for_any_sizes(tmp_path):
    """Prefill and decoding by one graph. The cache, which MindSpore puts together, cuts a run in each layer."""
    net = llama.LlamaForCausalLM(small_llama.CONFIG)
    tokens = Tensor(np.arange(7, dtype=np.int32)[None])
    step = (tokens[:, :1], draw(2, 2, 1, 2, 5, 8))
    stock = export_mindir(net, *step, path=tmp_path / "stock", dynamic={0: (0, 1), 1: (2, 4)})
    file = tmp_path / "fused.mindir"
    optimize_mindir(stock, file, level="O3")
    check_bits(file, step, (tokens, draw(2, 2, 1, 2, 0, 8)), (tokens[:, 3:5], draw(2, 2, 1, 2, 5, 8)), step)
    first = ["rms_norm", "matmul", "qkv_rotary_embedding"]
    assert lists(file) == [first, [*LAYER, "qkv_rotary_embedding"], LAYER]


class Cut(nn.Cell):
    """`sin` stands between the two norms and the product, which so is alone."""

    def construct(self, x, gamma):
        first = ops.rms_norm(x, gamma)[0]
        second = ops.rms_norm(first.reshape(x.shape[0], -1, 2, 4), gamma[:4])[0]
        return ops.silu_mul(ms.ops.sin(second), second), first.reshape(-1, 4).expand_dims(1).transpose(2, 0, 1)


def test_what_stands_between(tmp_path):
    inputs = draw(2, 3, 8), draw(8)
    file = export_mindir(Cut(), *inputs, path=tmp_path / "cut", dynamic={0: (0, 1)})
    check_bits(file, inputs, (draw(5, 1, 8), draw(8)), (draw(5, 0, 8), draw(8)))
    assert lists(file) == [["rms_norm", "rms_norm"]]


class Converted(nn.Cell):
    """Casts between operators of float32 and float16; one of integers, from outside, is none of the run."""

    def construct(self, x, gamma, numbers):
        first = ops.rms_norm(x, gamma)[0].astype(ms.float16)
        second = ops.silu_mul(first, first).astype(ms.bfloat16).astype(ms.float32)
        return ops.silu_mul(second, second), ops.silu_mul(second, numbers.astype(ms.float32))


def test_casts(tmp_path):
    def inputs(rows):
        return draw(rows, 8), draw(8), Tensor(np.arange(8 * rows, dtype=np.int32).reshape(rows, 8))

    file = export_mindir(Converted(), *inputs(3), path=tmp_path / "casts", dynamic={0: (0,), 2: (0,)})
    check_bits(file, inputs(3), inputs(40), inputs(0))
    assert lists(file) == [["rms_norm", "cast", "silu_mul", "cast", "cast", "silu_mul", "silu_mul"]]


class Written(nn.Cell):
    """A cache that is read before it is written, and behind that."""

    def __init__(self):
        super().__init__()
        self.keys, self.values = (Parameter(draw(2, 4, 1, 8, seed=seed), name=f"cache{seed}") for seed in (1, 2))

    def construct(self, x, gamma, slots):
        before = ops.rms_norm(self.keys, gamma)[0]
        keys, values = ops.kv_cache_update(x, x, self.keys, self.values, slots)
        behind = ops.rms_norm(keys, gamma)[0]
        return before, ops.silu_mul(behind, ops.rms_norm(values, gamma)[0])


def test_what_is_written(tmp_path):
    inputs = draw(1, 3, 1, 8), draw(8), Tensor(np.array([[5, 0, -1]], np.int32))
    file = export_mindir(Written(), *inputs, path=tmp_path / "written")
    check_bits(file, inputs, inputs, (inputs[0] * 2, *inputs[1:]))
    # MindSpore copies the keys as they are behind the write (TensorMove), which cuts the run.
    assert lists(file) == [["rms_norm", "rms_norm", "silu_mul"]]
    stock, gamma = draw(2, 4, 1, 8, seed=1).asnumpy().astype(np.float64), inputs[1].asnumpy()
    before = load(file)(*inputs)[0].asnumpy()
    # Of float32: a sum of 8, a root and two products.
    np.testing.assert_allclose(before, stock / np.sqrt((stock**2).mean(-1, keepdims=True) + 1e-6) * gamma, rtol=1e-5)


def test_files_hold_none(tmp_path):
    """Which operators are launched together is up to the machine that runs them."""
    inputs = draw(2, 3, 8), draw(8)
    file = export_mindir(Cut(), *inputs, path=tmp_path / "cut")
    model = read_model(file, "test")
    retarget(model, "test")
    group_kernels(model)
    grouped = tmp_path / "grouped.mindir"
    grouped.write_bytes(model.SerializeToString())
    with pytest.raises(ValueError, match="needs the operator SuperKernel"):
        load(grouped)
