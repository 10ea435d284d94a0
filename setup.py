"""Builds the kernel library and the Python module with CMake. Everything else stands in pyproject.toml."""

import os
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class CMakeBuild(build_ext):
    def build_extension(self, ext: Extension) -> None:
        source = Path(__file__).resolve().parent
        # The folder of the package: in the source tree for an editable install.
        target = Path(self.get_ext_fullpath(ext.name)).resolve().parent
        portable = os.environ.get("MS_ASCEND_OPS_PORTABLE", "0") not in ("", "0")
        build = source / "build" / f"cmake-{sys.implementation.cache_tag}{'-portable' if portable else ''}"
        configure = [
            "cmake",
            f"-S{source}",
            f"-B{build}",
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-DMS_ASCEND_OPS_PORTABLE={'ON' if portable else 'OFF'}",
        ]
        subprocess.run(configure, check=True)
        jobs = str(self.parallel or os.cpu_count() or 1)
        subprocess.run(["cmake", "--build", str(build), "--parallel", jobs], check=True)
        subprocess.run(["cmake", "--install", str(build), "--prefix", str(target)], check=True)


setup(ext_modules=[Extension("ms_ascend_ops._C", sources=[])], cmdclass={"build_ext": CMakeBuild})
