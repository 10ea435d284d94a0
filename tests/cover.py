"""Which cases a test of a kernel has: every point, and every pair of types and attributes, not their product.

A point is what takes a path through the kernel: a shape, or a shape with what belongs to it. How a kernel treats an
attribute does not depend on all shapes, nor on all other attributes at once. `--cases` of pytest says how many:

- `one`: the first point, and of each other test of tests/kernels the first case; a fifth of the random programs. For an
  emulated CPU, on which a test takes fifteen times as long.
- `few`: every third point. For sanitizers, which look at the host layer, not at kernels.
- `paths`: every point once, with values in turn. For builds in which only the machine code differs.
- `pairs`, the default: also every value of a parameter on two points, and with every value of each other parameter.
- `all`: every combination on every point (`bash build.sh test --thorough`).
"""

import re
from collections import Counter
from itertools import combinations as combinations_of
from itertools import product

import pytest

LEVELS = ("one", "few", "paths", "pairs", "all")
ONE_OF_POINTS = 3
DEFAULT = "pairs"
COMPILED = ("graph", "jit")  # of tests/modes.py
DTYPES = ("float16", "bfloat16", "float32", "int32", "int8")
POINTS_OF_A_VALUE = 2


def cover(names, points, also=(), **parameters):
    """Parametrize a test by points, which are values of `names`, and by parameters: their lists of values.

    `also` are rows of (point, values of the parameters) for points whose path depends on those.
    """
    return pytest.mark.cover(names, list(points), also, parameters)


def rows(points, parameters, level=DEFAULT):
    """(point, values of the parameters) of each case."""
    if level in ("one", "few"):
        return rows(points[:1] if level == "one" else points[::ONE_OF_POINTS], parameters, "paths")
    if level == "all":
        return list(product(points, product(*parameters)))
    # A value is told from an equal one of another parameter by its place.
    combinations = [tuple(enumerate(values)) for values in product(*parameters)]
    wanted = dict.fromkeys((value for combination in combinations for value in combination), POINTS_OF_A_VALUE)
    wanted |= dict.fromkeys((pair for combination in combinations for pair in combinations_of(combination, 2)), 1)
    if level == "paths" or len(points) < POINTS_OF_A_VALUE:
        wanted = dict.fromkeys(wanted, int(level != "paths"))
    chosen, met, covered, found = Counter(), Counter(), Counter(), []
    while len(found) < len(points) or any(covered[thing] < times for thing, times in wanted.items()):
        at = len(found) % len(points)

        def come(combination, at=at):
            """Whether it was here; what it has that is still missing; how often its pairs and values came."""
            pairs = [*combinations_of(combination, 2)]
            missing = sum(covered[thing] < wanted[thing] and not met[at, thing] for thing in (*pairs, *combination))
            values = sum(met[at, value] for value in combination), sum(chosen[value] for value in combination)
            return met[at, combination], -missing, *values, sum(chosen[pair] for pair in pairs)

        combination = min(combinations, key=come)
        found.append((points[at], tuple(value for _, value in combination)))
        for thing in {combination, *combination, *combinations_of(combination, 2)}:
            covered[thing] += not met[at, thing]
            chosen[thing] += 1
            met[at, thing] += 1
    return found


def text(value):
    """As a part of the name of a case."""
    return (
        "-".join(value) if isinstance(value, tuple) and all(isinstance(v, str) for v in value) and value else str(value)
    )


def cases(mark, level):
    """The rows of values of a test with this mark, and their names."""
    names, points, also, parameters = mark.args
    found = rows(points, parameters.values(), level)
    if level not in ("one", "few"):
        found += [(point, tuple(values)) for point, *values in also if (point, tuple(values)) not in found]
    found = [[*(point if "," in names else [point]), *values] for point, values in found]
    return found, ["-".join(map(text, values)) for values in found]


def parametrize(metafunc):
    """For pytest_generate_tests."""
    for mark in metafunc.definition.iter_markers("cover"):
        names, _, _, parameters = mark.args
        found, ids = cases(mark, metafunc.config.getoption("cases"))
        metafunc.parametrize([*names.split(", "), *parameters], found, ids=ids)


def needless_graphs(items):
    """Those cases of tests with a `mode` that another one stands for.

    A graph takes half a second to compile, and how a mode hands on one argument does not depend on the others: every
    combination of the other parameters runs in PyNative, and the first in a mode that compiles. After that a value has
    its graph, in one of the modes in turn, if none had it before, and if it is an attribute: shapes and dtypes are
    inferred by the same code in all modes, and of an error only that it arrives depends on the mode.
    """
    tests, turns = {}, Counter()
    for item in items:
        mode = item.callspec.params.get("mode") if hasattr(item, "callspec") else None
        if mode in COMPILED:
            others = re.sub(rf"\b{mode}\b", "", item.callspec.id)
            tests.setdefault((item.path, item.originalname), {}).setdefault(others, {})[mode] = item
    needless = set()
    for (path, _), combinations in tests.items():
        met = set()
        for at, of_mode in enumerate(combinations.values()):
            (first, *_) = of_mode.values()
            values = _values(first.callspec.params)
            if at and values <= met:
                needless.update(of_mode.values())
                continue
            met |= values
            if len(of_mode) > 1:
                needless.add(of_mode[COMPILED[turns[path] % 2]])
            turns[path] += 1
    return needless


def _values(parameters):
    """What a graph is compiled for: values of attributes."""
    if "message" in parameters:
        return set()
    return {(name, str(value)) for name, value in parameters.items() if name != "mode" and not _of_a_tensor(value)}


def _of_a_tensor(value):
    """Whether this is a shape, a dtype, or one for each of some tensors."""
    if isinstance(value, tuple):
        return all(type(part) is int or part in DTYPES for part in value)
    return isinstance(value, str) and value in DTYPES


def ids_of(function):
    """The names of the cases of a test, without its own name."""
    (mark,) = (mark for mark in function.pytestmark if mark.name == "cover")
    return cases(mark, DEFAULT)[1]
