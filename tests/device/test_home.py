"""Where a client finds CANN."""

from __future__ import annotations

from pathlib import Path

import pytest

from ms_ascend_ops.device import environment


@pytest.mark.parametrize("version", ["2.7.1", "2.8.0", "2.10.0"])
def test_the_folder_of_cann(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MindSpore 2.7 wants one that is called `latest`, with `opp_kernel` beside `opp`; it is made once."""
    monkeypatch.setattr(environment.metadata, "version", lambda name: version)
    for _ in range(2):
        home = environment._home(tmp_path)
    if version != "2.7.1":
        assert home == environment.HOME
        return
    assert home.name == "latest"
    assert {path.name for path in home.iterdir()} == {path.name for path in environment.HOME.iterdir()} | {"opp_kernel"}
    assert (home / "opp_kernel").samefile(environment.HOME / "opp")
    assert (home / "lib64/libascendcl.so").samefile(environment.HOME / "lib64/libascendcl.so")
