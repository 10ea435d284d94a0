import pytest

from ms_ascend_ops import dispatch
from ms_ascend_ops.dispatch import table
from tests.ms_ascend_ops.dispatch import versions


@pytest.fixture(autouse=True)
def _as_it_was(tmp_path, monkeypatch):
    """Nothing registered, no policy, and a cache of its own."""
    monkeypatch.setenv("MS_ASCEND_OPS_CACHE", str(tmp_path / "cache"))
    yield
    dispatch.reset()
    for operator, of_operator in table._tables.items():
        for one in list(of_operator.implementations):
            if (one.function is not None and one.version != "composition") or one.library is not None:
                dispatch.unregister(operator, one.version)


@pytest.fixture(scope="session")
def version(tmp_path_factory):
    """Makes a library of a changed kernel, once."""
    made = {}

    def make(name):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            made[name] = versions.crashing(folder) if name == "crash" else versions.build(name, folder)
        return made[name]

    return make
