"""The scheme of cases (tests/cover.py) covers what it says."""

from itertools import combinations, product
from types import SimpleNamespace

import pytest

from tests.cover import POINTS_OF_A_VALUE, needless_graphs, rows

PARAMETERS = (("a", "b", "c"), (False, True), (0, 1))


@pytest.mark.parametrize("count", [1, 2, 5, 6, 13, 24])
@pytest.mark.parametrize("parameters", [PARAMETERS[:1], PARAMETERS[:2], PARAMETERS], ids=len)
def test_every_point_every_value_on_two_points_and_every_pair(count, parameters):
    points = range(count)
    found = rows(points, parameters)
    assert {point for point, _ in found} == set(points)
    for place, values in enumerate(parameters):
        for value in values:
            met = {point for point, chosen in found if chosen[place] == value}
            assert len(met) >= min(POINTS_OF_A_VALUE, count)
    for (i, first), (j, second) in combinations(enumerate(parameters), 2):
        assert {(chosen[i], chosen[j]) for _, chosen in found} == set(product(first, second))
    assert len(set(found)) == len(found)
    widest = [1, *sorted(map(len, parameters))]
    assert len(found) <= max(count, POINTS_OF_A_VALUE * widest[-1], widest[-1] * widest[-2] + POINTS_OF_A_VALUE)


@pytest.mark.parametrize("count", [3, 13])
def test_paths_are_points(count):
    found = rows(range(count), PARAMETERS, "paths")
    assert [point for point, _ in found] == list(range(count))
    for place, values in enumerate(PARAMETERS):
        assert {row[place] for _, row in found} == set(values)


def test_few_are_some_of_the_paths():
    assert [point for point, _ in rows(range(13), PARAMETERS, "few")] == [0, 3, 6, 9, 12]


def test_one_is_the_first_point():
    assert [point for point, _ in rows(range(13), PARAMETERS, "one")] == [0]


def test_all_is_the_product():
    assert rows("xy", PARAMETERS, "all") == list(product("xy", product(*PARAMETERS)))


class Case(SimpleNamespace):
    """As pytest has it."""

    __hash__ = object.__hash__


def with_modes(test, name, values, modes=("pynative", "graph", "jit")):
    specs = [
        SimpleNamespace(params={"mode": mode, name: value}, id=f"{value}-{mode}") for mode in modes for value in values
    ]
    return [Case(path="test_x.py", originalname=test, callspec=spec) for spec in specs]


def left(items):
    return {(item.originalname, item.callspec.id) for item in needless_graphs(items)}


def test_each_value_of_an_attribute_is_compiled_in_one_mode():
    items = with_modes("many", "axis", "abc") + with_modes("one", "axis", "a")
    items += with_modes("two_modes", "axis", "ab", ("pynative", "graph"))
    items.append(Case(path="test_x.py", originalname="plain"))
    assert left(items) == {("many", "a-graph"), ("many", "b-jit"), ("many", "c-graph"), ("one", "a-jit")}


@pytest.mark.parametrize(
    ("name", "values"), [("types", [("float16", "float32"), "bfloat16", "int8"]), ("shape", [(1,), (2, 3), (4,)])]
)
def test_other_shapes_and_dtypes_are_not_compiled(name, values):
    a, b, c = values
    assert left(with_modes("dtypes", name, values)) == {("dtypes", f"{at}-{mode}") for at, mode in (
        (a, "graph"), (b, "graph"), (b, "jit"), (c, "graph"), (c, "jit"))}  # fmt: skip


def test_other_errors_are_not_compiled():
    items = with_modes("errors", "axis", "abc")
    for item in items:
        item.callspec.params["message"] = item.callspec.id
    assert {case for _, case in left(items)} == {"a-graph", "b-graph", "b-jit", "c-graph", "c-jit"}


def test_values_that_were_compiled_are_not_compiled_again():
    items = with_modes("values", "axis", "ab")
    for case in items[:]:  # a and b once more
        specs = vars(case.callspec)
        again = SimpleNamespace(**{**specs, "id": f"again-{specs['id']}"})
        items.append(Case(path=case.path, originalname=case.originalname, callspec=again))
    assert {case for _, case in left(items)} == {
        "a-graph", "b-jit", *(f"again-{value}-{mode}" for value in "ab" for mode in ("graph", "jit"))}  # fmt: skip
