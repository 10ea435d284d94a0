import pytest


@pytest.fixture(autouse=True)
def _own_working_directory(tmp_path, monkeypatch):
    """MindSpore writes diagnostics into the working directory: not into the source tree, nor into another test's."""
    monkeypatch.chdir(tmp_path)
