"""The functions: the two paths of a call, errors, casts, threads, memory."""

import ctypes
import shutil
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.clients

from torch.fx.experimental.proxy_tensor import make_fx

import ms_ascend_ops.torch as fused
from ms_ascend_ops.library import get_num_threads
from ms_ascend_ops.torch.registration import _torch, operators


def random(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def test_mindspore_is_not_imported():
    code = "import sys, ms_ascend_ops.torch, torch; ms_ascend_ops.torch.gelu(torch.ones(3)); "
    code += "from ms_ascend_ops import _C; print('mindspore' in sys.modules, _C.product_library()[0].split()[0])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "oneDNN"]  # which lies beside MindSpore


def test_without_pytorch_the_message_says_what_to_install():
    code = "import sys; sys.modules['torch'] = None; import ms_ascend_ops.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'ms_ascend_ops[torch]'" in done.stderr


def passes_by(*tensors):
    """Whether a call goes past PyTorch's dispatcher."""
    return operators()["gelu"].direct(*tensors) is not NotImplemented


class TestPaths:
    def test_a_plain_call_goes_past_the_dispatcher(self):
        for _ in range(2):  # the first prepares the launch
            assert passes_by(random(2, 3))
            with torch.inference_mode():
                assert passes_by(random(2, 3))
            with torch.no_grad():
                assert passes_by(random(2, 3).requires_grad_())
        assert operators()["flash_attention"].direct(*[random(1, 1, 2, 3)] * 3, None) is not NotImplemented

    def test_what_others_have_to_see_does_not(self):
        x = random(2, 3)
        assert passes_by(x)
        assert not passes_by(x.clone().requires_grad_())
        assert not passes_by(x.to("meta"))
        assert not passes_by(x.to_sparse())
        assert not passes_by(torch._neg_view(x))
        assert not passes_by(torch._efficientzerotensor((2, 3)))
        with torch.autocast("cpu"):
            assert not passes_by(random(2, 3).double())
            assert operators()["matmul"].direct(x, x.t().contiguous()) is NotImplemented
        with torch.autograd.forward_ad.dual_level():
            assert not passes_by(x)
        with torch.overrides.BaseTorchFunctionMode():
            assert not passes_by(x)
        with torch._subclasses.FakeTensorMode() as mode:
            assert not passes_by(x)
            assert not passes_by(mode.from_tensor(x))
        seen = []
        torch.func.grad(lambda y: (seen.append(passes_by(x)), y.sum())[1])(x)
        assert seen == [False]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.jit.trace(lambda y: (seen.append(passes_by(x)), y + 1)[1], x, check_trace=False)
        assert seen == [False, False]
        with torch.profiler.profile():
            assert not passes_by(x)

    def test_a_call_of_torch_ops_does_as_well(self):
        """It is what compiled graphs call, with attributes by name. The dispatcher would be slower than a function."""
        x, gamma, packet = random(4, 8), random(8), torch.ops.ms_ascend_ops.rms_norm
        expected = fused.rms_norm(x, gamma, 1e-3, "one_plus_gamma")
        for call in (packet, packet.default):
            assert call._op.__module__ == "ms_ascend_ops.torch.calls"
            found = call(x, gamma, scheme="one_plus_gamma", epsilon=1e-3)
            assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
            with pytest.raises(TypeError, match=r"rms_norm\(\) missing 1 required positional argument: 'gamma'"):
                call(x)

    @pytest.mark.parametrize("before_autograd", [False, True])
    def test_a_graph_of_real_tensors_has_the_operators(self, before_autograd):
        operator = torch.ops.ms_ascend_ops.rms_norm

        def traced(x, gamma):
            calls = fused.rms_norm, operator, operator.default
            return [call(x, gamma)[0] for call in calls]

        graph = make_fx(traced, pre_dispatch=before_autograd)(random(2, 8), random(8)).graph
        assert [node.target for node in graph.nodes].count(operator.default) == 3

    def test_calls_that_are_alike_but_for_one_thing(self):
        """What was prepared is taken for the same sizes, dtypes and values of attributes alone."""
        x, gamma = random(4, 6), torch.ones(6)
        for tensor, epsilon in ((x, 1e-6), (x, 1.0), (x.bfloat16(), 1.0), (x[:2], 1.0), (x.reshape(2, 2, 6), 1)) * 2:
            found = fused.rms_norm(tensor, gamma.to(tensor.dtype), epsilon)[0]
            assert (found.shape, found.dtype) == (tensor.shape, tensor.dtype)
            expected = torch.nn.functional.rms_norm(tensor.float(), (6,), gamma, epsilon)
            torch.testing.assert_close(found.float(), expected, rtol=1e-2, atol=1e-5)

    def test_pytorchs_functions_are_what_is_declared(self):
        """Without them, as before PyTorch 2.14, a call costs more; with them, they are those of PyTorch's headers."""
        has_abi = _torch().has_abi
        assert has_abi == (tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 14))
        compiler, source = shutil.which("g++"), Path(__file__).parents[2] / "kernels/binding/torch_abi_check.cpp"
        if has_abi and compiler is not None:
            headers = Path(torch.__file__).parent / "include"
            options = ["-std=c++20", "-fsyntax-only", f"-I{source.parents[1]}", f"-I{headers}"]
            subprocess.run([compiler, *options, str(source)], check=True)

    def test_both_give_the_same_bits(self):
        x, gamma = random(5, 17), random(17, seed=1)
        for a, b in zip(fused.rms_norm(x, gamma), torch.ops.ms_ascend_ops.rms_norm(x, gamma), strict=True):
            assert torch.equal(a, b)

    def test_a_negated_view(self):
        x = torch.view_as_complex(random(4, 6, 2)).conj().imag
        assert x.is_neg()
        assert torch.equal(fused.gelu(x), fused.gelu(x.clone().resolve_neg()))

    def test_views_that_are_not_contiguous(self):
        x = random(6, 4).t()
        assert torch.equal(fused.softmax(x), fused.softmax(x.contiguous()))
        assert fused.softmax(x).is_contiguous()

    def test_results_are_pytorchs_own(self):
        x = random(3, 4)
        y = fused.silu_mul(x, x)
        assert y.untyped_storage().nbytes() == y.nbytes
        assert y.data_ptr() not in (0, x.data_ptr())
        assert fused.gelu(torch.empty(0, 4)).shape == (0, 4)


