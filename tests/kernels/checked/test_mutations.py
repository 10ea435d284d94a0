"""The seeded bugs still fit the sources; `bash build.sh check --mutations` compiles and runs them."""

import os
from pathlib import Path

import pytest

from tests.kernels.checked.mutate import load

SOURCE = Path(os.environ.get("MS_ASCEND_OPS_SOURCE", Path(__file__).parents[3]))
CASES, MUTATIONS = load()
MINIMUM = 40


def test_there_are_enough():
    assert len(MUTATIONS) >= MINIMUM


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.bug)
def test_the_text_stands_in_the_source_once(mutation):
    assert mutation.count(SOURCE) == 1, f"{mutation.file}: change tests/kernels/checked/mutations.yaml with the kernel"
    assert mutation.cases in CASES
    assert mutation.old != mutation.new
