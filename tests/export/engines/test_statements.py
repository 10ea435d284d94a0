"""The form in which every statement does one thing: it computes what the function did, in the same order."""

import numpy as np
import pytest
from ms_ascend_ops.export.engines.flat import Flat
from ms_ascend_ops.export.engines.statements import NotSimpleError, simplified

CALLS = []


def flat_of(name, made):
    return Flat(name, made.source, made.names, made.owners)


def noted(value):
    CALLS.append(value)
    return value


def doubled(value, *, times=2):
    return noted(value) * times


def many(x, *rest, flag=True, **named):
    """What a construct may hold."""
    total: int = noted(1) + noted(2) * doubled(noted(3))
    pair = (total, *rest)
    if flag and (x > 100 or noted(4)):
        total += doubled(noted(5), times=noted(6))
    elif noted(7):
        total = -total
    for item in pair[1:]:
        while total < 50:
            total = total + noted(item) if item else noted(50)
    try:
        values = [noted(v) for v in pair]
    except ValueError:
        values = []
    with np.errstate(all="ignore"):
        first, *others = values
    return (
        {"first": first},
        others[0 if flag else -1] + sum(named.values()),
        f"{noted(total)}",
        sorted(pair, key=lambda y: y + x),
    )


@pytest.mark.parametrize("flag", [True, False])
def test_what_is_computed_and_in_which_order(flag):
    CALLS.clear()
    expected = many(3, 4, 5, flag=flag, a=1, b=2)
    order = list(CALLS)
    flat = flat_of("many", simplified(many))
    CALLS.clear()
    assert flat.function(3, 4, 5, flag=flag, a=1, b=2) == expected
    assert order == CALLS
    # `doubled` has a name of its own there, and each of its parts a statement.
    source = "\n".join(flat.lines)
    assert "def simple_doubled_" in source
    assert "noted(1) +" not in source


def test_results_that_nobody_reads():
    def pair(x):
        return x + 1, x * 2

    flat = flat_of("pair", simplified(pair, unread=[1]))
    assert flat.function(3) == (4, None)
    assert "* 2" not in "\n".join(flat.lines)


def returns_more(x):
    return x, *[x, x]


def returns_one(x):
    return (x,)


@pytest.mark.parametrize("function", [returns_more, returns_one])
def test_results_that_have_no_place_in_the_source(function):
    with pytest.raises(NotSimpleError, match="not all that it returns"):
        simplified(function, unread=[1])


class Owner:
    __hidden = 1

    def private(self):
        return self.__hidden

    def parent(self):
        return super().__repr__()


def closure():
    value = noted(1)

    def inner():
        return value

    return inner


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (Owner.private, "private names"),
        (Owner.parent, "a closure"),
        (closure(), "a closure"),
        (lambda x: x, "no plain function"),
    ],
)
def test_what_has_no_such_form(function, reason):
    with pytest.raises(NotSimpleError, match=reason):
        simplified(function)