class TestErrors:
    def test_tensors_with_and_without_memory(self):
        """PyTorch's dispatcher takes them for tensors without memory: the result would hold anything."""
        for path in (fused.rms_norm, torch.ops.ms_ascend_ops.rms_norm):
            with pytest.raises(RuntimeError, match=r"rms_norm: gamma must be where x is \(cpu\), got one on meta"):
                path(random(2, 4), random(4).to("meta"))
            with pytest.raises(RuntimeError, match=r"rms_norm: gamma must be where x is \(meta\), got one on cpu"):
                path(random(2, 4).to("meta"), random(4))

    def test_shapes_and_attributes(self):
        for path in (fused.rms_norm, torch.ops.ms_ascend_ops.rms_norm):
            with pytest.raises(
                ValueError, match=r"rms_norm: gamma.shape\[0\] must equal x.shape\[-1\] \(4\), got \(3,\)"
            ):
                path(random(2, 4), random(3))
            with pytest.raises(ValueError, match=r"rms_norm: epsilon must be > 0 in float32, got -1"):
                path(random(2, 4), random(4), -1.0)
            with pytest.raises(
                ValueError, match="rms_norm: scheme must be 'round_then_scale' or 'one_plus_gamma', got 'bert'"
            ):
                path(random(2, 4), random(4), 1e-6, "bert")
            with pytest.raises((TypeError, RuntimeError), match="scheme"):
                path(random(2, 4), random(4), 1e-6, [])
            with pytest.raises(ValueError, match=r"gamma\.shape"):
                path(random(2, 4).to("meta"), random(3).to("meta"))

    def test_dtypes(self):
        with pytest.raises(TypeError, match=r"gate\.dtype must be float16, bfloat16 or float32, got float64"):
            fused.silu_mul(random(2).double(), random(2).double())
        with pytest.raises(TypeError, match=r"x\.dtype must be float16, bfloat16 or float32, got bool"):
            fused.softmax(torch.ones(3, dtype=torch.bool))

    def test_other_devices_and_layouts(self):
        with pytest.raises(RuntimeError, match=r"gelu: x is of layout torch\.sparse_coo; the kernels run on strided"):
            fused.gelu(random(2, 3).to_sparse())
        refuse = torch._C._dispatch_has_kernel_for_dispatch_key
        assert all(refuse("ms_ascend_ops::gelu", key) for key in ("CUDA", "XPU", "MPS", "PrivateUse1"))

    def test_there_is_no_gradient(self):
        operator = torch.ops.ms_ascend_ops.paged_attention
        cache, tables = random(1, 4, 1, 8), torch.zeros(1, 1, dtype=torch.int32)
        query = random(1, 1, 1, 8).requires_grad_()
        out = operator(query, cache, cache, tables, torch.full((1,), 2, dtype=torch.int32))
        with pytest.raises(RuntimeError, match="paged_attention: it has no gradient: it is for inference"):
            out.sum().backward()

    @pytest.mark.parametrize("layout", ["BNSD", "BSND"])
    @pytest.mark.parametrize(("causal", "window"), [(False, 0), (True, 0), (True, 3), (False, 2)])
    def test_gradient_of_a_mask(self, layout, causal, window):
        """A bias of the scores may be learned; heads share keys here, and the mask is broadcast over them."""
        query, key, value, dout = random(2, 4, 5, 8), random(2, 2, 7, 8), random(2, 2, 7, 8), random(2, 4, 5, 8)
        bias = random(2, 1, 5, 7).requires_grad_()
        behind = torch.arange(2, 7).unsqueeze(-1) - torch.arange(7)
        seen = (behind >= 0) | (not causal)
        seen &= (behind < window) | (not window)
        keys, values = (x.repeat_interleave(2, 1) for x in (key, value))
        scores = (query @ keys.transpose(-1, -2) * 0.3 + bias).masked_fill(~seen, float("-inf"))
        expected = torch.autograd.grad((scores.softmax(-1) @ values * dout).sum(), bias)
        given = [x if layout == "BNSD" else x.transpose(1, 2) for x in (query, key, value, dout)]
        out, _ = fused.flash_attention(*given[:3], bias, 0.3, causal, window, layout)
        torch.testing.assert_close(torch.autograd.grad((out * given[3]).sum(), bias), expected, rtol=1e-4, atol=1e-5)

    def test_masks_of_bools_and_of_fewer_dims(self):
        """As in `ms_ascend_ops.ops`: True is a key that is seen."""
        x, seen = random(2, 3, 5, 8), torch.ones(5, 5, dtype=torch.bool).tril()
        expected = torch.nn.functional.scaled_dot_product_attention(x, x, x, seen)
        bias = torch.zeros(5, 5).masked_fill(~seen, float("-inf"))
        for mask in (seen, seen[None], bias, bias[None, None]):
            torch.testing.assert_close(fused.flash_attention(x, x, x, mask)[0], expected)

    def test_a_cache_takes_no_gradients(self):
        key, cache = random(3, 2, 4).requires_grad_(), torch.zeros(2, 4, 2, 4)
        slots = torch.arange(3, dtype=torch.int32)
        with pytest.raises(RuntimeError, match=r"kv_cache_update: it has no gradient; call it under torch\.no_grad"):
            fused.kv_cache_update(key, key, cache, cache.clone(), slots)
        with torch.no_grad():
            fused.kv_cache_update(key, key, cache, cache.clone(), slots)
        assert torch.equal(cache.flatten(0, 1)[:3], key)


