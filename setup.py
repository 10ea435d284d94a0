"""Builds the kernel library and the Python module with CMake, and the description for an index of packages.

Everything else stands in pyproject.toml.
"""

import fcntl
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

SOURCE = Path(__file__).resolve().parent
PORTABLE, TEST_BUILD = (
    os.environ.get(f"MS_ASCEND_OPS_{name}", "0") not in ("", "0") for name in ("PORTABLE", "TEST_BUILD")
)
TOOLCHAIN = os.environ.get("CMAKE_TOOLCHAIN_FILE")  # of CMake, for another architecture
KIND = f"{'-portable' if PORTABLE else ''}{f'-{sysconfig.get_platform()}' if TOOLCHAIN else ''}"
BUILD = SOURCE / "build" / f"cmake-{sys.implementation.cache_tag}{KIND}"
# How a message of the compiler, the linker, CMake or kernels/codegen begins that says what is wrong.
FAULT = re.compile(r"\berror: |undefined reference|^CMake Error")


def cmake(*arguments: object) -> None:
    """Run CMake. If it fails, the last line says why: behind the first fault come those that follow from it."""
    command, environment = ["cmake", *map(str, arguments)], {**os.environ, "LC_ALL": "C"}  # the words of FAULT
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    faults = []
    with subprocess.Popen(command, env=environment, **piped) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            if FAULT.search(line):
                faults.append(line.strip().removeprefix("error: "))
    if process.returncode:
        raise CompileError(f"the build failed: {faults[0] if faults else f'cmake ended with {process.returncode}'}")


class CMakeBuild(build_ext):
    def build_extension(self, ext: Extension) -> None:
        options = {
            "Python_EXECUTABLE": sys.executable,
            "MS_ASCEND_OPS_PORTABLE": "ON" if PORTABLE else "OFF",
            "MS_ASCEND_OPS_TEST_BUILD": "ON" if TEST_BUILD else "OFF",
            "MS_ASCEND_OPS_UNITY": os.environ.get("MS_ASCEND_OPS_UNITY") or ("2" if TEST_BUILD else "8"),
        }
        if TOOLCHAIN:
            options["CMAKE_TOOLCHAIN_FILE"] = TOOLCHAIN
        BUILD.mkdir(parents=True, exist_ok=True)
        with (BUILD / "lock").open("w") as lock:  # of this tree: a second build waits
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print(f"another build of {SOURCE} is going on: waiting for its end", flush=True)
                fcntl.flock(lock, fcntl.LOCK_EX)
            self.build_with(options, Path(self.get_ext_fullpath(ext.name)).parent)

    def build_with(self, options: dict, target: Path) -> None:
        cmake("-S", SOURCE, "-B", BUILD, *[f"-D{name}={value}" for name, value in options.items()])
        cmake("--build", BUILD, "--parallel", self.parallel or os.cpu_count() or 1)
        cmake("--install", BUILD, "--prefix", target)

    def copy_extensions_to_source(self) -> None:
        # An editable install: setuptools would copy the module, but not the library beside it.
        cmake("--install", BUILD, "--prefix", SOURCE / "ms_ascend_ops")


def description(readme: str, version: str, source: str = "") -> str:
    """README.md for a page that has no folder beside it.

    Links and pictures lead to `source`, the address of the repository, at the tag of this version. While there is none,
    they are the path of the file, which the source distribution has.
    """

    def standing_alone(link: re.Match) -> str:
        picture, text, target = link.groups()
        if target.startswith("#"):  # indexes give headings no names
            return text
        if not source:
            return f"`{target}`" if text == target else f"{text} (`{target}`)"
        return f"{picture}[{text}]({source}/{'raw' if picture else 'blob'}/v{version}/{target})"

    return re.sub(r"(!?)\[([^\]]+)\]\((?!https?:)([^)\s]+)\)", standing_alone, readme)


def from_files() -> str:
    """The description of this tree."""
    version = re.search(r'__version__ = "(.+)"', (SOURCE / "ms_ascend_ops/version.py").read_text())[1]
    urls = (SOURCE / "pyproject.toml").read_text().partition("\n[project.urls]\n")[2].partition("\n[")[0]
    source = re.search(r'^Source = "(.+?)/?"', urls, re.MULTILINE)
    return description((SOURCE / "README.md").read_text(encoding="utf-8"), version, source[1] if source else "")


if __name__ == "__main__":
    setup(
        ext_modules=[Extension("ms_ascend_ops._C", sources=[])],
        cmdclass={"build_ext": CMakeBuild},
        long_description=from_files(),
        long_description_content_type="text/markdown",
    )
