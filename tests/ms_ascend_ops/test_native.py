"""The module ms_ascend_ops._C."""

import weakref
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

from ms_ascend_ops import _C
from tests.acceptance import assert_accurate
from tests.reference import rms_norm, silu_mul


def arrays(*shapes, dtype=np.float32):
    return [np.ones(shape, dtype) for shape in shapes]


@pytest.fixture(params=["launch", "prepare"])
def launch(request):
    """Both ways to a launch check the same and do the same."""
    if request.param == "launch":
        return _C.launch
    return lambda *arguments: _C.prepare(*arguments)()


def test_launch_writes_into_the_callers_memory(launch):
    gate, up = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    memory = np.full((5, 4), np.nan, np.float32)
    launch("silu_mul", [gate, up], [memory[1:4]])
    assert np.isnan(memory[[0, 4]]).all()
    assert_accurate(memory[1:4], silu_mul.forward(gate.astype(float), up.astype(float)), "float32")


def test_bfloat16_of_ml_dtypes_and_as_bits_are_the_same(launch):
    x = np.random.default_rng(0).normal(size=(3, 8)).astype(ml_dtypes.bfloat16)
    gamma, rstd = np.ones(8, np.float32), np.empty((3, 1), np.float32)
    y, bits = np.empty_like(x), np.zeros(x.shape, np.uint16)
    launch("rms_norm", [x, gamma], [y, rstd], {"epsilon": 1e-3})
    launch("rms_norm", [x.view(np.uint16), gamma], [bits, rstd], {"epsilon": 1e-3}, ["bfloat16", None, "bfloat16"])
    assert np.array_equal(y.view(np.uint16), bits)
    assert_accurate(y.astype(float), rms_norm.forward(x.astype(float), gamma.astype(float), 1e-3)[0], "bfloat16")


