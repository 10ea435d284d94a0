"""The seeded bugs still fit the sources; `bash build.sh check --mutations` compiles and runs them."""

import os
from pathlib import Path

import pytest

from ms_ascend_ops import registry
from tests.kernels.checked import mutate as kernels
from tests.kernels.host import mutate as host
from tests.kernels.mutation import expand, load

SOURCE = Path(os.environ.get("MS_ASCEND_OPS_SOURCE", Path(__file__).parents[3]))
LISTS = {path: load(path, host.CAUGHT) for path in (kernels.LIST, host.LIST)}
MUTATIONS = [(path, mutation) for path, (_, mutations) in LISTS.items() for mutation in mutations]
MINIMUM = 40


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.parent.name)
def test_there_are_enough(path):
    _, mutations = LISTS[path]
    assert len(mutations) >= MINIMUM
    assert len({mutation.bug for mutation in mutations}) == len(mutations)


@pytest.mark.parametrize(("path", "mutation"), MUTATIONS, ids=[mutation.bug for _, mutation in MUTATIONS])
def test_the_text_stands_in_the_source_once(path, mutation):
    assert mutation.count(SOURCE) == 1, f"{mutation.file}: change {path.parent.name}/{path.name} with the source"
    assert mutation.cases in LISTS[path][0]
    assert not mutation.op or mutation.op in registry.names()
    assert mutation.caught
    assert mutation.old != mutation.new


@pytest.mark.parametrize("case", [case for cases, _ in LISTS.values() for names in cases.values() for case in names])
def test_the_cases_exist(case):
    assert expand(case)
    path, _, test = case.partition("::")
    assert f"def {test.partition('[')[0]}" in (Path(__file__).parents[3] / path).read_text()
