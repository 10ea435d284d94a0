"""Layers that take the place of stock ones take their arguments: same names, order and defaults."""

import inspect

import pytest
from mindspore import nn

from ms_ascend_ops import cells


@pytest.mark.parametrize("name", [name for name in cells.__all__ if hasattr(nn, name)])
def test_arguments(name):
    ours, stock = (inspect.signature(getattr(module, name)).parameters.values() for module in (cells, nn))
    arguments = [[(p.name, p.default) for p in parameters] for parameters in (ours, stock)]
    more = arguments[0][len(arguments[1]) :]
    assert arguments[0][: len(arguments[1])] == arguments[1]
    assert all(default is not inspect.Parameter.empty for _, default in more)


def test_which_are_compared():
    assert {"GELU", "GroupNorm", "LayerNorm"} <= {name for name in cells.__all__ if hasattr(nn, name)}
