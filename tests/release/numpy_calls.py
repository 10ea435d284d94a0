"""A kernel of an installation on NumPy arrays: needs neither MindSpore nor a compiler."""

import platform

import numpy as np

import ms_ascend_ops
from ms_ascend_ops.library import native

x = np.random.default_rng(0).normal(size=(5, 1001)).astype(np.float32)
gamma = np.linspace(0.5, 2, 1001, dtype=np.float32)
y, rstd = np.full_like(x, np.nan), np.full((5, 1), np.nan, np.float32)
attributes = {"epsilon": 1e-6, "scheme": "round_then_scale"}
native().launch("rms_norm", [x, gamma], [y, rstd], attributes, ["float32"] * 4)
expected = 1 / np.sqrt(np.mean(x.astype(np.float64) ** 2, axis=-1, keepdims=True) + 1e-6)
assert np.allclose(rstd, expected, rtol=1e-6, atol=0)
assert np.allclose(y, x * expected * gamma, rtol=2e-6, atol=2e-6)
print(f"{platform.machine()}, {native().vector_unit()}: rms_norm agrees: {ms_ascend_ops.__file__}")
