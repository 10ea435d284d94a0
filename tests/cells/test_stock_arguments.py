"""Layers that take the place of stock ones take their arguments: same names, order and defaults."""

import inspect

import pytest
from mindspore import nn

from ms_ascend_ops import cells

NORMS = {
    "AddRMSNorm": (8,),
    "GroupNorm": (2, 8),
    "LayerNorm": ((8,),),
    "RMSNorm": (8,),
}


@pytest.mark.parametrize("name", [name for name in cells.__all__ if hasattr(nn, name)])
def test_arguments(name):
    ours, stock = (inspect.signature(getattr(module, name)).parameters.values() for module in (cells, nn))
    renamed = {"eps": "epsilon"}  # which our norms take, too
    arguments = [[(renamed.get(p.name, p.name), p.default) for p in parameters] for parameters in (ours, stock)]
    more = arguments[0][len(arguments[1]) :]
    assert arguments[0][: len(arguments[1])] == arguments[1]
    assert all(default is not inspect.Parameter.empty for _, default in more)


def test_which_are_compared():
    assert {"GELU", "GroupNorm", "LayerNorm"} <= {name for name in cells.__all__ if hasattr(nn, name)}


@pytest.mark.parametrize("name", NORMS)
def test_eps_is_another_name_of_epsilon(name):
    layer, sizes = getattr(cells, name), NORMS[name]
    assert layer(*sizes, eps=0.25).epsilon == layer(*sizes, epsilon=0.25).epsilon == 0.25
    assert "epsilon=0.25" in repr(layer(*sizes, eps=0.25))
    with pytest.raises(TypeError, match=f"^{name}: eps is another name of epsilon, got both$"):
        layer(*sizes, eps=0.25, epsilon=0.25)
    position = list(inspect.signature(layer.__init__).parameters).index("epsilon") - 1  # without self
    defaults = [p.default for p in inspect.signature(layer.__init__).parameters.values()][1:]
    with pytest.raises(TypeError, match=f"^{name}: eps is another name of epsilon, got both$"):
        layer(*sizes, *defaults[len(sizes) : position], 0.5, eps=0.25)


@pytest.mark.parametrize("name", NORMS)
def test_errors_name_the_class_that_was_called(name):
    for arguments, message in (({}, "missing a required argument"), ({"bad": 1}, "unexpected keyword argument 'bad'")):
        with pytest.raises(TypeError, match=f"^{name}: .*{message}") as raised:
            getattr(cells, name)(*(NORMS[name] if arguments else ()), **arguments)
        assert "Cell" not in str(raised.value)


def test_every_norm_is_here():
    layers = {name: inspect.signature(getattr(cells, name).__init__).parameters for name in cells.__all__}
    # The other has the norm behind a convolution, and no layer of MindSpore's to be like.
    assert {*NORMS, "Conv2dGroupNorm"} == {name for name, parameters in layers.items() if "epsilon" in parameters}
