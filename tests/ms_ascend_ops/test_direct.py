"""The fast path of a call in PyNative, against MindSpore's own: the same results, to the bit."""

import os
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn
from mindspore import ops as stock
from ms_ascend_ops.samples.network import flat

from ms_ascend_ops import custom, direct, ops
from tests.inputs import draw
from tests.modes import graph_mode
from tests.tensors import numpy, tensor
from tests.versions import BFLOAT16


@pytest.fixture
def through_mindspore(monkeypatch):
    """Calls a function with the fast path closed."""

    def call(function, *arguments):
        with monkeypatch.context() as patch:
            patch.setattr(custom, "usable", lambda: False)
            return function(*arguments)

    return call


@pytest.fixture
def paths(monkeypatch):
    """The results of the calls that took the fast path."""
    taken = []

    def remember(function):
        def call(*arguments):
            taken.append(function(*arguments))
            return taken[-1]

        return call

    original = custom.direct
    monkeypatch.setattr(custom, "direct", lambda *arguments: remember(original(*arguments)))
    return taken


def random(*shape, dtype="float32", seed=0):
    return tensor(draw(np.random.default_rng(seed), shape), dtype)


def assert_same(results, expected):
    results, expected = flat(results), flat(expected)
    assert len(results) == len(expected)
    for result, other in zip(results, expected, strict=True):
        assert (result.dtype, result.shape) == (other.dtype, other.shape)
        assert np.array_equal(numpy(result), numpy(other))


