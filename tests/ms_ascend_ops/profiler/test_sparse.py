import numpy as np
import pytest

from ms_ascend_ops.profiler.chip import load_chip
from ms_ascend_ops.profiler.launches import Case, profile

CORES = 64


def case(tmp_path, counts, inner):
    rng = np.random.default_rng(0)
    columns = np.concatenate([np.sort(rng.choice(inner, count, replace=False)) for count in counts])
    np.save(tmp_path / "ends.npy", np.cumsum(counts).astype(np.int32))
    np.save(tmp_path / "columns.npy", columns.astype(np.int32))
    return Case(
        "sparse_matmul",
        (len(counts),),
        shapes={"indices": columns.shape, "values": columns.shape, "dense": (inner, 256)},
        dtypes={"row_ends": "int32"},
        cores=CORES,
        fill={"row_ends": str(tmp_path / "ends.npy"), "indices": str(tmp_path / "columns.npy")},
    )


def test_a_power_law_keeps_the_cores_busy(recorder, tmp_path):
    """At least 87 % of what as many cores as busy as the busiest would do; with equal numbers of rows below 61 %."""
    rng = np.random.default_rng(0)
    counts = np.maximum(1, 1024 / np.arange(1, 1025) ** 0.8).astype(int)[rng.permutation(1024)]
    by_rows = counts.reshape(CORES, -1).sum(axis=1)
    assert by_rows.mean() / by_rows.max() < 0.61
    prediction = profile(case(tmp_path, counts, 1024), recorder).prediction
    assert prediction.cores / CORES / prediction.imbalance >= 0.87


def test_files_that_do_not_fit(tmp_path):
    found = case(tmp_path, np.array([1, 2]), 4)
    chip = load_chip(found.chip)
    np.save(tmp_path / "columns.npy", np.zeros(4, np.int32))
    with pytest.raises(ValueError, match=r"indices must be integers of shape \(3,\), got int32 of \(4,\)"):
        found.request(chip)
    np.save(tmp_path / "columns.npy", np.zeros(3, np.float32))
    with pytest.raises(ValueError, match=r"indices must be integers of shape \(3,\), got float32"):
        found.request(chip)
