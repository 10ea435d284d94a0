"""Runs kernels in the traced build of the library, which it builds when it is missing or old."""

from __future__ import annotations

import fcntl
import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from ms_ascend_ops import registry
from ms_ascend_ops.definitions.inference import MaybeShape, given_types, infer_shapes, infer_types
from ms_ascend_ops.extras import source_tree
from ms_ascend_ops.profiler.trace import Trace
from ms_ascend_ops.profiler.worker import Request
from ms_ascend_ops.version import __version__

__all__ = ["RecordError", "Recorder", "build", "need_sources", "request"]

# Names a library built elsewhere, e.g. by CI.
_VARIABLE = "MS_ASCEND_OPS_TRACED_LIBRARY"
# CMakeLists.txt builds a library of these operators only, beside that of all.
_SOME_OPERATORS = "MS_ASCEND_OPS_OPERATORS"

_TOLD_PERCENT = 10  # of a build, between two lines


class RecordError(RuntimeError):
    """The traced library is missing, or a kernel ended it."""


def request(
    kernel: str,
    shapes: Sequence[MaybeShape],
    dtypes: Sequence[str],
    attributes: Mapping[str, Any],
    cores: int,
    ub_bytes: int,
    **settings: Any,
) -> Request:
    """Request a launch of `kernel` ("rms_norm", "rms_norm_grad") on inputs of these shapes and dtypes.

    Raises:
        ValueError: a shape or an attribute breaks the definition's rules.
        TypeError: a dtype does.
    """
    signature = registry.signature(kernel)
    values = signature.check_attributes(attributes)
    outputs = infer_shapes(signature, list(shapes), values)
    return Request(
        kernel=kernel,
        shapes=[*shapes, *outputs],
        dtypes=[*dtypes, *infer_types(signature, given_types(shapes, dtypes))],
        input_count=len(shapes),
        attributes=values,
        cores=cores,
        ub_bytes=ub_bytes,
        **settings,
    )


class Recorder:
    """Runs a process with the traced library in it. Use it as a context manager."""

    def __init__(self, library: Path):
        self._library = library
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.close()
            self._process.stdout.close()
            self._process.wait()
            self._process = None
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def run(self, wanted: Request) -> Trace:
        """Record a launch.

        Raises:
            RecordError: the kernel ended the process, e.g. because its tiles do not fit the Unified Buffer.
            ValueError: the library refuses the call.
        """
        return self.run_compared(wanted)[0]

    def run_compared(self, wanted: Request) -> tuple[Trace, float]:
        """Do as run(), and return how far the outputs are from those of the reference: worker.difference()."""
        if self._process is None:
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            pickle.dump(wanted, self._process.stdin)
            self._process.stdin.flush()
            answer = pickle.load(self._process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            message = self._last_words()
            self.close()
            raise RecordError(f"{wanted.kernel}: the kernel ended its process: {message}") from error
        if isinstance(answer, Exception):
            raise answer
        trace, difference = answer
        return trace, difference

    def _start(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ms_ascend_ops.profiler.worker", str(self._library)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )

    def _last_words(self) -> str:
        assert self._errors is not None
        assert self._process is not None
        self._process.wait()
        self._errors.seek(0)
        text = self._errors.read().decode(errors="replace").strip()
        return text.splitlines()[-1] if text else f"exit status {self._process.returncode}"


def need_sources() -> None:
    """Check that there is a traced library, or the sources to build one from.

    Raises:
        RecordError: there is neither.
    """
    if not os.environ.get(_VARIABLE):
        _sources_or_raise()


def _sources_or_raise(observer: str = "traced", purpose: str = "a profile") -> Path:
    root = source_tree()
    if root is None:
        other = f", or set {_VARIABLE} to a traced libms_ascend_ops.so" if observer == "traced" else ""
        raise RecordError(
            f"{purpose} needs the {observer} build of the kernels, which is made from their sources; this is an "
            f"installed package without them. Clone the repository at version {__version__}, run "
            f"`pip install -e '.[profile]'` there and work from that environment{other}."
        )
    return root


def build(
    tell: Callable[[str], None],
    observer: str = "traced",
    target: str = "ms_ascend_ops",
    purpose: str = "a profile",
) -> Path:
    """Return the traced library, built if need be; `tell` gets lines of text while that goes on.

    `observer` names another observed build ("checked"), `target` another library of CMakeLists.txt; `purpose` is what
    messages say that it is needed for.

    Raises:
        RecordError: there are no sources here, or the build fails.
    """
    given = os.environ.get(_VARIABLE)
    if given and (observer, target) == ("traced", "ms_ascend_ops"):
        if not Path(given).is_file():
            raise RecordError(f"{_VARIABLE} names {given}, which is no file")
        return Path(given)
    root = _sources_or_raise(observer, purpose)
    folder = root / "build" / ("check" if observer == "checked" else observer)  # build.sh check has the same
    if os.environ.get(_SOME_OPERATORS):
        folder = folder.with_name(f"{folder.name}-some")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one process builds, the others wait
        return _build(root, folder, tell, observer, target)


def _build(root: Path, folder: Path, tell: Callable[[str], None], observer: str, target: str) -> Path:
    library = folder / f"lib{target}.so"
    if not library.is_file():
        doing = f"building the {observer} library, once"
    elif _newest_source(root) > library.stat().st_mtime:
        doing = f"the kernels have changed: building the {observer} library again"
    else:
        return library
    tell(doing)
    configure: list[str | Path] = [
        "cmake",
        "-S",
        root,
        "-B",
        folder,
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-DMS_ASCEND_OPS_OBSERVER={observer}",
    ]
    if os.environ.get(_SOME_OPERATORS):
        configure += ["-DMS_ASCEND_OPS_UNITY=2", "-DMS_ASCEND_OPS_TEST_BUILD=ON"]  # quick to build
    compiling: list[str | Path] = ["cmake", "--build", folder, "--target", target]
    compiling += ["--parallel", str(os.cpu_count() or 1)]
    for command in (configure, compiling):
        output = []
        told = 0
        try:
            running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        except FileNotFoundError as error:
            raise RecordError(f"building the {observer} library needs CMake: pip install 'cmake>=3.19'") from error
        with running:
            assert running.stdout is not None
            for line in running.stdout:
                output.append(line)
                if (done := _share(line)) >= told + _TOLD_PERCENT:
                    told = done
                    tell(f"{doing}: {done} %")
        if running.returncode != 0:
            raise RecordError(f"the {observer} library does not build:\n{''.join(output)[-2000:]}")
    library.touch()  # newer than the sources also if nothing had to be compiled
    return library


def _share(line: str) -> int:
    """Return the percentage that a line of `cmake --build` begins with, of Make or of Ninja; 0 without one."""
    found = re.match(r"\[ *(\d+)(?:%|/(\d+))\]", line)
    return 0 if found is None else int(found[1]) * 100 // int(found[2] or 100)


def _newest_source(root: Path) -> float:
    files = [root / "CMakeLists.txt", *(root / "ms_ascend_ops" / "ops").glob("*.yaml")]
    files += [path for ending in ("h", "cpp", "py") for path in (root / "kernels").rglob(f"*.{ending}")]
    return max(path.stat().st_mtime for path in files)
