"""Compiles what is generated against the headers of an installed CANN toolkit with g++, without an NPU."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from codegen.ascend import names, onnx_plugin, op_kernel
from codegen.ascend.kernel import Kernel
from codegen.ascend.toolkit import Toolkit
from ms_ascend_ops import aclnn

__all__ = ["Outcome", "check"]

# The CPU-debug mode of Ascend C for Atlas A2, as the toolkit's own CPU build sets it.
_DEVICE = (
    "__CCE_AICORE__=220",
    "__DAV_C220__",
    "__NPU_ARCH__=2201",
    "__CCE_KT_TEST__=1",
    "ASCENDC_CPU_DEBUG=1",
    "ASCENDC_DEBUG=1",
    "ASCENDC_NPUCHK_OFF",
)
_ERRORS = 6


@dataclass(frozen=True)
class Outcome:
    """One compiled file: `error` is empty if it compiled."""

    what: str
    error: str


def check(
    toolkit: Toolkit, kernels: Sequence[Kernel], project: Path, compiler: str = "g++"
) -> Iterator[Callable[[], Outcome]]:
    """A function for each file to compile: op_host, the plugin for ATC, kernels for every combination of dtypes, and
    what ms_ascend_ops.aclnn says of CANN's functions.
    """
    includes = [f"-I{folder}" for folder in toolkit.includes()]

    def compile_host(path: Path) -> Outcome:
        flags = ["-std=c++17", "-D_GLIBCXX_USE_CXX11_ABI=0", *includes]
        return _compile([compiler, *flags, str(path)], str(path.relative_to(project)))

    def compile_kernel(kernel: Kernel, row: dict[str, str]) -> Outcome:
        file = f"{names.snake(kernel.signature.cann_type)}.cpp"
        # A name of its own for each row: files are compiled at the same time.
        unit = project / f"check_{'_'.join(row.values())}_{file}"
        unit.write_text(_unit(kernel, row, file), encoding="utf-8")
        flags = ["-std=c++17", *[f"-D{name}" for name in _DEVICE], *includes]
        return _compile([compiler, *flags, str(unit)], f"op_kernel/{file} ({', '.join(row.values())})")

    def compile_aclnn() -> Outcome:
        unit = project / "check_aclnn.cpp"
        unit.write_text(_aclnn_unit(), encoding="utf-8")
        return _compile([compiler, "-std=c++17", *includes, str(unit)], "functions of CANN that aclnn.py calls")

    yield compile_aclnn
    for path in [*sorted((project / "op_host").glob("*.cpp")), project / onnx_plugin.FOLDER / "onnx_plugin.cpp"]:
        yield lambda path=path: compile_host(path)  # type: ignore[misc]
    for kernel in kernels:
        for row in kernel.signature.types:
            yield lambda kernel=kernel, row=dict(row): compile_kernel(kernel, row)  # type: ignore[misc]


def _unit(kernel: Kernel, row: dict[str, str], file: str) -> str:
    """The entry with what CANN's build puts in front of it: the tiling struct and the dtypes."""
    struct = op_kernel.tiling_struct(kernel.signature, kernel.fields, kernel.multiplies)
    macros = op_kernel.macros(kernel.signature, row)
    defines = "".join(f"#define {name} {value}\n" for name, value in macros.items())
    return f'#include <cstring>\n#include "kernel_operator.h"\n{struct}{defines}#include "op_kernel/{file}"\n'


def _aclnn_unit() -> str:
    """Every function and value of the table as an assertion."""
    headers = "".join(f'#include "{header}"\n' for header in aclnn.HEADERS)
    functions = "".join(
        f"static_assert(std::is_same_v<decltype(&{name}), {result} (*)({', '.join(parameters)})>);\n"
        for name, (_, result, parameters) in aclnn.FUNCTIONS.items()
    )
    values = "".join(f"static_assert({name} == {value});\n" for name, value in aclnn.VALUES.values())
    sizes = "static_assert(sizeof(aclDataType) == 4 && sizeof(aclFormat) == 4 && sizeof(aclnnStatus) == 4);\n"
    return f"#include <type_traits>\n{headers}{functions}{values}{sizes}"


def _compile(command: list[str], what: str) -> Outcome:
    done = subprocess.run([*command, "-w", "-fsyntax-only"], capture_output=True, text=True, check=False)
    lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
    return Outcome(what, "" if done.returncode == 0 else "\n".join(lines[:_ERRORS]) or f"exit code {done.returncode}")
