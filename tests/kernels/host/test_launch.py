"""Cores on a pool of threads: barriers, launches from several threads, after a fork, on any number of threads."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.kernels.host.memory import bits
from tests.kernels.host.module import ROOT, build, host_calls, program

ONE = bits(1.0, "float32")


def launch(cores, calls_of_core, gm, execution="deferred"):
    ub = np.zeros((cores, 8192), np.uint8)
    programs = [program(calls_of_core(core)) for core in range(cores)]
    return host_calls().run(programs, gm.view(np.uint8), ub, execution)


# 64: more than wake before the calling thread has run its own block, and then theirs.
@pytest.mark.parametrize("cores", [*range(1, 9), 64])
def test_every_core_runs_once(cores):
    gm = np.zeros(cores * 8, np.float32)

    def calls(core):
        fill = ("fill", "float32", 0, bits(core, "float32"), 8)
        return [("block_idx",), fill, ("copy_out", "float32", core * 32, 0, 8)]

    results = launch(cores, calls, gm)
    assert results == [[core] for core in range(cores)]
    assert np.array_equal(gm, np.repeat(np.arange(cores), 8))


def test_vector_cores_and_groups_of_them():
    """Two share a cube core where a kernel has products: a block is such a group. An odd one is by itself."""
    assert host_calls().cores(4, False) == [[core, 4, 0, 1] for core in range(4)]
    assert host_calls().cores(4, True) == [[core, 2, core % 2, 2] for core in range(4)]
    assert host_calls().cores(3, True) == [[core, 3, 0, 1] for core in range(3)]


@pytest.mark.parametrize("cores", [1, 2, 5])
def test_trap(cores):
    """One core stops; others that wait for it stop too, the launch fails, and the next one runs."""
    gm = np.zeros(cores * 8, np.float32)
    store = [("fill", "float32", 0, ONE, 8), ("sync",), ("copy_out", "float32", 0, 0, 8)]
    with pytest.raises(RuntimeError, match="Trap"):
        launch(cores, lambda core: [("trap",)] if core == cores - 1 else store, gm)
    assert not gm.any()
    launch(cores, lambda core: [("fill", "float32", 0, ONE, 8), ("copy_out", "float32", core * 32, 0, 8)], gm)
    assert (gm == 1).all()


@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("too large", r"TPipe::InitBuffer: \d+ bytes of Unified Buffer requested, a core has \d+"),
        ("no buffers", "TQue::AllocTensor: the queue has no buffers: TPipe::InitBuffer was not called"),
        ("no tensor", "an operand is not in the Unified Buffer: its LocalTensor has no buffer, or ends before it"),
        ("nothing", "TQue::DeQue: there is nothing in the queue: EnQue was not called"),
    ],
)
def test_a_kernel_that_cannot_go_on(what, message, cores):
    """It is an error with a message, not the end of the process, whose last words a captured stderr would hide."""
    gm = np.zeros(cores * 8, np.float32)
    with pytest.raises(RuntimeError, match=rf"^{message} \(`bash build.sh check` says where in the kernel\)$"):
        launch(cores, lambda core: [("wrong", what)] if core == cores - 1 else [("sync",)], gm)
    launch(cores, lambda core: [("fill", "float32", 0, ONE, 8), ("copy_out", "float32", core * 32, 0, 8)], gm)
    assert (gm == 1).all()


@pytest.mark.parametrize("execution", ["deferred", "replayed"])
@pytest.mark.parametrize("cores", [1, 2, 5])
def test_sync_all(cores, execution):
    """Each round a core adds 1 to what its neighbour wrote in the round before: a ring that shows a missing barrier."""
    rounds, length = 12, 64

    def ring(core):
        calls = []
        for i in range(rounds):
            source = (i % 2) * cores + (core + 1) % cores
            target = ((i + 1) % 2) * cores + core
            calls += [
                ("copy_in", "float32", 0, source * length * 4, length),
                ("scalar", "Adds", "float32", 1024, 0, ONE, length),
                ("copy_out", "float32", target * length * 4, 1024, length),
                ("sync",),
            ]
        return calls

    start = np.arange(cores, dtype=np.float32)
    gm = np.concatenate([np.repeat(start, length), np.zeros(cores * length, np.float32)])
    launch(cores, ring, gm, execution)
    expected = np.roll(start, -rounds % cores if cores > 1 else 0) + rounds
    assert np.array_equal(gm[: cores * length].reshape(cores, length)[:, 0], expected)


def test_a_view_is_read_before_the_barrier():
    """What a core copied in before a barrier keeps its value when another core overwrites the source after it."""

    def calls(core):
        take = [("copy_in", "float32", 0, 0, 64), ("sync",), ("sync",), ("copy_out", "float32", 256 * core, 0, 64)]
        change = [("fill", "float32", 0, ONE, 64), ("sync",), ("copy_out", "float32", 0, 0, 64), ("sync",)]
        return change if core == 0 else take

    gm = np.zeros(64 * 3, np.float32)
    launch(3, calls, gm)
    assert np.array_equal(gm.reshape(3, 64), np.repeat([[1.0], [0.0], [0.0]], 64, axis=1))


def test_launches_from_several_threads():
    arrays = [np.zeros(3 * 64, np.float32) for _ in range(6)]

    def work(gm, value):
        for _ in range(50):
            launch(
                3,
                lambda core: [
                    ("copy_in", "float32", 0, core * 256, 64),
                    ("sync",),
                    ("scalar", "Adds", "float32", 1024, 0, bits(value, "float32"), 64),
                    ("copy_out", "float32", core * 256, 1024, 64),
                ],
                gm,
            )

    threads = [threading.Thread(target=work, args=(gm, i + 1)) for i, gm in enumerate(arrays)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, gm in enumerate(arrays):
        assert (gm == 50 * (i + 1)).all()


def test_launch_after_fork():
    """A child has none of its parent's threads; a grandchild none of the child's."""
    script = """
