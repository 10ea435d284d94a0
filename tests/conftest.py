import gc
from collections import Counter
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
KERNELS = TESTS / "kernels"
# PyNative is synchronous there (tests/modes.py): networks, and what many operators of MindSpore are run for.
SYNCHRONOUS = ("benchmarks", "cells", "examples", "export", "npu", "ops/test_not_worse_than_stock.py",
               "ops/test_dynamic_shapes.py", "ops/test_export.py")  # fmt: skip


def pytest_addoption(parser):
    parser.addoption(
        "--sample", type=int, default=1, metavar="N", help="of every test in tests/kernels/test_*.py, one of N cases"
    )


def pytest_collection_modifyitems(config, items):
    """`--sample`. A prime number as N keeps all values of every parameter: few lists are multiples of it."""
    step, cases, kept, left = config.getoption("sample"), Counter(), [], []
    for item in items:
        test = item.path, getattr(item, "originalname", item.name)
        (left if item.path.parent == KERNELS and cases[test] % step else kept).append(item)
        cases[test] += 1
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def pytest_collection_finish():
    """MindSpore collects garbage whenever it compiles a graph: not through all that was imported until here."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _own_working_directory(tmp_path, monkeypatch):
    """MindSpore writes diagnostics into the working directory: not into the source tree, nor into another test's."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _synchronous_networks(request):
    if not any(request.path.is_relative_to(TESTS / path) for path in SYNCHRONOUS):
        yield
        return
    from tests.modes import synchronous  # noqa: PLC0415 - MindSpore, which the tests of kernels do without

    with synchronous():
        yield
