"""Compilers: which are too old, and the sources for others than the one that built the library, if they are installed.

Of the sources only syntax and templates: the whole takes minutes (`build.sh cross-test aarch64 --compile`).
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.kernels.host.module import BUILD

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "CMakeLists.txt").is_file(), reason="needs the source tree")
CROSS = "aarch64-linux-gnu-g++"
FLAGS = ["-std=c++17", "-fsyntax-only", "-fPIC"]
DEFINITIONS = ["-DHOST_ISA=native", "-D_GLIBCXX_USE_CXX11_ABI=0"]
LEVELS = ["armv8-a", "armv8.2-a+dotprod+bf16"]
# What a kernel is made of besides the vector unit: elements, rows with a sum, products, integers.
KERNELS = ["silu_mul", "rms_norm", "matmul", "weight_quant_matmul"]


def clang():
    """The newest one."""
    names = ["clang++", *(f"clang++-{version}" for version in range(30, 13, -1))]
    return next(filter(shutil.which, names), "clang++-14")


def compiles(compiler, *arguments):
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    folders = [
        ROOT / "kernels",
        ROOT / "kernels/host",
        BUILD / "generated",
        *(ROOT / "kernels" / name for name in KERNELS),
    ]
    includes = [f"-I{folder}" for folder in folders]
    command = [compiler, *FLAGS, *DEFINITIONS, *includes, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.findall(r".*error: .*", done.stderr)
    assert done.returncode == 0, found[:5] or done.stderr


@pytest.mark.parametrize("level", LEVELS)
def test_vector_unit_of_aarch64(level):
    compiles(CROSS, f"-march={level}", ROOT / "kernels/host/simd/vector_unit.cpp")


def test_vector_unit_of_clang():
    compiles(clang(), "-march=native", ROOT / "kernels/host/simd/vector_unit.cpp")


@pytest.mark.parametrize("compiler", [CROSS, clang()])
def test_host_layer_and_kernels(compiler, tmp_path):
    """Of the host layer what depends on the architecture. As one source, since headers take most of the time."""
    names = ("runtime/job", "runtime/non_temporal", "simd/vector_unit_select")
    sources = [ROOT / f"kernels/host/{name}.cpp" for name in names]
    sources += [BUILD / f"generated/{name}_host.cpp" for name in KERNELS]
    everything = tmp_path / "everything.cpp"
    everything.write_text("".join(f'#include "{source}"\n' for source in sources))
    compiles(compiler, *["-DHOST_PORTABLE_AARCH64"] * (compiler == CROSS), everything)


WIDENING = """
#include "simd/halves.h"
using namespace AscendC::host::HOST_ISA;
extern "C" VF Widened(VH bits) { return BFloat16ToFloat(bits); }
extern "C" VH Upper(VU bits) { return UpperHalves(bits); }
"""


@pytest.mark.skipif(shutil.which(CROSS) is None, reason=f"there is no {CROSS}")
def test_halves_are_widened_as_vectors(tmp_path):
    """g++ 12 takes them lane by lane where it is not told the instruction: 12 in place of 2."""
    (tmp_path / "widening.cpp").write_text(WIDENING)
    command = [CROSS, "-std=c++17", "-O3", "-S", "-o", "-", *DEFINITIONS, f"-I{ROOT}/kernels", f"-I{ROOT}/kernels/host"]
    done = subprocess.run([*command, tmp_path / "widening.cpp"], capture_output=True, text=True, check=True)
    instructions = re.findall(r"^\t([a-z]\w*)", done.stdout, re.MULTILINE)
    assert instructions.count("ret") == 2
    assert len(instructions) <= 5, instructions


def test_an_old_compiler_is_refused_first(tmp_path):
    version = ["ID_RUN=1", "ID=GNU", "VERSION=8.3.0", "FORCED=1"]
    options = [f"-DCMAKE_CXX_COMPILER_{option}" for option in version]
    command = ["cmake", "-S", ROOT, "-B", tmp_path, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr.startswith("error: the compiler must be g++ 9 or clang++ 14 or later, got g++ 8.3.0 at ")