@pytest.mark.parametrize(
    ("inputs", "outputs", "error", "message"),
    [
        ([[1.0], [1.0]], arrays(1), TypeError, r"inputs\[0\] must be a NumPy array, got list"),
        (arrays(2), arrays(2), TypeError, "expects 3 tensors, got 2"),
        (arrays((4, 2), (4, 2)), [np.ones((4, 4), np.float32)[:, ::2]], ValueError, r"outputs\[0\] must be C-"),
        (arrays(2, 3), arrays(2), ValueError, r"up.shape must equal gate.shape \(2,\), got \(3,\)"),
        (arrays(2, 2), arrays(3), ValueError, r"y.shape must be \(2,\), got \(3,\)"),
        (arrays(2, 2), arrays(2, dtype=np.float16), TypeError, "y.dtype must be float32, got float16"),
        (arrays(2, 2, dtype=np.int8), arrays(2), TypeError, "gate.dtype must be float16, .* float32, got int8"),
        (arrays((1,) * 9, (1,) * 9), arrays((1,) * 9), ValueError, "gate must have at most 8 dims"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("function", [_C.launch, _C.prepare])
def test_bad_arrays(function, inputs, outputs, error, message):
    with pytest.raises(error, match=f"^silu_mul: {message}"):
        function("silu_mul", inputs, outputs)


@pytest.mark.parametrize("function", [_C.launch, _C.prepare])
def test_read_only_and_overlapping_outputs(function):
    gate, up = arrays(4, 4)
    fixed = np.empty(4, np.float32)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match=r"^silu_mul: outputs\[0\] must be writeable"):
        function("silu_mul", [gate, up], [fixed])
    with pytest.raises(ValueError, match=r"^silu_mul: outputs\[0\] must not overlap another array of the call"):
        function("silu_mul", [gate, up], [gate])


def test_a_prepared_launch_reads_what_the_arrays_hold_by_then():
    gate, up = arrays((3, 40), (3, 40))
    y = np.full_like(gate, np.nan)
    run = _C.prepare("silu_mul", [gate, up], [y])
    assert np.isnan(y).all()  # nothing has run yet
    for factor in (1, 2, 3, 4):  # from the third time on it is a replay
        gate[:] = factor
        y[:] = np.nan
        assert run() is None
        assert_accurate(y, silu_mul.forward(gate.astype(float), up.astype(float)), "float32")


def test_a_prepared_launch_keeps_its_arrays():
    gate, up, y = arrays(1000, 1000, 1000)
    alive = [weakref.ref(array) for array in (gate, up, y)]
    run = _C.prepare("silu_mul", [gate, up], [y])
    with pytest.raises(ValueError, match="references"):
        y.resize(100_000)
    view = y[:]
    del gate, up, y
    run()
    assert_accurate(view, silu_mul.forward(np.ones(1000), np.ones(1000)), "float32")
    del run, view
    assert not any(array() is not None for array in alive)


def test_a_prepared_launch_goes_by_the_platform_of_the_call():
    """Its tiling is not prepared: with less of the Unified Buffer a long row is summed in other pieces."""
    rng = np.random.default_rng(0)
    x, gamma = rng.normal(size=(9, 60000)).astype(np.float32), rng.normal(size=60000).astype(np.float32)
    prepared, launched = ([np.empty(shape, np.float32) for shape in (x.shape, (9, 1), (9, 1))] for _ in range(2))
    run = _C.prepare("layer_norm", [x, gamma, gamma], prepared)
    usual = _C.get_thread_num(), _C.get_ub_bytes()
    results = []
    try:
        for threads, ub in ((1, 0), (3, 0), (2, 65536), (1, 0)):
            _C.set_thread_num(threads)
            _C.set_ub_bytes(ub)
            for array in prepared + launched:
                array[:] = np.nan
            run()
            _C.launch("layer_norm", [x, gamma, gamma], launched)
            assert all(np.array_equal(a, b) for a, b in zip(prepared, launched, strict=True))
            results.append(prepared[0].copy())
    finally:
        _C.set_thread_num(usual[0])
        _C.set_ub_bytes(usual[1])
    assert np.array_equal(results[0], results[3])
    assert not np.array_equal(results[0], results[2])


def test_a_kernel_that_stops_itself(launch):
    key, cache = np.ones((1, 1, 8), np.float32), np.zeros((2, 3, 1, 8), np.float32)
    inputs = [key, key, cache, cache.copy(), np.array([6], np.int32)]
    with pytest.raises(RuntimeError, match=r"^kv_cache_update: the kernel stopped itself"):
        launch("kv_cache_update", inputs, [np.empty(1, np.int32)])
    assert not cache.any()


def test_a_prepared_launch_goes_on_after_its_kernel_stopped_itself():
    key, cache, slot = np.ones((1, 1, 8), np.float32), np.zeros((2, 3, 1, 8), np.float32), np.array([6], np.int32)
    run = _C.prepare("kv_cache_update", [key, key, cache, cache.copy(), slot], [np.empty(1, np.int32)])
    with pytest.raises(RuntimeError):
        run()
    slot[:] = 4
    run()
    assert cache.sum() == 8
    assert (cache[1, 1] == 1).all()


def test_a_prepared_launch_takes_no_arguments():
    gate, up, y = arrays(4, 4, 4)
    with pytest.raises(TypeError, match="takes no arguments"):
        _C.prepare("silu_mul", [gate, up], [y])(y)


def test_a_prepared_launch_of_nothing():
    gate, up, y = arrays((0, 4), (0, 4), (0, 4))
    _C.prepare("silu_mul", [gate, up], [y])()


def test_a_prepared_launch_in_several_threads():
    """They write the same to the same place."""
    gate, up = np.random.default_rng(0).normal(size=(2, 300, 70)).astype(np.float32)
    y = np.full_like(gate, np.nan)
    run = _C.prepare("silu_mul", [gate, up], [y])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: run(), range(40)))
    assert_accurate(y, silu_mul.forward(gate.astype(float), up.astype(float)), "float32")


