"""The traced build: what it records of real kernels, and what the model makes of it."""

import numpy as np
import pytest

from ms_ascend_ops.profiler import record
from ms_ascend_ops.profiler.chip import load_chip
from ms_ascend_ops.profiler.launches import Case, profile
from ms_ascend_ops.profiler.record import RecordError
from ms_ascend_ops.profiler.sweep import sweep
from ms_ascend_ops.profiler.trace import Kind

SHAPE = (240, 4096)  # five rows for each of 48 cores
BYTES = SHAPE[0] * SHAPE[1] * 4


@pytest.fixture(scope="module")
def forward(recorder):
    return profile(Case("rms_norm", SHAPE), recorder)


def copied(found, argument, written):
    index = [a.name for a in found.trace.arguments].index(argument)
    events = np.concatenate(found.trace.cores)
    mine = events[(events["kind"] == Kind.COPY) & (events["argument"] == index)]
    assert set(mine["written"]) == {written}
    return int((mine["pieces"] * mine["piece_bytes"]).sum())


def test_every_byte_is_copied_once(forward):
    assert copied(forward, "x", written=0) == BYTES
    assert copied(forward, "y", written=1) == BYTES
    assert copied(forward, "rstd", written=1) == SHAPE[0] * 4
    assert copied(forward, "gamma", written=0) == forward.prediction.cores * SHAPE[1] * 4  # by every core
    assert forward.prediction.minimal_bytes == 2 * BYTES + SHAPE[0] * 4 + SHAPE[1] * 4


def test_gamma_comes_from_hbm_once(forward):
    assert forward.prediction.hbm_bytes == pytest.approx(forward.prediction.minimal_bytes, rel=0.01)


