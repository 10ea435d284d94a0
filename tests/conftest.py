import gc

import pytest


def pytest_addoption(parser):
    parser.addoption("--sample", type=int, default=1, metavar="N", help="of every test, one of N cases, and the first")


def pytest_collection_modifyitems(config, items):
    """`--sample`. N should divide no number of parameters: then every parameter keeps all its values."""
    step, cases, kept, left = config.getoption("sample"), {}, [], []
    for item in items:
        number = cases.setdefault((item.path, getattr(item, "originalname", item.name)), 0)
        cases[item.path, getattr(item, "originalname", item.name)] += 1
        (left if number % step else kept).append(item)
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