CASES = {
    "several outputs": (ops.rms_norm, lambda dtype: [random(5, 64, dtype=dtype), random(64, dtype=dtype)]),
    "one output": (ops.swiglu, lambda dtype: [random(5, 64, dtype=dtype)]),
    "several lines": (ops.softmax, lambda dtype: [random(40, 700, dtype=dtype)]),
    "scalar": (ops.cross_entropy, lambda dtype: [random(5, 64, dtype=dtype), Tensor(np.arange(5), ms.int32)]),
    "no rows": (ops.rms_norm, lambda dtype: [Tensor(np.ones((0, 64)), getattr(ms, dtype)), random(64, dtype=dtype)]),
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("case", CASES)
def test_both_paths_agree(through_mindspore, case, dtype):
    function, make = CASES[case]
    inputs = make(dtype)
    assert_same(function(*inputs), through_mindspore(function, *inputs))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("case", ["several outputs", "one output", "scalar"])
def test_gradients_agree(through_mindspore, case, dtype):
    function, make = CASES[case]
    inputs = make(dtype)

    def loss(*tensors):
        return sum((result.astype(ms.float32) * 3).sum() for result in flat(function(*tensors)))

    positions = tuple(i for i, value in enumerate(inputs) if value.dtype != ms.int32)
    gradient = ms.value_and_grad(loss, positions)
    assert_same(gradient(*inputs), through_mindspore(gradient, *inputs))


@pytest.mark.parametrize("dtype", ["float32", "float16", BFLOAT16])
@pytest.mark.parametrize("used", [0, 1])
def test_gradients_agree_where_a_result_is_not_used(through_mindspore, used, dtype):
    inputs = [random(4, 64, dtype=dtype), random(64, dtype=dtype)]
    gradient = ms.grad(lambda x, gamma: ops.rms_norm(x, gamma)[used], (0, 1))
    assert_same(gradient(*inputs), through_mindspore(gradient, *inputs))


def test_no_operator_makes_zeros_for_results_that_are_not_used(monkeypatch):
    """They cost more than the kernel of the gradient: MindSpore hands on None, and not a tensor of zeros."""
    given = []
    backward = direct._Recorded.backward

    def remember(ctx, *douts):
        given.append(douts)
        return backward(ctx, *douts)

    monkeypatch.setattr(direct._Recorded, "backward", staticmethod(remember))
    ms.grad(lambda x, gamma: ops.rms_norm(x, gamma)[0])(random(4, 64), random(64))
    assert [dout is None for dout in given[0]] == [False, True]


def test_the_fast_path_is_taken(paths):
    x, gamma = random(4, 8), random(8)
    select = custom.Selector("rms_norm", lambda grad: lambda x, gamma, out, dout: grad(*dout, x, out[1], gamma))
    select(x, gamma, 1e-3, "round_then_scale")(x, gamma)
    assert len(paths) == 1
    ms.grad(lambda x: select(x, gamma, 1e-3, "round_then_scale")(x, gamma)[0])(x)
    assert len(paths) == 3  # forward, and its gradient


def test_through_a_network():
    """Parameters, a hook, stop_gradient, and a call whose result nobody differentiates."""

    class Network(nn.Cell):
        def __init__(self):
            super().__init__()
            self.gamma = Parameter(random(8, seed=1), name="gamma")

        def construct(self, x):
            y = ops.rms_norm(x, self.gamma)[0]
            y.register_hook(lambda dy: dy * 2)
            return (y * stock.stop_gradient(ops.swiglu(ops.gelu(x)))[:, :1]).sum()

    network, x = Network(), random(4, 8)
    (dgamma,) = ms.grad(network, None, network.trainable_params())(x)
    weights = numpy(ops.swiglu(ops.gelu(x)))[:, :1]
    expected = ms.grad(lambda gamma: (ops.rms_norm(x, gamma)[0] * Tensor(2 * weights)).sum())(network.gamma)
    assert np.array_equal(numpy(dgamma), numpy(expected))  # doubled here or there: to the bit


def test_waits_for_its_inputs():
    """MindSpore computes them on threads of its own, and changes them there."""
    ones = Tensor(np.ones((512, 1024), np.float32))
    for _ in range(10):
        x = ones * 1
        for _ in range(5):
            x = x + ones
        x.copy_(x + ones)
        assert np.array_equal(ops.add(x, ones).asnumpy(), np.full((512, 1024), 8, np.float32))


def test_others_wait_for_its_results():
    x = random(256, 1024)
    doubled = ops.add(x, x)
    assert np.array_equal(numpy((doubled + x) - x), numpy(x + x + x - x))


@pytest.mark.parametrize("rows", [3, 64, 1024])  # a few lines; kept by the library; huge pages
def test_results_keep_their_memory(rows):
    """Also a view of a tensor that is no more, while the library reuses what it may."""
    x = Tensor(np.ones((rows, 1024), np.float32))
    kept = ops.add(x, x)
    view = ops.add(kept, x).asnumpy()
    row = ops.add(kept, kept)[1]
    for _ in range(4):
        ops.add(x * 10, x)
    assert (kept.asnumpy() == 2).all()
    assert (view == 3).all()
    assert (row.asnumpy() == 4).all()


def test_views(through_mindspore):
    x = random(6, 8, 10)
    for view in (x[2:4], x.transpose(1, 0, 2), x[:, ::2], x[..., 2:6], x[0].expand_dims(0).broadcast_to((3, 8, 10))):
        assert_same(ops.swiglu(view), through_mindspore(ops.swiglu, view))
        gradient = ms.grad(lambda t: ops.swiglu(t.transpose(0, 2, 1), 1).sum())
        assert_same(gradient(view), through_mindspore(gradient, view))


class ProductInATuple(nn.Cell):
    def construct(self, x):
        return (stock.BatchMatMul(transpose_b=True)(x, x),)


def test_a_result_of_a_graph_in_a_tuple():
    """MindSpore 2.7 has it as float32 in memory, and says float16."""
    with graph_mode():
        (x,) = ProductInATuple()(tensor(np.arange(24).reshape(2, 3, 4) / 8, "float16"))
    again = Tensor(np.array(x.asnumpy()))
    np.testing.assert_array_equal(numpy(ops.gelu(x)), numpy(ops.gelu(again)))


def test_writes_into_the_callers_tensors():
    key = Tensor(np.ones((2, 1, 4), np.float32))
    memory = Tensor(np.zeros((4, 3, 1, 4), np.float32))
    cache, values = memory[1:3], Parameter(Tensor(np.zeros((2, 3, 1, 4), np.float32)), name="values")
    returned = ops.kv_cache_update(key, key * 2, cache, values, Tensor([4, -1], ms.int32))
    assert [float(t.asnumpy()[1, 1].sum()) for t in (cache, values, *returned)] == [4, 8, 4, 8]
    assert float(memory.asnumpy().sum()) == 4
    assert float(memory.asnumpy()[2, 1].sum()) == 4


@pytest.mark.parametrize("kind", [Tensor, lambda tensor: Parameter(tensor, name="cache")])
@pytest.mark.parametrize("position", [[0], [3], [2, 0], [1, 3], [[2], [1]], 2])
def test_slots_of_both_paths_agree(through_mindspore, kind, position):
    """Those of tokens from a position on: of every sequence its own, or of all the same."""
    key, value = random(2, 2, 3, 4), random(2, 2, 3, 5, seed=1)
    where = Tensor(position, ms.int32)

    def append():
        caches = [kind(Tensor(np.zeros((2, 5, 3, size), np.float32))) for size in (4, 5)]
        returned = ops.kv_cache_append(key, value, *caches, where)
        assert_same(returned, tuple(caches))
        return returned

    assert_same(append(), through_mindspore(append))


@pytest.mark.parametrize("position", [[-1], [4], [0, 4], [2**31 - 1]])
def test_slots_beyond_the_cache(position):
    key, cache = random(2, 2, 1, 4), Tensor(np.zeros((2, 5, 1, 4), np.float32))
    with pytest.raises(RuntimeError, match=r"^kv_cache_update: the kernel stopped itself"):
        ops.kv_cache_append(key, key, cache, cache, Tensor(position, ms.int32))
    assert not cache.asnumpy().any()


def test_slots_are_calculated_without_operators(monkeypatch):
    """Of MindSpore's, each takes longer than the rest of the call."""
    key, cache = random(1, 1, 1, 4), Tensor(np.zeros((1, 5, 1, 4), np.float32))
    module = sys.modules[ops.kv_cache_append.__module__]
    monkeypatch.setattr(module, "_slots_in_graph", None)
    ops.kv_cache_append(key, key, cache, cache, Tensor([3], ms.int32))
    assert np.array_equal(cache.asnumpy()[0, 3], key.asnumpy()[0, 0])


def test_positions_that_do_not_fit():
    key, cache = random(2, 1, 1, 4), Tensor(np.zeros((2, 5, 1, 4), np.float32))
    with pytest.raises(TypeError, match=r"^kv_cache_append: position must be a Tensor, got int"):
        ops.kv_cache_append(key, key, cache, cache, 3)
    with pytest.raises(ValueError, match=r"^kv_cache_append: position must have 1 element or key.shape\[0\] \(2\)"):
        ops.kv_cache_append(key, key, cache, cache, Tensor([1, 2, 3], ms.int32))


def test_a_position_that_is_still_computed():
    """MindSpore computes it on a thread of its own."""
    key, cache = random(1, 1, 1, 4), Tensor(np.zeros((1, 64, 1, 4), np.float32))
    position = Tensor([0], ms.int32)
    for _ in range(60):
        position = position + 1
    ops.kv_cache_append(key, key, cache, cache, position)
    assert np.array_equal(cache.asnumpy()[0, 60], key.asnumpy()[0, 0])


def test_a_kernel_that_stops_itself():
    key, cache = Tensor(np.ones((1, 1, 4), np.float32)), Tensor(np.zeros((2, 3, 1, 4), np.float32))
    with pytest.raises(RuntimeError, match=r"^kv_cache_update: the kernel stopped itself"):
        ops.kv_cache_update(key, key, cache, cache, Tensor([6], ms.int32))
    assert not cache.asnumpy().any()


def test_bad_input_is_refused_also_after_a_good_call():
    x, gamma = random(4, 8), random(8)
    ops.rms_norm(x, gamma)
    for _ in range(2):
        with pytest.raises(TypeError, match=r"^rms_norm: gamma must be a Tensor, got list"):
            ops.rms_norm(x, [1.0] * 8)
        with pytest.raises(TypeError, match=r"^rms_norm: gamma.dtype must be"):
            ops.rms_norm(x, gamma.astype(ms.float16))
        with pytest.raises(ValueError, match=r"^rms_norm: gamma.shape\[0\] must equal x.shape\[-1\] \(8\), got \(7,\)"):
            ops.rms_norm(x, gamma[:7])
        with pytest.raises(ValueError, match=r"^rms_norm: gamma.shape\[0\]"):
            ms.grad(lambda x: ops.rms_norm(x, gamma[:7])[0])(x)
        with pytest.raises(ValueError, match="rotary_dim must be even"):  # not one of the definition's rules
            ops.rotary_embedding(x.reshape(1, 4, 1, 8), x, x, rotary_dim=3)


@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16])
def test_a_cell_that_computes_in_another_dtype(through_mindspore, dtype):
    class Network(nn.Cell):
        def __init__(self, gamma):
            super().__init__()
            self.gamma = Parameter(gamma, name="gamma")

        def construct(self, x):
            return ops.rms_norm(x, self.gamma)[0]

    x, gamma = random(4, 8), random(8)
    network = Network(gamma).to_float(dtype)
    result = network(x)
    assert result.dtype == dtype
    assert_same(result, through_mindspore(network, x))
    assert ops.rms_norm(x, gamma)[0].dtype == ms.float32