import os
import numpy as np
from tests.kernels.host.test_launch import launch

def ok():
    gm = np.zeros(4 * 8, np.float32)
    launch(4, lambda core: [("sync",), ("fill", "float32", 0, 0x3F800000, 8), ("copy_out", "float32", core * 32, 0, 8)],
           gm)
    return (gm == 1).all()

assert ok()
if (child := os.fork()) == 0:
    good = ok()
    if (grandchild := os.fork()) == 0:
        os._exit(0 if ok() else 1)
    os._exit(0 if good and os.waitpid(grandchild, 0)[1] == 0 else 1)
assert os.waitpid(child, 0)[1] == 0
assert ok()
"""
    path = os.environ.get("MS_ASCEND_OPS_HOST_CALLS") or str(build())
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, timeout=60, check=True,
                   env={**os.environ, "MS_ASCEND_OPS_HOST_CALLS": path})  # fmt: skip


def test_thread_num():
    calls = host_calls()
    default = calls.thread_num()
    try:
        for count in range(1, 9):
            calls.set_thread_num(count)
            assert calls.thread_num() == calls.core_num() == count
        calls.set_thread_num(10**6)
        assert calls.thread_num() == 256
    finally:
        calls.set_thread_num(0)
    assert calls.thread_num() == default


@pytest.mark.parametrize("length", [8, 1000])
def test_result_is_independent_of_the_number_of_cores(length):
    """Rows dealt out to 1 to 8 cores: exp(x) / (1 + exp(x)) with the same bits."""
    rows = 13
    x = np.random.default_rng(0).standard_normal((rows, length)).astype(np.float32)
    outputs = []
    for cores in range(1, 9):
        gm = np.concatenate([x.ravel(), np.full(x.size, np.nan, np.float32)])

        def share(core, cores=cores):
            calls = []
            for row in range(core, rows, cores):
                shape = (1, 4 * length, 0, 0)
                calls += [
                    ("copy_in_pad", "float32", 0, 4 * row * length, shape, False, (0, 0, 0)),
                    ("unary", "Exp", "float32", 4096, 0, length),
                    ("scalar", "Adds", "float32", 0, 4096, ONE, length),
                    ("binary", "Div", "float32", 0, 4096, 0, length),
                    ("copy_out_pad", "float32", 4 * (rows + row) * length, 0, shape),
                ]
            return calls

        launch(cores, share, gm)
        outputs.append(gm[x.size :])
    assert np.allclose(outputs[0], 1 / (1 + np.exp(-x.ravel())), rtol=1e-6)
    for output in outputs[1:]:
        assert np.array_equal(output, outputs[0])


@pytest.mark.parametrize("cores", [1, 3])
def test_subnormal_numbers_of_a_thread_that_flushes_them(cores):
    """MindSpore's own threads do."""
    if not hasattr(host_calls(), "flush_subnormals"):
        pytest.skip("for x86-64")
    gm = np.full(cores * 64, 1e-38, np.float32)
    expected = gm / 4 + gm / 2

    def calls(core):
        quarter, half = (bits(value, "float32") for value in (0.25, 0.5))
        return [
            ("copy_in", "float32", 0, core * 256, 64),
            ("scalar", "Muls", "float32", 1024, 0, quarter, 64),
            ("scalar", "Muls", "float32", 0, 0, half, 64),
            ("binary", "Add", "float32", 0, 1024, 0, 64),
            ("copy_out", "float32", core * 256, 0, 64),
        ]

    host_calls().flush_subnormals(True)
    try:
        launch(cores, calls, gm)
        flushes = np.float32(1e-38) * np.float32(0.25) == 0
    finally:
        host_calls().flush_subnormals(False)
    assert flushes  # and still does behind the launch
    np.testing.assert_array_equal(gm, expected)


def _streams(*sizes):
    """Whether launches that move so many bytes stream, as the environment is now."""
    host_calls().set_non_temporal_bytes(0)
    found = [host_calls().bypasses_caches(size) for size in sizes]
    host_calls().set_non_temporal_bytes(0)
    return found


def test_from_how_many_bytes_on_launches_stream(monkeypatch):
    """Half as much again as the last cache holds, as Linux says, but 128 MiB at most."""
    size = Path("/sys/devices/system/cpu/cpu0/cache/index3/size")
    if not size.exists():
        pytest.skip("Linux does not say here how large the last cache is")
    limit = min((int(size.read_text().strip().removesuffix("K")) << 10) // 2 * 3, 128 << 20)
    monkeypatch.delenv("MS_ASCEND_OPS_STREAM_BYTES", raising=False)
    assert _streams(limit - 1, limit) == [False, True]


def test_a_variable_says_from_how_many_bytes_on(monkeypatch):
    monkeypatch.setenv("MS_ASCEND_OPS_STREAM_BYTES", "4097")
    assert _streams(4096, 4097) == [False, True]
