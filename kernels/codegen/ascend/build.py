"""Builds a generated project with CANN and installs the vendor package."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from codegen.ascend import names
from codegen.ascend.toolkit import Toolkit

__all__ = ["BuildError", "add_template", "build", "install", "run_package"]

# CANN's scripts do not quote paths.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./-]+")
_LOG_LINES = 40


class BuildError(RuntimeError):
    """A step failed; the message says which, and how its output ends."""


def add_template(toolkit: Toolkit, project: Path) -> None:
    """Put the build files of the toolkit's own template around op_host and op_kernel.

    The template compiles host code as C++11; ours is C++17.
    """
    ours = project / "CMakePresets.json"
    presets = ours.read_text(encoding="utf-8")
    for path in sorted(toolkit.template.rglob("*")):
        relative = path.relative_to(toolkit.template)
        target = project / relative
        is_source = relative.parts[0] in ("op_host", "op_kernel") and path.suffix in (".cpp", ".h")
        if path.is_dir() or is_source or target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        if path.suffix == ".sh":
            target.chmod(0o755)
        if path.suffix == ".cmake" or path.name == "CMakeLists.txt":
            text = target.read_text(encoding="utf-8")
            target.write_text(text.replace("-std=c++11", "-std=c++17"), encoding="utf-8")
    common = toolkit.template.parent / "common"
    if common.is_dir():
        shutil.copytree(common, project / "cmake" / "util", dirs_exist_ok=True)
    ours.write_text(presets, encoding="utf-8")


def build(toolkit: Toolkit, project: Path, own_cmake: bool) -> Path:
    """Compile and pack; returns the installer, a *.run file.

    Raises:
        BuildError: a path that CANN's scripts cannot take, a failed step, or no installer at the end.
    """
    for path in (toolkit.root, project):
        if not _PLAIN_PATH.fullmatch(str(path)):
            raise BuildError(f"CANN's build scripts need a path of letters, digits and _ . / -, got {path}")
    if own_cmake:
        jobs = len(os.sched_getaffinity(0))
        steps = [
            ["cmake", "-S", ".", "-B", "build_out", "--preset=default"],
            ["cmake", "--build", "build_out", "--target", "binary", "package", f"-j{jobs}"],
        ]
    else:
        steps = [["bash", "build.sh"]]
    for step in steps:
        _run(toolkit, step, project)
    return run_package(project)


def run_package(project: Path) -> Path:
    """The installer that a build left behind."""
    found = sorted((project / "build_out").glob("custom_opp_*.run"))
    if not found:
        raise BuildError(f"the build ended without an installer: there is no {project}/build_out/custom_opp_*.run")
    return found[0]


def install(toolkit: Toolkit, installer: Path, target: Path) -> Path:
    """Install the package under `target`; returns its folder.

    Raises:
        BuildError: the installer failed, or left no package.
    """
    target.mkdir(parents=True, exist_ok=True)
    _run(toolkit, ["bash", str(installer), f"--install-path={target}"], installer.parent)
    folder = target / "vendors" / names.VENDOR
    if not folder.is_dir():
        raise BuildError(f"{installer.name} did not make {folder}")
    return folder


def _run(toolkit: Toolkit, command: list[str], folder: Path) -> None:
    """Run a command in CANN's environment; its output goes into build.log."""
    line = shlex.join(command)
    if toolkit.environment is not None:
        line = f"source {shlex.quote(str(toolkit.environment))} && {line}"
    log = folder / "build.log"
    with log.open("a", encoding="utf-8") as stream:
        stream.write(f"$ {line}\n")
        stream.flush()
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=folder,
            # find_package(ASC) wants it; a script of the toolkit sets it, too.
            env={**os.environ, "ASCEND_HOME_PATH": str(toolkit.root)},
            stdout=stream,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode != 0:
        end = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:])
        raise BuildError(
            f"`{shlex.join(command)}` failed with {done.returncode}; all output is in {log}; its end:\n{end}"
        )
