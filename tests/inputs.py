"""Inputs of tests."""

import numpy as np


def draw(rng, shape, bound=5.0):
    """Half uniform in [-bound, bound], half normal with a mean and a deviation of their own, in random places."""
    uniform = rng.uniform(-bound, bound, shape)
    normal = rng.normal(rng.uniform(-1, 1), rng.uniform(0.5, 2), shape)
    return np.where(rng.random(shape) < 0.5, uniform, normal)