class TestAutocast:
    """Products go to the dtype of autocast, other operators take the widest dtype of what must be the same."""

    def test_products(self):
        x, weight, bias = random(3, 8), random(8, 5), random(5)
        with torch.autocast("cpu", torch.bfloat16):
            y = fused.matmul(x, weight, bias)
        assert y.dtype == torch.bfloat16
        assert torch.equal(y, fused.matmul(x.bfloat16(), weight.bfloat16(), bias))
        query = random(1, 2, 4, 8)
        with torch.autocast("cpu", torch.float16):
            assert fused.flash_attention(query, query, query)[0].dtype == torch.float16
            for gated in (fused.linear_silu_mul, fused.linear_gelu_mul):
                assert gated(x, random(5, 8), random(5, 8)).dtype == torch.float16
            ends = torch.tensor([1, 4], dtype=torch.int32)
            packed = random(4, 2, 8)
            assert fused.flash_attention_varlen(packed, packed, packed, ends, ends)[0].dtype == torch.float16

    def test_the_widest_dtype(self):
        x, residual, gamma = random(3, 8).bfloat16(), random(3, 8), random(8)
        with torch.autocast("cpu", torch.bfloat16):
            y, _, total = fused.add_rms_norm(x, residual, gamma)
            assert fused.rms_norm(x, gamma)[0].dtype == torch.bfloat16  # a combination that there is
            assert fused.rms_norm(residual, gamma.bfloat16())[0].dtype == torch.float32
        assert y.dtype == total.dtype == torch.float32
        assert torch.equal(total, x.float() + residual)

    def test_gradients_have_the_dtype_of_the_parameter(self):
        x, weight = random(3, 8), random(8, 5).requires_grad_()
        with torch.autocast("cpu", torch.bfloat16):
            fused.matmul(x, weight).sum().backward()
        assert weight.grad.dtype == torch.float32

    def test_compiled(self):
        x, weight = random(3, 8), random(8, 5)

        def call(x, weight):
            with torch.autocast("cpu", torch.bfloat16):
                return fused.matmul(x, weight)

        compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(x, weight), call(x, weight))


