"""Runs kernels in the traced build of the library, which it builds when it is missing or old."""

from __future__ import annotations

import fcntl
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from ms_ascend_ops import registry
from ms_ascend_ops.profiler.trace import Trace
from ms_ascend_ops.profiler.worker import Request
from ms_ascend_ops.shapes import infer_shapes, infer_types
from ms_ascend_ops.version import __version__

__all__ = ["RecordError", "Recorder", "build", "request"]

# Of a library built elsewhere, e.g. by CI.
_VARIABLE = "MS_ASCEND_OPS_TRACED_LIBRARY"


class RecordError(RuntimeError):
    """The traced library is missing, or a kernel ended it."""


def request(
    kernel: str,
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[str],
    attributes: Mapping[str, Any],
    cores: int,
    ub_bytes: int,
    **settings: Any,
) -> Request:
    """A launch of `kernel` ("rms_norm", "rms_norm_grad") on inputs of these shapes and dtypes.

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
        dtypes=[*dtypes, *infer_types(signature, list(dtypes))],
        input_count=len(shapes),
        attributes=values,
        cores=cores,
        ub_bytes=ub_bytes,
        **settings,
    )


class Recorder:
    """A process with the traced library in it. Use it as a context manager."""

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
        """As run(), with how far the outputs are from those of the reference: worker.difference()."""
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


def _sources() -> Path | None:
    """The source tree that this package runs from, if it does."""
    root = Path(registry.__file__).resolve().parent.parent
    return root if (root / "CMakeLists.txt").is_file() and (root / "kernels" / "host" / "traced").is_dir() else None


def build(tell: Callable[[str], None], observer: str = "traced", target: str = "ms_ascend_ops") -> Path:
    """The traced library, built if need be; `tell` gets a line of text when that takes time.

    `observer` names another observed build ("checked"), `target` another library of CMakeLists.txt.

    Raises:
        RecordError: there are no sources here, or the build fails.
    """
    given = os.environ.get(_VARIABLE)
    if given and (observer, target) == ("traced", "ms_ascend_ops"):
        if not Path(given).is_file():
            raise RecordError(f"{_VARIABLE} names {given}, which is no file")
        return Path(given)
    root = _sources()
    if root is None:
        raise RecordError(
            "a profile needs the traced build of the kernels, which is made from their sources; this is an installed "
            f"package without them. Clone the repository at version {__version__}, run `pip install -e .` there and "
            f"profile from that environment, or set {_VARIABLE} to a traced libms_ascend_ops.so."
        )
    folder = root / "build" / ("check" if observer == "checked" else observer)  # build.sh check has the same
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one process builds, the others wait
        return _build(root, folder, tell, observer, target)


def _build(root: Path, folder: Path, tell: Callable[[str], None], observer: str, target: str) -> Path:
    library = folder / f"lib{target}.so"
    if not library.is_file():
        tell(f"building the {observer} library (once; a few minutes)")
    elif _newest_source(root) > library.stat().st_mtime:
        tell(f"the kernels have changed: building the {observer} library again")
    else:
        return library
    commands: list[list[str | Path]] = [
        [
            "cmake",
            "-S",
            root,
            "-B",
            folder,
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-DMS_ASCEND_OPS_OBSERVER={observer}",
        ],
        ["cmake", "--build", folder, "--target", target, "--parallel", str(os.cpu_count() or 1)],
    ]
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise RecordError("building the traced library needs CMake: pip install 'cmake>=3.19'") from error
        if done.returncode != 0:
            raise RecordError(f"the {observer} library does not build:\n{(done.stdout + done.stderr)[-2000:]}")
    library.touch()  # newer than the sources also if nothing had to be compiled
    return library


def _newest_source(root: Path) -> float:
    files = [root / "CMakeLists.txt", *(root / "ms_ascend_ops" / "ops").glob("*.yaml")]
    files += [path for ending in ("h", "cpp", "py") for path in (root / "kernels").rglob(f"*.{ending}")]
    return max(path.stat().st_mtime for path in files)
