"""What is generated for a definition that uses everything compiles."""

import subprocess
import sys
from pathlib import Path

import pytest

KERNELS = Path(__file__).resolve().parents[3] / "kernels"

DEFINITION = """
name: blend_all
summary: Uses every kind of attribute and token.
attributes:
  axis: {type: int, default: -1}
  factor: {type: float, default: 0.5, exclusive_minimum: 0}
  fast: {type: bool, default: true}
  mode: {type: string, default: first-half, choices: [first-half, other]}
  parts: {type: int, default: 1, exclusive_minimum: 0}
  layout: {type: string, default: first, choices: [first, last], axes: [0, -1]}
types:
  - {T: float16, I: int32}
  - {T: float32, I: int64}
reasons:
  3*d: it holds "three" parts
positive: [d]
multiples: {e: parts}
forward:
  inputs:
    x: T[*a 3*d@axis *c]
    index: I[2 *b]
    scale: T[*f e@layout *g]
    shift: T[*b *h]
    bias: T[*h]
  outputs:
    y: T[*a d@axis *c]
    count: int32[1]
    mean: float32[=parts ones(h)]
    both: float32[=parts+parts e@layout 1]
"""

TILING = """
#pragma once
#include "blend_all_params.h"
namespace ms_ascend_ops {
struct BlendAllTilingData {
    uint32_t rows;
    float factor;
};
inline LaunchConfig BlendAllTiling(const BlendAllParams& params, const Platform&, BlendAllTilingData& tiling)
{
    tiling.rows = params.mode == BlendAllMode::FIRST_HALF && params.fast && params.axis < 0 ? 1 : 2;
    tiling.factor = params.factor;
    return {};
}
}
"""

KERNEL = """
#pragma once
#include "kernel_operator.h"
#include "blend_all_tiling.h"
namespace ms_ascend_ops {
template <typename T, typename I>
__aicore__ inline void BlendAllKernel(GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR,
                                      GM_ADDR, const BlendAllTilingData&)
{
}
}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "definitions").mkdir()
    (tmp_path / "definitions" / "blend_all.yaml").write_text(DEFINITION)
    (tmp_path / "kernels" / "blend_all").mkdir(parents=True)
    (tmp_path / "kernels" / "blend_all" / "blend_all_tiling.h").write_text(TILING)
    (tmp_path / "kernels" / "blend_all" / "blend_all_kernel.h").write_text(KERNEL)
    return tmp_path


def generate(folder):
    command = [
        sys.executable,
        "-m",
        "codegen",
        "--definitions",
        "definitions",
        "--kernels",
        "kernels",
        "--output",
        "out",
    ]
    path = f"{KERNELS}:{KERNELS.parent}"
    return subprocess.run(command, cwd=folder, env={"PYTHONPATH": path}, check=False, capture_output=True, text=True)


def test_it_compiles(folder):
    done = generate(folder)
    assert done.returncode == 0, done.stderr
    includes = [f"-I{path}" for path in (KERNELS, KERNELS / "host", folder / "out", folder / "kernels" / "blend_all")]
    options = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-D_GLIBCXX_USE_CXX11_ABI=0"]
    subprocess.run(["g++", *options, *includes, folder / "out" / "blend_all_host.cpp"], check=True)


def test_files_that_are_up_to_date_are_left_alone(folder):
    generate(folder)
    before = {path: path.stat().st_mtime_ns for path in (folder / "out").rglob("*.*")}
    assert {path.name for path in before} == {
        "blend_all_params.h",
        "blend_all_host.cpp",
        "kernels.json",
        "ms_ascend_ops_blend_all.cpp",  # op_kernel: what CANN compiles
        "onnx_operators.cpp",
    }
    generate(folder)
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_a_missing_tiling_struct_is_named(folder):
    header = folder / "kernels" / "blend_all" / "blend_all_tiling.h"
    header.write_text(TILING.replace("BlendAllTilingData", "OtherTilingData"))
    done = generate(folder)
    assert done.returncode != 0
    assert "blend_all_tiling.h: there is no 'struct BlendAllTilingData'" in done.stderr
