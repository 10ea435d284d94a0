"""The cube cores of the timing model on products whose time is known."""

import json
from dataclasses import replace

import numpy as np
import pytest

from ms_ascend_ops.profiler.chip import Cube, Mte, load_chip
from ms_ascend_ops.profiler.launches import Case, profile
from ms_ascend_ops.profiler.prediction import predict
from ms_ascend_ops.profiler.timeline import write_chrome_trace
from ms_ascend_ops.profiler.trace import WORKSPACE, Kind, Pipe, Product
from tests.ms_ascend_ops.profiler.kernels import Launch
from tests.ms_ascend_ops.profiler.test_model import SIMPLE as VECTOR_ONLY

MIB = 2**20
# As SIMPLE of test_model.py: 1 cycle is 1 ns. A load of L1 takes 50 cycles and 10 (HBM) or 40 (L2) bytes a cycle, a
# result 30 cycles and 20 or 40 bytes a cycle.
SIMPLE = VECTOR_ONLY.changed(
    cube=Cube(
        cores=2,
        macs_per_cycle=4096.0,
        float_share=0.25,
        hf32_share=0.5,
        issue_cycles=8.0,
        l1_bytes=512 * 1024,
        l0a_bytes=65536,
        l0b_bytes=65536,
        l0c_bytes=131072,
        load_cycles=10.0,
        l0a_rate=64.0,
        l0b_rate=32.0,
        start_us=0.0,
        message_us=0.1,
        mte2=Mte(50.0, 10.0, 40.0, 0.0, 0.5),
        fix=Mte(30.0, 20.0, 40.0, 0.0, 1.0, 0.5),
    )
)
BASE = (64, 64, 64)
SIDE = (64, 64, 64)
# A base block of half: what its units take.
MESSAGE = 100
LOAD = 50 + 64 * 64 * 2 / 10  # of A or of B
L0 = 2 * 10 + 64 * 64 * 2 / 64 + 64 * 64 * 2 / 32
MMAD = 8 + 64**3 / 4096
STORE = 30 + 64 * 64 * 4 / 20
ANSWER = 5  # the flag that the vector core waits for


def changed(**numbers):
    """SIMPLE with other numbers of its cube cores."""
    return SIMPLE.changed(cube=replace(SIMPLE.cube, **numbers))


def cycles(trace, chip=SIMPLE, **options):
    prediction, _ = predict(trace, chip, **options)
    return prediction.kernel_us * chip.clock_ghz * 1e3


def bars(trace, pipe, chip=SIMPLE, **options):
    _, runs = predict(trace, chip, **options)
    return [bar for bar in runs[0].cube.bars if bar.pipe == pipe]


