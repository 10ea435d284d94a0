import subprocess
import sys
from pathlib import Path

import pytest

import ms_ascend_ops
from ms_ascend_ops import __version__, library


@pytest.fixture(autouse=True)
def _search_again():
    library.native.cache_clear()
    yield
    library.native.cache_clear()


def test_path_and_version():
    assert library.native().version() == __version__
    assert Path(library.library_path()).samefile(library.LIBRARY)


def test_missing(monkeypatch, tmp_path):
    path = tmp_path / "lib" / "libms_ascend_ops.so"
    monkeypatch.setattr(library, "LIBRARY", path)
    with pytest.raises(RuntimeError) as error:
        library.native()
    assert str(error.value) == (
        f"ms_ascend_ops: the kernel library is missing: {path}. "
        "Build it with `pip install .` (or `bash build.sh host`) in the source tree of ms_ascend_ops."
    )


def test_another_version(monkeypatch):
    monkeypatch.setattr(library, "__version__", "99.0")
    with pytest.raises(RuntimeError, match=rf"libms_ascend_ops.so has version {__version__}, but the package has 99.0"):
        library.native()


def test_the_module_needs_no_mindspore():
    code = "import sys; from ms_ascend_ops import _C; _C.signatures(); assert 'mindspore' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_number_of_threads():
    ms_ascend_ops.set_num_threads(0)
    usual = ms_ascend_ops.get_num_threads()
    try:
        ms_ascend_ops.set_num_threads(3)
        assert ms_ascend_ops.get_num_threads() == 3
        ms_ascend_ops.set_num_threads(256)
        assert ms_ascend_ops.get_num_threads() == 256
        for wrong, error in [(-1, ValueError), (257, ValueError), (2.0, TypeError), (True, TypeError)]:
            with pytest.raises(error, match=r"^set_num_threads: count must be "):
                ms_ascend_ops.set_num_threads(wrong)
        assert ms_ascend_ops.get_num_threads() == 256
    finally:
        ms_ascend_ops.set_num_threads(0)
    assert ms_ascend_ops.get_num_threads() == usual
