"""The pictures that the examples draw, with figures of any size."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from tests.pictures import check_picture, drawn

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("scale", [0.004, 1, 800])
def test_the_speed_of_the_demo(scale, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    names = ("stock MindSpore", "after optimize", "llm, float32", "llm, as the file")
    times = dict(zip(names, (1146.3 * scale, 964.8 * scale, 598.5 * scale, 627.8 * scale), strict=True))
    with drawn() as figures:
        import_module("demo").plot(
            {"prompt": times, "token": times}, tmp_path / "speed.png", "model on a CPU, 2 threads"
        )
    check_picture(figures[0])


@pytest.mark.parametrize("steps", [1, 3, 400])
def test_the_loss_of_the_training(steps, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    with drawn() as figures:
        import_module("train").plot(list(np.linspace(5.5, 1.5, steps)), tmp_path / "loss.png")
    check_picture(figures[0])