@pytest.mark.parametrize(
    ("attributes", "error", "message"),
    [
        ({"epsilon": -1.0}, ValueError, "rms_norm: epsilon must be > 0"),
        ({"epsilon": float("nan")}, ValueError, "rms_norm: epsilon must be finite in float32"),
        ({"epsilon": "a"}, TypeError, "rms_norm: epsilon must be a float, got a string"),
        ({"epsilon": [1]}, TypeError, "rms_norm: epsilon must be an int, float, bool or str, got list"),
        ({"scheme": "t5"}, ValueError, "rms_norm: scheme must be 'round_then_scale' or 'one_plus_gamma', got 't5'"),
        ({"eps": 1.0}, TypeError, "rms_norm: there is no attribute eps"),
    ],
)
def test_bad_attributes(attributes, error, message):
    with pytest.raises(error, match=f"^{message}"):
        _C.tiling("rms_norm", [(2, 8), (8,)], ["float32", "float32"], attributes)


def test_unknown_operator():
    with pytest.raises(ValueError, match=r"^the library has no operator 'sotfmax'"):
        _C.tiling("sotfmax", [], [])


def test_tiling():
    fields = _C.tiling("rms_norm", [(64, 8), (8,)], ["float32", "float32"], {"epsilon": 0.5}, core_num=4)
    assert 1 <= fields["block_dim"] <= 4
    assert fields["workspace_bytes"] >= 0
    assert fields["epsilon"] == 0.5
    with pytest.raises(ValueError, match=r"^rms_norm: every output is empty, nothing is launched"):
        _C.tiling("rms_norm", [(0, 8), (8,)], ["float32", "float32"])
    with pytest.raises(ValueError, match=r"^rms_norm: every shape must be known"):
        _C.tiling("rms_norm", [(-1, 8), (8,)], ["float32", "float32"])


def test_tiles_of_rows_fit_the_first_cache_here():
    """On a chip they are as large as copies want, and so they are here where no row fits."""

    def tile_rows(cols, **platform):
        return _C.tiling("softmax", [(4096, cols)], ["bfloat16"], **platform)["tileRows"]

    assert (tile_rows(4096), tile_rows(4096, core_num=48)) == (1, 4)
    assert tile_rows(256) < tile_rows(256, core_num=48)
    assert tile_rows(8192) == tile_rows(8192, core_num=48) == 2
    before = _C.get_ub_bytes()
    try:
        _C.set_ub_bytes(188160)  # who asks for a chip's memory gets its tiles
        assert tile_rows(4096) == 3
    finally:
        _C.set_ub_bytes(before)
    assert tile_rows(4096) == 1


def test_thread_num():
    before = _C.get_thread_num()
    try:
        _C.set_thread_num(3)
        assert _C.get_thread_num() == 3
    finally:
        _C.set_thread_num(before)
    with pytest.raises(ValueError, match=r"^set_thread_num: threads must be >= 0, got -1"):
        _C.set_thread_num(-1)


def test_ub_bytes():
    """Too little would leave a tiling less than nothing for its tiles."""
    before = _C.get_ub_bytes()
    try:
        _C.set_ub_bytes(65536)
        assert _C.get_ub_bytes() == 65536
        for wrong in (-1, 65535):
            with pytest.raises(ValueError, match=rf"^set_ub_bytes: bytes must be 0 or at least 65536, got {wrong}"):
                _C.set_ub_bytes(wrong)
        assert _C.get_ub_bytes() == 65536
    finally:
        _C.set_ub_bytes(before)


def test_results_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(0)
    dy, x = rng.normal(size=(2, 1000, 33)).astype(np.float32)
    drstd, rstd = rng.normal(size=(2, 1000, 1)).astype(np.float32)
    gamma = rng.normal(size=33).astype(np.float32)
    results = []
    before = _C.get_thread_num()
    try:
        for threads in (1, 2, 3):
            _C.set_thread_num(threads)
            outputs = [np.full_like(dy, np.nan), np.full_like(gamma, np.nan)]
            _C.launch("rms_norm_grad", [dy, drstd, x, rstd, gamma], outputs)
            results.append(outputs)
    finally:
        _C.set_thread_num(before)
    for other in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_calls_from_several_threads():
    def run(seed):
        gate, up = np.random.default_rng(seed).normal(size=(2, 300, 70)).astype(np.float32)
        y = np.full_like(gate, np.nan)
        _C.launch("silu_mul", [gate, up], [y])
        assert_accurate(y, silu_mul.forward(gate.astype(float), up.astype(float)), "float32")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(40)))