class TestCaches:
    def test_update_writes_in_place(self):
        key, cache = random(3, 2, 4), torch.zeros(2, 4, 2, 4)
        slots = torch.tensor([5, -1, 0], dtype=torch.int32)
        version = cache._version
        result, _ = fused.kv_cache_update(key, key, cache, torch.zeros_like(cache), slots)
        assert result is cache
        assert torch.equal(cache.flatten(0, 1)[[5, 0]], key[[0, 2]])
        assert cache.count_nonzero() == 16
        torch.ops.ms_ascend_ops.kv_cache_update(key, key, cache, torch.zeros_like(cache), slots)
        assert cache._version == version + 2

    def test_autograd_knows_of_a_change(self):
        key, slots = random(3, 2, 4), torch.tensor([5, -1, 0], dtype=torch.int32)
        for change in (fused.kv_cache_update, torch.ops.ms_ascend_ops.kv_cache_update):
            caches = [torch.zeros(2, 4, 2, 4) for _ in range(2)]
            products = [(torch.ones(2, 4, 2, 4, requires_grad=True) * cache).sum() for cache in caches]
            with torch.no_grad():
                change(key, key, *caches, slots)
            for product in products:
                with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                    product.backward()

    def test_append(self):
        key, caches = random(2, 3, 2, 4), [torch.zeros(2, 6, 2, 4) for _ in range(2)]
        fused.kv_cache_append(key, key, *caches, torch.tensor([2], dtype=torch.int32))
        assert torch.equal(caches[0][:, 2:5], key)
        assert torch.equal(caches[1][:, 2:5], key)
        with pytest.raises(RuntimeError, match="kv_cache_update: the kernel stopped itself"):
            fused.kv_cache_append(key, key, *caches, torch.tensor([4], dtype=torch.int32))
        with pytest.raises(ValueError, match=r"key_cache.shape\[0\] must equal key.shape\[0\] \(2\)"):
            fused.kv_cache_append(key, key, caches[0][:1], caches[1][:1], torch.tensor([0]))

    def test_a_view_that_is_not_contiguous_is_refused(self):
        key, cache = random(3, 2, 4), torch.zeros(2, 4, 2, 8)[..., ::2]
        with pytest.raises(ValueError, match="key_cache is written in place and must be contiguous, got strides"):
            fused.kv_cache_update(key, key, cache, cache, torch.arange(3, dtype=torch.int32))

    def test_compiled_the_cache_is_changed(self):
        key, slots = random(3, 2, 4), torch.arange(3, dtype=torch.int32)

        def call(key, cache, other):
            fused.kv_cache_update(key, key, cache, other, slots)
            return cache * 2

        cache, other = torch.zeros(2, 4, 2, 4), torch.zeros(2, 4, 2, 4)
        doubled = torch.compile(call, fullgraph=True, backend="aot_eager")(key, cache, other)
        assert torch.equal(cache.flatten(0, 1)[:3], key)
        assert torch.equal(doubled, cache * 2)
        assert torch.equal(other, cache)