def test_vector_work_is_counted(forward):
    """rms_norm in float32 squares, folds, scales by rstd and by gamma: four passes over x."""
    events = np.concatenate(forward.trace.cores)
    vectors = events[events["kind"] == Kind.VECTOR]
    large = vectors[vectors["elements"] == SHAPE[1]]
    assert int(large["elements"].sum()) == 4 * SHAPE[0] * SHAPE[1]
    assert set(large["repeats"]) == {SHAPE[1] // 64}


def test_instructions_say_where_they_stand(forward):
    assert any(spot.place.split(":")[0] in ("rms_norm_kernel.h", "rows.h") for spot in forward.prediction.hotspots)
    stores = [spot for spot in forward.prediction.hotspots if spot.tensor == "y"]
    assert sum(spot.bytes for spot in stores) == BYTES


def test_the_platform_is_the_chips(recorder, forward):
    chip = load_chip("ascend910b2")
    assert forward.trace.tiling["block_dim"] == chip.cores
    assert forward.trace.ub_used_bytes <= chip.ub_bytes
    other = profile(Case("rms_norm", SHAPE, chip="ascend910b4"), recorder)
    assert other.trace.tiling["block_dim"] <= load_chip("ascend910b4").cores


def test_one_core_takes_longer_than_many(recorder, forward):
    alone = profile(Case("rms_norm", SHAPE, cores=1), recorder)
    assert alone.prediction.cores == 1
    assert alone.prediction.kernel_us > 10 * forward.prediction.kernel_us


def test_single_buffering_is_slower(recorder, forward):
    single = profile(Case("rms_norm", SHAPE, buffers=1), recorder)
    assert single.trace.ub_used_bytes < forward.trace.ub_used_bytes
    assert single.prediction.kernel_us > forward.prediction.kernel_us


def test_gradients_follow_from_the_forward(recorder):
    found = profile(Case("rms_norm", SHAPE, "bfloat16", gradient=True), recorder)
    assert [a.name for a in found.trace.arguments] == ["dy", "drstd", "x", "rstd", "gamma", "dx", "dgamma"]
    assert found.prediction.minimal_bytes == pytest.approx(3 * BYTES / 2, rel=0.01)


def test_the_same_case_gives_the_same_prediction(recorder, forward):
    assert profile(Case("rms_norm", SHAPE), recorder).prediction == forward.prediction


@pytest.mark.parametrize("operator", ["rms_norm", "silu_mul", "swiglu"])
@pytest.mark.parametrize("gradient", [False, True])
def test_never_faster_than_memory_or_arithmetic(recorder, operator, gradient):
    found = profile(Case(operator, (192, 4096), "float16", gradient), recorder)
    assert found.prediction.kernel_us >= found.prediction.bound_us
    assert max(found.prediction.busy.values()) <= 1 + 1e-9
    assert 0 < found.prediction.lane_efficiency <= 1


def test_a_tile_that_does_not_fit_is_an_error_and_the_next_case_runs(recorder):
    with pytest.raises(ValueError, match=r"InitBuffer.* bytes of Unified Buffer"):
        profile(Case("rms_norm", SHAPE, tiling={"tileRows": 64}), recorder)
    assert profile(Case("silu_mul", SHAPE), recorder).prediction.us > 0


def test_a_wrong_call_is_refused_before_anything_runs(recorder):
    with pytest.raises(ValueError, match="must be even"):
        profile(Case("swiglu", (4, 7)), recorder)
    with pytest.raises(TypeError, match=r"x\.dtype must be"):
        profile(Case("swiglu", (4, 8), "int32"), recorder)
    with pytest.raises(ValueError, match="there is no input beta; the inputs are x, gamma"):
        profile(Case("rms_norm", (4, 8), shapes={"beta": (8,)}), recorder)


# ---- sweeps


def test_a_sweep_finds_the_best_and_says_why_others_are_out(recorder, forward):
    attempts = sweep(forward, {"tileRows": [1, 2, 64], "buffers": [1, 2]}, recorder)
    times = [attempt.profile.prediction.us for attempt in attempts if attempt.profile]
    assert len(times) == 4
    assert times == sorted(times)
    assert attempts[0].case.buffers == 2
    assert {attempt.case.tiling["tileRows"] for attempt in attempts if not attempt.profile} == {64}


def test_a_tiling_that_changes_the_results_is_out(recorder, forward):
    (attempt,) = sweep(forward, {"rowsPerCore": [1]}, recorder)  # 48 cores with a row each: the rest is never made
    assert attempt.profile is None
    assert attempt.problem == "it changes the results"


def test_a_sweep_over_something_else_is_refused(recorder, forward):
    with pytest.raises(ValueError, match="nothing is called tilerows; there are cores, ub_bytes, buffers, rows"):
        sweep(forward, {"tilerows": [1]}, recorder)


# ---- counting without calculating


def test_calculating_changes_nothing_about_the_prediction(recorder, forward):
    executed = profile(Case("rms_norm", SHAPE), recorder, executes=True)
    assert executed.prediction == forward.prediction


def test_large_tensors_are_never_touched(recorder):
    """2 GiB each, of which the first tiles are made."""
    case = Case("silu_mul", (2**15, 2**15), "float16", cores=1, tiling={"tiles": 8, "tilesPerCore": 8})
    assert profile(case, recorder).prediction.minimal_bytes == 3 * 2**31


def test_a_kernel_with_scalar_writes_is_counted_alike(recorder):
    """The gradient of interleaved SwiGLU writes a few offsets by hand."""
    case = Case("swiglu", (48, 256), gradient=True, attributes={"interleaved": True})
    assert profile(case, recorder).prediction == profile(case, recorder, executes=True).prediction


_FAKE_CMAKE = """#!/bin/sh
[ "$1" = --build ] || exit 0
echo "[  4%] Building"; echo "[ 50%] Building"; echo "[ 51%] Building"; echo "[9/10] Linking"
{last}
"""


def fake_cmake(monkeypatch, folder, last):
    script = folder / "cmake"
    script.write_text(_FAKE_CMAKE.format(last=last))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_a_build_says_how_far_it_is(monkeypatch, tmp_path):
    library = tmp_path / "libms_ascend_ops.so"
    fake_cmake(monkeypatch, tmp_path, f"touch {library}")
    told = []
    assert record._build(tmp_path, tmp_path, told.append, "traced", "ms_ascend_ops") == library
    doing = "building the traced library, once"
    assert told == [doing, f"{doing}: 50 %", f"{doing}: 90 %"]


def test_a_build_that_fails_shows_its_last_lines(monkeypatch, tmp_path):
    fake_cmake(monkeypatch, tmp_path, "echo 'no such file' >&2; exit 1")
    with pytest.raises(RecordError, match=r"^the traced library does not build:\n(.*\n)*no such file\n$"):
        record._build(tmp_path, tmp_path, print, "traced", "ms_ascend_ops")
