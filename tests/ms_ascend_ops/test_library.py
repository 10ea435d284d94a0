import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import mindspore as ms
import pytest

import ms_ascend_ops
from ms_ascend_ops import __version__, custom, library, registry
from ms_ascend_ops.device import stubs


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


def test_a_module_for_another_python(monkeypatch, tmp_path):
    path = tmp_path / "lib" / "libms_ascend_ops.so"
    path.parent.mkdir()
    path.touch()
    (tmp_path / "_C.cpython-39-x86_64-linux-gnu.so").touch()

    def failing(name):
        raise ImportError(f"No module named '{name}'")

    monkeypatch.setattr(library, "LIBRARY", path)
    monkeypatch.setattr(library, "import_module", failing)
    here = sys.implementation.cache_tag
    with pytest.raises(RuntimeError, match=f"built for cpython-39-x86_64-linux-gnu, and this Python is {here}"):
        library.native()
    (tmp_path / f"_C.{here}-x86_64-linux-gnu.so").touch()  # the reason is another one then
    with pytest.raises(RuntimeError, match=r"No module named 'ms_ascend_ops\._C'"):
        library.native()


def test_the_module_belongs_to_no_mindspore():
    """One build is for all versions of it."""
    for path in (library.LIBRARY, Path(library.native().__file__)):
        needed = stubs._symbols(path).needed
        assert any(name.startswith(b"libc.so") for name in needed)
        assert not [name for name in needed if b"mindspore" in name]


def test_another_version(monkeypatch):
    monkeypatch.setattr(library, "__version__", "99.0")
    with pytest.raises(RuntimeError, match=rf"libms_ascend_ops.so has version {__version__}, but the package has 99.0"):
        library.native()


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        ({"attributes": ()}, "is not the one that the library was built from"),
        ({"name": "new_op"}, "is not in the library"),
    ],
)
def test_a_definition_that_was_changed_after_the_build(changed, difference):
    signature = registry.signature("rms_norm")
    library.check_built(signature)
    with pytest.raises(RuntimeError) as error:
        library.check_built(dataclasses.replace(signature, **changed))
    name = changed.get("name", "rms_norm")
    assert str(error.value).startswith(f"{name}: the definition of this kernel {difference}, {library.library_path()}.")
    assert "Run `bash build.sh host` in the source tree" in str(error.value)


def test_an_operator_is_compared_with_the_library_when_it_is_first_called(monkeypatch):
    spec = registry.op_spec("silu_mul")
    changed = dataclasses.replace(spec.forward, types=spec.forward.types[1:])
    monkeypatch.setattr(custom.registry, "signature", lambda _: changed)
    x = ms.Tensor([1.0], ms.float32)
    with pytest.raises(RuntimeError, match="silu_mul: the definition of this kernel is not the one"):
        custom.Selector("silu_mul")(x, x)(x, x)


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


@pytest.mark.parametrize("count", ["1.5", "0", "257", ""])
def test_a_variable_that_is_no_number_of_threads_is_ignored(count):
    code = "from ms_ascend_ops import _C; print(_C.get_thread_num())"
    command = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0))), sys.executable, "-c", code]
    environment = {**os.environ, "MS_ASCEND_OPS_NUM_THREADS": count}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "1\n"
    assert done.stderr == f"ms_ascend_ops: MS_ASCEND_OPS_NUM_THREADS must be 1 to 256, got '{count}'; it is ignored\n"
