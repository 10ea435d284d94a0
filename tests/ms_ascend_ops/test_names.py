"""The names of the package, with and without MindSpore."""

import importlib.util

import pytest

import ms_ascend_ops
from ms_ascend_ops import cells, ops


def test_layers_are_names_of_the_package():
    assert {"RMSNorm", "SwiGLU", "KVCache"} <= set(cells.__all__)
    assert "whole_cells" not in cells.__all__
    assert all(getattr(ms_ascend_ops, name) is getattr(cells, name) for name in cells.__all__)
    assert {*cells.__all__, "optimize", "ops", "__version__"} <= {*dir(ms_ascend_ops)} == {*ms_ascend_ops.__all__}
    with pytest.raises(AttributeError, match="has no attribute 'RMSNom'"):
        _ = ms_ascend_ops.RMSNom


def test_functions():
    assert {"rms_norm", "kv_cache_append", "apply_rotary_pos_emb"} <= set(ops.__all__)
    assert all(getattr(ops, name).__name__ == name for name in ops.__all__)


def test_without_mindspore(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(ms_ascend_ops, "find_spec", lambda name: found(name) if name != "mindspore" else None)
    assert "optimize" in dir(ms_ascend_ops)
    assert "RMSNorm" not in dir(ms_ascend_ops)