def test_a_kernel_has_pytorchs_threads(monkeypatch):
    """The pool of the process is not changed; results do not depend on it."""
    x, before = random(700, 512), get_num_threads()
    asked = []
    threads = torch.get_num_threads()
    try:
        results = []
        for count in (1, 2):
            torch.set_num_threads(count)
            asked.append(torch.get_num_threads())
            results.append(fused.gelu(x))
            assert get_num_threads() == before
    finally:
        torch.set_num_threads(threads)
    assert asked == [1, 2]
    assert torch.equal(*results)


def test_kernels_run_on_the_threads_of_pytorch():
    """Threads of the library's own would share the CPUs with PyTorch's, which spin behind each operator."""
    code = """
import os, torch
from ms_ascend_ops.torch import softmax
torch.set_num_threads(3)
x = torch.ones(3000, 1000)
torch.softmax(x, -1), softmax(x[:1])  # which start PyTorch's threads, and the one that compiles loops
before = len(os.listdir("/proc/self/task"))
softmax(x, -1), softmax(x.requires_grad_(), -1)
print(len(os.listdir("/proc/self/task")) - before)
"""
    if not hasattr(ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so")), "torch_parallel_for"):
        pytest.skip("PyTorch before 2.10 has no function for that")
    started = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(started) == 0, started


def test_others_run_while_a_kernel_does():
    """The interpreter's lock is released: another thread counts on."""
    x = random(64, 1 << 16)
    stop, ticks = threading.Event(), []

    def count():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0)

    def ticks_of_a_call():
        begin = time.perf_counter()
        fused.softmax(x)
        end = time.perf_counter()
        return sum(begin < tick < end for tick in ticks)

    counter = threading.Thread(target=count)
    counter.start()
    # A call that keeps the lock has a few ticks at most, at its ends. On a busy machine not each has them.
    try:
        assert any(ticks_of_a_call() >= 20 for _ in range(1000))
    finally:
        stop.set()
        counter.join()


def test_inductor_compiles_around_an_operator():
    """The default backend, which needs a C++ compiler."""
    torch._dynamo.reset()
    x, gamma = random(5, 16), random(16)

    def call(x, gamma):
        return torch.relu(fused.rms_norm(x + 1, gamma)[0]) * 2

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of inductor's own
        found = torch.compile(call, fullgraph=True)(x, gamma)
    assert torch.equal(found, call(x, gamma))


def test_layer_norm_over_several_axes():
    x = random(3, 4, 65)
    torch.testing.assert_close(fused.layer_norm(x, axes=2)[0], torch.nn.functional.layer_norm(x, (4, 65)))
    for axes in (0, 4, True, 1.0):
        with pytest.raises(ValueError, match=f"axes must be a number of axes that x has, from 1 to 3, not {axes}"):
            fused.layer_norm(x, axes=axes)
