"""The seeded bugs still fit the sources; `bash build.sh check --mutations` compiles and runs them."""

import os
from pathlib import Path

from ms_ascend_ops import registry
from tests.kernels.checked import mutate as kernels
from tests.kernels.host import mutate as host
from tests.kernels.mutation import expand, load

SOURCE = Path(os.environ.get("MS_ASCEND_OPS_SOURCE", Path(__file__).parents[3]))
LISTS = {path: load(path, host.CAUGHT) for path in (kernels.LIST, host.LIST)}
MINIMUM = 40


def test_there_are_enough():
    for path, (_, mutations) in LISTS.items():
        assert len(mutations) >= MINIMUM, path
        assert len({mutation.bug for mutation in mutations}) == len(mutations), path


def test_the_text_stands_in_the_source_once():
    wrong = [
        f"{path.parent.name}/{path.name}: change the entry with {mutation.file}: {mutation.bug}"
        for path, (_, mutations) in LISTS.items()
        for mutation in mutations
        if mutation.count(SOURCE) != 1
    ]
    assert not wrong


def test_entries_are_whole():
    for path, (cases, mutations) in LISTS.items():
        for mutation in mutations:
            assert mutation.cases in cases, (path, mutation.bug)
            assert not mutation.op or mutation.op in registry.names(), (path, mutation.bug)
            assert mutation.caught, (path, mutation.bug)
            assert mutation.old != mutation.new, (path, mutation.bug)


def test_the_cases_exist():
    for case in [case for cases, _ in LISTS.values() for names in cases.values() for case in names]:
        path, _, test = case.partition("::")
        assert expand(case), case
        assert f"def {test.partition('[')[0]}" in (Path(__file__).parents[3] / path).read_text(), case
