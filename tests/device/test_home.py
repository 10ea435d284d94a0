"""Where a client finds CANN."""

from __future__ import annotations

from pathlib import Path

import pytest

from ms_ascend_ops.device import environment


@pytest.mark.parametrize(("version", "cann"), [
    ("2.7.1", "8.3.0"), ("2.7.2", "8.5.0"), ("2.8.0", "8.5.0"), ("2.9.0", "9.0.0"), ("2.10.0", "9.1.0"),
])  # fmt: skip
def test_the_folder_of_cann(version: str, cann: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the CANN that MindSpore asks for; 2.7.1 wants `latest`, with `opp_kernel` beside `opp`."""
    monkeypatch.setattr(environment.metadata, "version", lambda name: version)
    for _ in range(2):
        home = environment._home(tmp_path)
    assert (home / "compiler/version.info").read_text() == f"Version={cann}\n"
    assert not environment.other_cann({"ASCEND_HOME_PATH": str(home)})
    if version == "2.10.0":
        assert home == environment.HOME
        return
    assert home.name == ("latest" if version == "2.7.1" else "cann")
    # It is made once.
    assert {path.name for path in home.iterdir()} == {path.name for path in environment.HOME.iterdir()} | {"opp_kernel"}
    assert (home / "opp_kernel").samefile(environment.HOME / "opp")
    assert (home / "lib64/libascendcl.so").samefile(environment.HOME / "lib64/libascendcl.so")