# Sizes of a product, what else is said of it, and how long it takes.
PRODUCTS = {
    "a base block": (SIDE, {}, 2 * LOAD + L0 + MMAD + STORE),
    # Blocks along k are loaded while others are multiplied.
    "three blocks along k": ((64, 64, 192), {}, 6 * LOAD + L0 + MMAD + STORE),
    # What fits L1 twice saves set-up: here all of k, so one load of each operand. L0 binds behind the last load.
    "several blocks at once": ((64, 64, 256), {"whole": 1}, 2 * 50 + 8 * 819.2 + 4 * L0 + MMAD + STORE),
    "a result in the workspace stays in L2": (
        SIDE,
        {"arguments": (0, 1, WORKSPACE)},
        2 * LOAD + L0 + MMAD + 30 + 16384 / 40,
    ),
    "adding to memory": (SIDE, {"atomic": True}, 2 * LOAD + L0 + MMAD + 30 + 16384 / 10),
    "nothing": ((64, 64, 0), {}, 0),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_what_a_product_takes(name):
    sizes, options, expected = PRODUCTS[name]
    launch = Launch(MIB, MIB, MIB)
    launch.core().product(sizes, BASE, **{"arguments": (0, 1, 2), **options})
    assert cycles(launch.trace()) == pytest.approx(MESSAGE + expected + ANSWER)


def test_the_multiplications_bind_where_loads_are_quick():
    """Loads of L0 are the slowest of a step then; two buffers of L0A and L0B hide the rest."""
    quick = changed(mte2=Mte(0.0, 1e6, 1e6, 0.0, 1.0)).changed(hbm_gb_per_s=1e9)
    launch = Launch(8 * 8192, 8 * 8192, 16384)
    launch.core().product((64, 64, 512), BASE, (0, 1, 2))
    assert cycles(launch.trace(), quick) == pytest.approx(MESSAGE + 8 * L0 + MMAD + STORE + ANSWER, abs=1)


HALF = changed(fix=Mte(30.0, 20.0, 40.0, 0.0, 0.5, 0.5))


@pytest.mark.parametrize(
    ("sizes", "pipe", "place", "chip", "element_bytes", "hf32", "expected"),
    [
        (SIDE, Pipe.M, 0, SIMPLE, 2, False, 8 + 64**3 / 4096),  # multiply-adds in a cycle
        (SIDE, Pipe.M, 0, SIMPLE, 4, False, 8 + 64**3 / 1024),
        (SIDE, Pipe.M, 0, SIMPLE, 4, True, 8 + 64**3 / 2048),
        (SIDE, Pipe.M, 0, SIMPLE, 1, False, 8 + 64**3 / 8192),
        ((1, 64, 64), Pipe.M, 0, SIMPLE, 2, False, 8 + 16 * 64 * 64 / 4096),  # a row costs a whole block
        (SIDE, Pipe.FIX, 0, HALF, 2, False, 30 + 16384 / 10),  # results in rows of 256 bytes, lines of 512
        ((64, 63, 64), Pipe.MTE2, 1, SIMPLE, 2, False, 50 + 64 * 63 * 2 / 5),  # rows of B are 126 bytes apart
    ],
)
def test_what_a_step_takes(sizes, pipe, place, chip, element_bytes, hf32, expected):
    launch = Launch(MIB, MIB, MIB)
    launch.core().product(sizes, BASE, (0, 1, 2), element_bytes=element_bytes)
    bar = bars(launch.trace(), pipe, chip, hf32=hf32)[place]
    assert bar.end - bar.begin == pytest.approx(expected)


def test_loads_wait_for_room_in_l1():
    """Two stages fit; the third comes when MTE1 has read the first."""
    small = changed(l1_bytes=32768, l0a_rate=2.0, l0b_rate=2.0)
    launch = Launch(3 * 8192, 3 * 8192, 16384)
    launch.core().product((64, 64, 192), BASE, (0, 1, 2))
    loads = bars(launch.trace(), Pipe.MTE2, small)
    (first, *_) = bars(launch.trace(), Pipe.MTE1, small)
    assert loads[3].end < first.end  # the second stage did not wait
    assert loads[4].begin == pytest.approx(first.end)


def test_a_block_of_b_stays_for_the_next_rows():
    launch = Launch(2 * 8192, 8192, 2 * 16384)
    launch.core().product((128, 64, 64), BASE, (0, 1, 2))
    assert len(bars(launch.trace(), Pipe.MTE2)) == 3  # A, B, A


def test_l0c_holds_two_small_results_or_one_large():
    """The second block waits in M for Fixpipe if L0C has room for one."""
    large = changed(l0c_bytes=16384)
    launch = Launch(2 * 8192, 8192, 2 * 16384)
    launch.core().product((128, 64, 64), BASE, (0, 1, 2))
    (store, _), (_, second) = bars(launch.trace(), Pipe.FIX, large), bars(launch.trace(), Pipe.M, large)
    assert second.begin == pytest.approx(store.end)
    (store, _), (_, second) = bars(launch.trace(), Pipe.FIX), bars(launch.trace(), Pipe.M)
    assert second.begin < store.end


def test_cube_and_vector_core_work_at_the_same_time():
    product = MESSAGE + 2 * LOAD + L0 + MMAD + STORE + ANSWER
    for elements, expected in ((640, product), (64 * 5000, 4 + 5000 + 6)):
        launch = Launch(8192, 8192, 16384)
        core = launch.core()
        number = core.product(SIDE, BASE, (0, 1, 2), wait=False)
        core.vector("Add", elements)
        core.wait_for_product(number)
        assert cycles(launch.trace()) == pytest.approx(expected)


def test_what_needs_the_product_waits_for_it():
    launch = Launch(8192, 8192, 16384)
    core = launch.core()
    number = core.product(SIDE, BASE, (0, 1, 2), wait=False)
    core.wait_for_product(number)
    core.vector("Add", 640)
    prediction, _ = predict(launch.trace(), SIMPLE)
    assert prediction.kernel_us * 1e3 == pytest.approx(MESSAGE + 2 * LOAD + L0 + MMAD + STORE + ANSWER + 4 + 10 + 6)
    assert next(iter(prediction.waits["S"])) == "the cube core"


def test_a_request_follows_the_copies_before_it():
    launch = Launch(8192, 8192, 16384, 10240)
    core = launch.core()
    core.copy(3, 0, 10240, write=1)
    core.product(SIDE, BASE, (0, 1, 2))
    store = 30 + 10240 / 20
    # From MTE3 to the message there is a flag to see.
    assert cycles(launch.trace()) == pytest.approx(
        store + SIMPLE.flag_cycles + MESSAGE + 2 * LOAD + L0 + MMAD + STORE + ANSWER
    )


def shared(cores):
    """Each vector core asks for one product, on operands of its own."""
    launch = Launch(cores * 8192, cores * 8192, cores * 16384)
    for i in range(cores):
        launch.core().product(SIDE, BASE, (0, 1, 2), offsets=(i * 8192, i * 8192, i * 16384))
    return launch.trace()


def test_two_vector_cores_queue_at_one_cube_core():
    """The message of the second is read while the first one's last block is on its way; then its loads follow."""
    assert cycles(shared(1)) == pytest.approx(MESSAGE + 2 * LOAD + L0 + MMAD + STORE + ANSWER)
    assert cycles(shared(2)) == pytest.approx(MESSAGE + 4 * LOAD + L0 + MMAD + STORE + ANSWER)


def test_further_vector_cores_have_their_own_cube_core():
    assert cycles(shared(4)) == pytest.approx(cycles(shared(2)))
    prediction, runs = predict(shared(4), SIMPLE)
    assert prediction.cube.cores == 2
    assert [run.cores for run in runs] == [[0, 2], [1, 3]]  # simulated once
    assert runs[0].cube is runs[1].cube


def test_an_odd_number_of_vector_cores():
    prediction, runs = predict(shared(3), SIMPLE)
    assert prediction.cube.cores == 2
    assert [run.cores for run in runs] == [[0], [1], [2]]
    assert runs[2].cycles == pytest.approx(MESSAGE + 2 * LOAD + L0 + MMAD + STORE + ANSWER)


def test_loads_of_all_cube_cores_share_hbm():
    """20 groups want 10 bytes a cycle each, and get 5."""
    loads = 2 * (50 + 8192 / 5)
    found = [bar.end - bar.begin for bar in bars(shared(40), Pipe.MTE2)[:2]]
    assert sum(found) == pytest.approx(loads)


def test_an_operand_that_all_cores_read_is_fetched_once():
    launch = Launch(4 * 8192, 8192, 4 * 16384)
    for i in range(4):
        launch.core().product(SIDE, BASE, (0, 1, 2), offsets=(i * 8192, 0, i * 16384))
    prediction, _ = predict(launch.trace(), SIMPLE)
    assert prediction.hbm_bytes == pytest.approx(5 * 8192 + 4 * 16384)


def test_objects_are_made_once():
    launch = Launch(8192, 8192, 16384)
    core = launch.core()
    core.init_products()
    core.init_products()
    core.product(SIDE, BASE, (0, 1, 2))
    started = changed(start_us=2.0)
    assert cycles(launch.trace(), started) == pytest.approx(2000 + cycles(launch.trace()))


def test_the_bound_and_its_share():
    launch = Launch(8192, 8192, 16384)
    launch.core().product(SIDE, BASE, (0, 1, 2))
    prediction, _ = predict(launch.trace(), SIMPLE)
    assert prediction.cube.flops == 2 * 64**3
    assert prediction.cube.bound_us == pytest.approx(64**3 / 4096 / 2 / 1e3)  # on both cube cores
    assert prediction.busy["cube M"] == pytest.approx(MMAD / cycles(launch.trace()))
    launch = Launch(8192, 8192, 16384)
    launch.core().product((1, 64, 64), BASE, (0, 1, 2))
    assert predict(launch.trace(), SIMPLE)[0].cube.block_efficiency == pytest.approx(1 / 16)


def test_a_kernel_that_multiplies_enough_is_bound_by_the_cube():
    quick = changed(mte2=Mte(0.0, 1e5, 1e5, 0.0, 1.0), l0a_rate=1e5, l0b_rate=1e5).changed(hbm_gb_per_s=1e6)
    launch = Launch(64 * MIB, 64 * MIB, 64 * MIB)
    launch.core().product((128, 256, 65536), (128, 256, 64), (0, 1, 2))
    assert predict(launch.trace(), quick)[0].bound_by == "cube"


# ---- measurements of public examples (ascend910b2.yaml calls them "tiling" and "gemm")

BLOCK = (128, 256, 64)


def product_of(m, n, k, groups_m, groups_n, whole):
    """A product cut into one part for each vector core, as MultiCoreMatmulTiling does."""
    launch = Launch(m * k * 2, k * n * 2, m * n * 4)
    for i in range(groups_m):
        for j in range(groups_n):
            core = launch.core()
            rows, cols = m // groups_m, n // groups_n
            core.init_products()
            core.product((rows, cols, k), BLOCK, (0, 1, 2), whole=whole, offsets=(0, 0, 0))
            for event, (offset, stride, pieces, piece) in zip(
                core.events[-3:],
                (
                    (i * rows * k * 2, k * 2, rows, k * 2),
                    (j * cols * 2, n * 2, k, cols * 2),
                    ((i * rows * n + j * cols) * 4, n * 4, rows, cols * 4),
                ),
                strict=True,
            ):
                event["offset"], event["stride"], event["pieces"], event["piece_bytes"] = offset, stride, pieces, piece
    return launch.trace()


@pytest.mark.parametrize(("whole", "measured_us"), [(0, 808), (1, 591)])
def test_loads_of_the_tiling_example_of_the_guide(whole, measured_us):
    """4096x5120x4096 in half on 20 cube cores: MTE2 with one base block a load, and with several.

    The set-up and the rate of loads come from these measurements.
    """
    chip = load_chip("ascend910b3")
    prediction, _ = predict(product_of(4096, 5120, 4096, 8, 5, whole), chip)
    assert prediction.busy["cube MTE2"] * prediction.kernel_us == pytest.approx(measured_us, rel=0.1)


def test_the_multiplications_of_the_gemm_sample():
    """8192x8192x8192 in half on 24 cube cores at 1.85 GHz, here an eighth of k: 3076 us of M."""
    prediction, _ = predict(product_of(8192, 8192, 1024, 16, 3, 1), load_chip("ascend910b1"))
    assert 8 * prediction.busy["cube M"] * prediction.kernel_us == pytest.approx(3076, rel=0.03)


# ---- real kernels


@pytest.fixture(scope="module")
def product(recorder):
    return profile(Case("matmul", (512, 1024), "float16", shapes={"weight": (1024, 2048)}), recorder)


def operands(found, name):
    events = np.concatenate(found.trace.cores)
    return events[(events["kind"] == Kind.OPERAND) & (events["name"] == found.trace.names.index(name))]


def test_matmul_is_recorded(product):
    """Tiles of 128 x 256: all of them, once, into y."""
    events = np.concatenate(product.trace.cores)
    asked = events[(events["kind"] == Kind.PRODUCT) & (events["call"] == Product.ITERATE_ALL)]
    m, n, k = asked["ranges"][:, 0, 0], asked["ranges"][:, 0, 1], asked["ranges"][:, 1, 0]
    assert int((m.astype(np.int64) * n * k).sum()) == 512 * 1024 * 2048
    assert set(asked["ranges"][:, 3, 0]) == {64}
    results = operands(product, "C")
    assert int((results["pieces"] * results["piece_bytes"]).sum()) == 512 * 2048 * 2
    assert {product.trace.arguments[i].name for i in results["argument"]} == {"y"}
    assert product.prediction.cube.flops == 2 * 512 * 1024 * 2048


def test_never_faster_than_the_cube_or_memory(product):
    prediction = product.prediction
    assert prediction.kernel_us >= max(prediction.bound_us, prediction.cube.bound_us)
    assert max(prediction.busy.values()) <= 1 + 1e-9
    assert prediction.hbm_bytes >= 0.99 * prediction.minimal_bytes


def test_float32_takes_longer_and_hf32_less_of_it(recorder, product):
    case = product.case.changed(dtype="float32")
    full = profile(case, recorder).prediction
    rounded = profile(case.changed(hf32=True), recorder).prediction
    assert full.cube.bound_us == pytest.approx(4 * product.prediction.cube.bound_us)
    assert rounded.cube.bound_us == pytest.approx(2 * product.prediction.cube.bound_us)
    assert product.prediction.kernel_us < rounded.kernel_us < full.kernel_us


def test_an_epilogue_works_while_the_cube_multiplies(recorder, product):
    """It takes longer than the product alone, and less than both one after the other."""
    found = profile(product.case.changed(attributes={"activation": "gelu_tanh"}), recorder).prediction
    vector_us = found.busy["V"] * found.kernel_us
    assert product.prediction.kernel_us < found.kernel_us
    assert vector_us > 0


@pytest.mark.parametrize("gradient", [False, True])
def test_attention_has_a_prediction(recorder, gradient):
    shape = (1, 4, 256, 64)
    case = Case("flash_attention", shape, "float16", gradient, shapes={"key": shape, "value": shape})
    prediction = profile(case, recorder).prediction
    assert prediction.cube.flops >= (14 if gradient else 4) * 4 * 256 * 256 * 64
    assert prediction.busy["V"] > 0
    assert "the cube core" in prediction.waits["S"]


def test_causal_tiles_are_dealt_evenly(recorder):
    """16 tiles a head, 48 cores: each core would have the same tile of every head."""
    shape = (1, 12, 2048, 64)
    case = Case("flash_attention", shape, "float16", shapes={"key": shape, "value": shape}, attributes={"causal": True})
    assert profile(case, recorder).prediction.imbalance < 1.15


@pytest.mark.parametrize("attributes", [{}, {"causal": True}, {"causal": True, "window": 300}], ids=str)
def test_the_tiles_of_a_chip_give_the_results_of_smaller_ones(recorder, attributes):
    """512 keys at a time, on 48 cores, beside what fits a third of the Unified Buffer: they differ by rounding."""
    chip, shapes = load_chip("ascend910b2"), {"key": (1, 1, 1100, 64), "value": (1, 1, 1100, 64)}
    wanted = Case("flash_attention", (1, 2, 700, 64), "float16", shapes=shapes, attributes={"scale": 0.1, **attributes})
    large = replace(wanted.request(chip), executes=True, is_reference=True)
    first, _ = recorder.run_compared(large)
    second, difference = recorder.run_compared(replace(large, ub_bytes=60000, is_reference=False))
    assert (first.tiling["tileCols"], second.tiling["tileCols"] < 512) == (512, True)
    assert difference < 8


def test_paged_attention_needs_lengths_and_blocks(recorder):
    cache = (16, 128, 2, 64)
    case = Case(
        "paged_attention",
        (4, 1, 8, 64),
        "float16",
        shapes={"key_cache": cache, "value_cache": cache, "block_tables": (4, 4), "context_lengths": (4,)},
    )
    assert profile(case, recorder).prediction.cube.flops == 0  # contexts of no tokens
    filled = profile(case.changed(fill={"block_tables": "count", "context_lengths": "512"}), recorder).prediction
    assert filled.cube.flops == pytest.approx(4 * 4 * 8 * 512 * 64)
    assert filled.hbm_bytes >= 2 * 16 * 128 * 2 * 64 * 2  # every block once


@pytest.mark.parametrize(
    ("fill", "error", "message"),
    [
        ({"lengths": "1"}, ValueError, "there is no input lengths; the inputs are query"),
        ({"query": "1"}, TypeError, "only inputs of integers can be filled; query is float16"),
        ({"context_lengths": "all"}, ValueError, "a number, 'count' or a .npy file, got 'all'"),
        ({"context_lengths": "none.npy"}, ValueError, "context_lengths cannot be filled from none.npy: .*No such file"),
    ],
)
def test_what_cannot_be_filled(fill, error, message):
    cache = (16, 128, 2, 64)
    case = Case(
        "paged_attention",
        (4, 1, 8, 64),
        "float16",
        shapes={"key_cache": cache, "value_cache": cache, "block_tables": (4, 4), "context_lengths": (4,)},
        fill=fill,
    )
    with pytest.raises(error, match=message):
        case.request(load_chip(case.chip))


def test_a_trace_has_the_lanes_of_cube_and_vector_cores(product, tmp_path):
    path = tmp_path / "trace.json"
    write_chrome_trace(path, product.trace, product.runs, product.chip, product.prediction)
    rows = json.loads(path.read_text())["traceEvents"]
    processes = {row["pid"]: row["args"]["name"] for row in rows if row["name"] == "process_name"}
    cubes = {pid for pid, name in processes.items() if name.startswith("cube core")}
    assert cubes
    assert len(cubes) < len(processes)
    lanes = {row["args"]["name"] for row in rows if row["name"] == "thread_name" and row["pid"] in cubes}
    assert lanes == {"MTE2", "MTE1", "M", "FIX", "S"}
    slices = {row["name"] for row in rows if row["ph"] == "X" and row["pid"] in cubes}
    assert slices == {"request", "load L1", "load L0", "Mmad", "Fixpipe"}
    begun, ended = ([row["id"] for row in rows if row["ph"] == phase] for phase in ("b", "e"))
    assert begun
    assert begun == ended
