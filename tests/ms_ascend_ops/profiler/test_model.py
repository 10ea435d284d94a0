"""The timing model on traces whose answer is known."""

from operator import methodcaller as call

import numpy as np
import pytest

from ms_ascend_ops.profiler.chip import load_chip
from ms_ascend_ops.profiler.prediction import predict
from ms_ascend_ops.profiler.program import ProgramError
from ms_ascend_ops.profiler.trace import Pipe, Queue, Sync
from tests.ms_ascend_ops.profiler.kernels import Launch, streaming

MIB = 2**20
CHIP = load_chip("ascend910b2")
# Round numbers, so that answers can be worked out by hand: 1 cycle is 1 ns, HBM gives 100 bytes a cycle in all, MTE2
# takes 10 and MTE3 20 of them at most.
SIMPLE = CHIP.changed(
    clock_ghz=1.0,
    launch_us=0.0,
    sync_all_us=1.0,
    call_cycles=0.0,
    setting_cycles=0.0,
    issue_cycles=4.0,
    drain_cycles=6.0,
    flag_cycles=5.0,
    hbm_gb_per_s=100.0,
    hbm_efficiency=1.0,
    mte2=CHIP.mte2.__class__(50.0, 10.0, 40.0, 0.0, 0.5),
    mte3=CHIP.mte3.__class__(30.0, 20.0, 40.0, 0.0, 0.5, 0.5),
)


def cycles(trace, chip=SIMPLE, **options):
    prediction, _ = predict(trace, chip, **options)
    return prediction.kernel_us * chip.clock_ghz * 1e3


