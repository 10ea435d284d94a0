"""Gradients that follow from the names in a definition."""

import dataclasses

import pytest

from ms_ascend_ops import registry
from ms_ascend_ops.definitions.backward import backward


def of(name):
    return backward(registry.op_spec(name))


def test_gradients_of_outputs_inputs_and_outputs_are_found_by_their_names():
    """rms_norm_grad takes dy, drstd, x, rstd and gamma, and gives dx and dgamma."""
    found = of("rms_norm")
    assert found.takes == (("dout", 0), ("dout", 1), ("input", 0), ("output", 1), ("input", 1))
    assert found.gives == (0, 1)
    assert found.kept == (("input", 0), ("output", 1), ("input", 1))


def test_both_summands_of_a_residual_have_the_gradient_of_the_sum():
    """add_rms_norm returns y, rstd and the sum x; dresidual is the gradient of that output."""
    found = of("add_rms_norm")
    assert found.takes[:3] == (("dout", 0), ("dout", 1), ("dout", 2))
    assert found.gives == (0, 0, 1)


def test_an_input_without_a_gradient_gets_none():
    found = of("cross_entropy")
    assert found.gives == (0, None)
    assert found.takes_gradient_of(0)
    assert not found.takes_gradient_of(1)  # of lse


@pytest.mark.parametrize("name", ["flash_attention", "grouped_matmul", "rotary_embedding"])
def test_what_does_not_follow_from_names_must_be_composed(name):
    with pytest.raises(ValueError, match=f"^{name}: its gradient must be composed: .* does not follow from names$"):
        of(name)


def test_the_error_names_what_is_missing():
    spec = registry.op_spec("softmax")
    (taken, *others), kernel = spec.gradient.inputs, spec.gradient
    wrong = dataclasses.replace(kernel, inputs=(dataclasses.replace(taken, name="dz"), *others))
    with pytest.raises(ValueError, match="must be composed: dz does not follow"):
        backward(dataclasses.replace(spec, gradient=wrong))