def doubled_norm(x, gamma):
    return ops.rms_norm(x, gamma)[0] * 2


BYTECODE = pytest.param(
    "bytecode", marks=pytest.mark.skipif(sys.version_info >= (3, 12), reason="MindSpore: not with Python 3.12")
)


@pytest.mark.parametrize("mode", ["ast", BYTECODE, "trace"])
def test_graphs_hold_the_operator(mode):
    """What a graph returns depends on its inputs: nothing was computed while it was made."""
    compiled = ms.jit(doubled_norm, capture_mode=mode)

    def run(seed):
        x, gamma = random(4, 8, seed=seed), random(8, seed=seed + 1)
        return numpy(compiled(x, gamma)), numpy(doubled_norm(x, gamma))

    # In a thread: a trace wants the source line of every frame, and those that started this process may have none.
    with ThreadPoolExecutor(1) as pool:
        for result, expected in pool.map(run, range(3)):
            assert np.array_equal(result, expected)


def test_a_forked_process():
    """As workers of a dataset are."""
    x = random(256, 1024)
    expected = numpy(ops.swiglu(x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.12 on: this process has threads
        child = os.fork()
    if child == 0:
        same = False
        try:
            same = np.array_equal(ops.swiglu(x).asnumpy(), expected)
        finally:
            os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("count", [1, 3])
def test_a_bprop_with_a_wrong_number_of_gradients_names_the_operator(count):
    def make(grad):
        def bprop(gate, up, out, dout):
            return (*grad(dout, gate, up), dout)[:count]

        return bprop

    select = custom.Selector("silu_mul", make)
    x = random(2, 8)
    message = f"silu_mul: its bprop must return a gradient for each of the 2 inputs, got {count}"
    with pytest.raises(ValueError, match=f"^{message}$"):
        ms.grad(lambda gate, up: select(gate, up)(gate, up), (0, 1))(x, x)


def test_without_the_casts_of_cells_mindspore_makes_the_calls(monkeypatch):
    """As in a MindSpore that has not the method by which cells announce them."""
    x, gamma = random(4, 33), random(33, seed=1)
    expected = ops.rms_norm(x, gamma, 1.25e-5)
    monkeypatch.setattr(direct, "_casting", None)
    custom_select = custom.Selector("rms_norm")
    primitive = custom_select(x, gamma, 1.25e-5, "round_then_scale")
    assert primitive._direct is None
    assert_same(primitive(x, gamma), expected)


def test_the_core_imports_no_feature():
    assert "ms_ascend_ops.dispatch" not in Path(custom.__file__).read_text(encoding="utf-8")