FIRST = call("vector", "Add", 640, write=(0, 2560))
SECOND = call("vector", "Add", 640, write=(2560, 5120), reads=[(5120, 7680)])
LOAD, COMPUTE = call("copy", 0, 0, 5120), call("vector", "Add", 1280)
# What a core does, and how long it takes; issue 4, drain 6.
SEQUENCES = {
    "an instruction": ([call("vector", "Add", 6400)], 4 + 100 + 6),
    "half the rate of Add": ([call("vector", "Exp", 6400)], 4 + 200 + 6),
    "of the result": ([FIRST, call("vector", "Add", 640, write=(2560, 5120), reads=[(0, 2560)])], 2 * (4 + 10 + 6)),
    "of something else": ([FIRST, SECOND], 2 * (4 + 10) + 6),
    "a pipe barrier": ([FIRST, call("barrier", Pipe.V), SECOND], 2 * (4 + 10 + 6)),
    # Every step waits for the one before, and for the flag between the pipes.
    "queues": (
        [
            LOAD,
            call("queue", Queue.ENQUE, 1, Pipe.MTE2, Pipe.V),
            call("queue", Queue.DEQUE, 1, Pipe.MTE2, Pipe.V),
            COMPUTE,
            call("queue", Queue.ENQUE, 2, Pipe.V, Pipe.MTE3),
            call("queue", Queue.DEQUE, 2, Pipe.V, Pipe.MTE3),
            call("copy", 1, 0, 5120, write=1),
        ],
        (50 + 512) + 5 + (4 + 20 + 6) + 5 + (30 + 256),
    ),
    "flags": (
        [
            LOAD,
            call("flag", Sync.SET_FLAG, Pipe.MTE2, Pipe.V),
            call("flag", Sync.WAIT_FLAG, Pipe.MTE2, Pipe.V),
            COMPUTE,
        ],
        (50 + 512) + 5 + (4 + 20 + 6),
    ),
    "neither": ([LOAD, COMPUTE], 50 + 512),  # the pipes run at the same time
    "a scalar read": (
        [FIRST, call("get_value"), FIRST],
        2 * (4 + 10 + 6) + SIMPLE.flag_cycles + SIMPLE.local_access_cycles,
    ),
    "read again, from L2": ([call("copy", 0, 0, 10240)] * 2, (50 + 1024) + (50 + 256)),
    "unaligned": ([call("copy", 0, 32, 10240)], 50 + 10240 / 5),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_what_a_core_takes(name):
    calls, expected = SEQUENCES[name]
    launch = Launch(20480, 20480)
    core = launch.core()
    for one in calls:
        one(core)
    assert cycles(launch.trace()) == pytest.approx(expected)


def test_waiting_for_a_flag_that_nobody_sets_is_an_error():
    launch = Launch()
    launch.core().flag(Sync.WAIT_FLAG, Pipe.MTE2, Pipe.V)
    with pytest.raises(ProgramError, match=r"synthetic\.h:1: WaitFlag of a flag that core 0 never sets"):
        predict(launch.trace(), SIMPLE)


def test_a_missing_sync_all_is_an_error():
    launch = Launch()
    launch.core().sync_all()
    launch.core().vector("Add", 64)
    with pytest.raises(ProgramError, match="core 0 never gets past"):
        predict(launch.trace(), SIMPLE)


def test_sync_all_waits_for_the_slowest_core():
    launch = Launch()
    for elements in (640, 6400):
        core = launch.core()
        core.vector("Add", elements)
        core.sync_all()
        core.vector("Add", 640)
    assert cycles(launch.trace()) == pytest.approx((4 + 100 + 6) + 1000 + (4 + 10 + 6))


def test_cores_share_hbm_evenly():
    """20 cores want 10 bytes a cycle each, and get 5."""
    launch = Launch(20 * 10240)
    for index in range(20):
        launch.core().copy(0, index * 10240, 10240)
    assert cycles(launch.trace()) == pytest.approx(50 + 10240 / 5)


def test_what_a_slow_transfer_leaves_others_take():
    """9 loads of 10 bytes a cycle leave 10 of 100 to a store that could do 20."""
    launch = Launch(9 * 51200, 51200)
    for index in range(9):
        launch.core().copy(0, index * 51200, 51200)
    launch.core().copy(1, 0, 10240, write=1)
    _, runs = predict(launch.trace(), SIMPLE)
    store = next(run for run in runs if run.program.pipe[-1] == Pipe.MTE3)
    # Alone for 20 cycles of setup at 20 bytes a cycle, then one of ten.
    assert store.cycles == pytest.approx(50 + (10240 - 20 * 20) / 10)


def test_a_tensor_that_all_cores_read_is_fetched_once():
    launch = Launch(10240)
    for _ in range(20):
        launch.core().copy(0, 0, 10240)
    prediction, _ = predict(launch.trace(), SIMPLE)
    assert prediction.hbm_bytes == pytest.approx(10240)


def test_a_second_read_after_more_than_l2_holds_does_not():
    launch = Launch(10240, 4 * MIB)
    core = launch.core()
    core.copy(0, 0, 10240)
    core.copy(1, 0, 4 * MIB)
    core.copy(0, 0, 10240)
    prediction, _ = predict(launch.trace(), SIMPLE.changed(l2_bytes=2 * MIB))
    assert prediction.hbm_bytes == pytest.approx(4 * MIB + 2 * 10240)


def test_warm_l2_holds_what_fits():
    assert predict(streaming(MIB, 4, 16384), SIMPLE, warm=True)[0].hbm_bytes == 0
    half, _ = predict(streaming(2 * MIB, 4, 16384), SIMPLE.changed(l2_bytes=2 * MIB), warm=True)
    assert half.hbm_bytes == pytest.approx(2 * MIB)


# Sigmoid on a 910B2 in launches that repeat (cann-bench's baselines): bytes in and out, microseconds.
REPEATED = [(4.0e6, 5.12), (16.7e6, 9.78), (33.6e6, 18.14), (84.4e6, 36.14), (268.4e6, 142.2)]


@pytest.mark.parametrize(("size", "measured_us"), REPEATED)
def test_repeated_launches_take_what_was_measured(size, measured_us):
    """Within a fifth where the launch, which is taken longer here, does not decide."""
    share = int(size / 2 / 48 / 512) * 512
    prediction, _ = predict(streaming(48 * share, 48, 32768, 1), CHIP, warm=True)
    assert measured_us / 1.2 < prediction.us < measured_us * 1.2 + 1


def test_the_range_is_that_of_published_times():
    prediction, _ = predict(streaming(48 * 65536, 48, 16384), CHIP)
    assert prediction.low_us == pytest.approx(CHIP.low_ratio * prediction.us)
    assert prediction.high_us == pytest.approx(CHIP.high_ratio * prediction.us)
    assert prediction.low_us < prediction.us < prediction.high_us


def test_pieces_that_lie_apart_move_whole_sectors():
    launch = Launch(100 * 1024)
    launch.core().copy(0, 0, 32, pieces=100, stride=1024)
    prediction, _ = predict(launch.trace(), SIMPLE)
    assert prediction.hbm_bytes == pytest.approx(100 * 128)


# ---- properties of the model, on the real chip's numbers


def test_cores_scale_until_hbm_binds():
    times = {n: cycles(streaming(48 * 16384 * 16, n, 16384, passes=8), CHIP) for n in (1, 2, 4, 8, 16, 48)}
    for few, many in ((1, 2), (2, 4), (4, 8)):
        assert times[few] / times[many] == pytest.approx(2, rel=0.1)
    bound = 2 * 48 * 16384 * 16 / CHIP.hbm_bytes_per_cycle
    assert bound < times[48] < 1.3 * bound


def test_equal_cores_are_simulated_once_and_that_changes_nothing():
    alike, runs = predict(streaming(8 * 65536, 8, 16384), CHIP)
    assert len(runs) == 1
    # One more call at the very end of each core but the first tells them apart.
    trace = streaming(8 * 65536, 8, 16384)
    for index, events in enumerate(trace.cores):
        trace.cores[index] = np.concatenate([events, np.repeat(events[-1:], index)])
    told_apart, runs = predict(trace, CHIP)
    assert len(runs) == 8
    assert told_apart.kernel_us == pytest.approx(alike.kernel_us)


# ---- measurements of a public example (ascend910b2.yaml calls it "add")


def add_example(cores, tile_bytes, buffers, rows):
    """z = x + y, 8192x8192 half or its first rows, as in the tuning example of the Ascend C guide."""
    size = 2 * rows * 8192
    launch = Launch(size, size, size)
    share = size // cores // 32 * 32
    for index in range(cores):
        core = launch.core()
        for tile, offset in enumerate(range(index * share, (index + 1) * share, tile_bytes)):
            now = min(tile_bytes, (index + 1) * share - offset)
            x, y, z = (group + tile % buffers for group in (1, 11, 21))
            for buffer, argument in ((x, 0), (y, 1)):
                core.queue(Queue.ALLOC, buffer, Pipe.MTE2, Pipe.V)
                core.copy(argument, offset, now)
                core.queue(Queue.ENQUE, buffer, Pipe.MTE2, Pipe.V)
            for buffer in (x, y):
                core.queue(Queue.DEQUE, buffer, Pipe.MTE2, Pipe.V)
            core.queue(Queue.ALLOC, z, Pipe.V, Pipe.MTE3)
            core.vector("Add", now // 2, 2)
            for buffer in (x, y):
                core.queue(Queue.FREE, buffer, Pipe.MTE2, Pipe.V)
            core.queue(Queue.ENQUE, z, Pipe.V, Pipe.MTE3)
            core.queue(Queue.DEQUE, z, Pipe.V, Pipe.MTE3)
            core.copy(2, offset, now, write=1)
            core.queue(Queue.FREE, z, Pipe.V, Pipe.MTE3)
    return launch.trace()


@pytest.mark.parametrize(
    ("cores", "tile_bytes", "buffers", "rows", "measured_us"),
    [
        (1, 8192, 1, 512, 6909.6),
        (48, 8192, 1, 2048, 306.58),
        (48, 32768, 1, 2048, 268.5),
        (48, 32768, 2, 2048, 264.02),
    ],
)
def test_the_add_example_of_the_guide(cores, tile_bytes, buffers, rows, measured_us):
    """On a part of the rows: it is all more of the same.

    The copies' set-up costs come from the first of these measurements, HBM's efficiency from the last.
    """
    chip = load_chip("ascend910b1")
    prediction, _ = predict(add_example(cores, tile_bytes, buffers, rows), chip)
    assert chip.launch_us + prediction.kernel_us * 8192 / rows == pytest.approx(measured_us, rel=0.15)
