"""`bench --calls`: what a call costs."""

import pytest
from ms_ascend_ops.benchmarks.calls import MODES, measure


@pytest.mark.parametrize("name", ["softmax", "group_norm"])
def test_operators_with_and_without_attributes_are_measured_in_every_mode(name):
    costs = list(measure([name], rounds=1, calls=10))
    assert [(cost.operator, cost.mode) for cost in costs] == [(name, mode) for mode in MODES]
    assert all(cost.us > 0 and cost.ratio == cost.us / cost.add_us for cost in costs)
