import numpy as np
import pytest
from matplotlib import image
from ms_ascend_ops.benchmarks import plots
from ms_ascend_ops.benchmarks.harness import Outcome, Result
from ms_ascend_ops.benchmarks.plots import bars, peak_flops, roofline
from ms_ascend_ops.samples.cases import Case

WHERE = {"cpu": "a CPU", "threads": 2}


def outcomes(**seconds):
    cases = [Case("silu_mul", gradient, (3, 33), "float32") for gradient in (False, True)]
    return [Outcome(case, {name: Result(name, [time]) for name, time in seconds.items()}) for case in cases]


def drawn(path):
    """Something is on the picture: it is neither empty nor of one colour."""
    return image.imread(path)[..., :3].std() > 0.01


def test_bars(tmp_path):
    bars(outcomes(copy=1e-6, library=2e-6, torch=4e-6), WHERE, tmp_path / "bars.png")
    assert drawn(tmp_path / "bars.png")


def test_products_are_no_share_of_memcpy(tmp_path, monkeypatch):
    """They calculate: bars of GFLOP/s, without memcpy's line."""
    case, small = (Case("matmul", False, shape, "float32") for shape in ((128, 256, 512), (1, 8, 8)))
    figures = []
    monkeypatch.setattr(plots.pyplot, "close", figures.append)
    for group in ((case, small), (small,)):
        results = {name: Result(name, [1e-3]) for name in ("copy", "library")}
        bars([Outcome(of, results) for of in group], WHERE, tmp_path / "bars.png")
    (products,), (row,) = (figure.axes for figure in figures)
    assert products.get_ylabel() == "GFLOP / s"
    assert products.patches[0].get_height() == pytest.approx(2 * 128 * 256 * 512 / 1e-3 / 1e9)
    assert row.get_ylabel() == "% of memcpy's speed"
    assert row.patches[0].get_height() == pytest.approx(100)


def test_roofline(tmp_path):
    roofline(outcomes(copy=1e-6, library=2e-6, torch=4e-6), WHERE, tmp_path / "roof.png", 1e11)
    assert drawn(tmp_path / "roof.png")


def test_a_roofline_needs_our_times(tmp_path):
    with pytest.raises(ValueError, match="it needs the provider 'library'"):
        roofline(outcomes(copy=1e-6, torch=4e-6), WHERE, tmp_path / "roof.png", 1e11)


def test_peak_is_a_rate():
    assert 1e7 < peak_flops(64, 0.01) < np.inf
