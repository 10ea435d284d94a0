"""Compilers: which are too old, and the sources for clang, if it is installed: only their syntax and templates.

For aarch64 that is `build.sh cross-test aarch64 --syntax`, of which CI runs the whole.
"""

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.aarch64.syntax import refused
from tests.kernels.host.module import BUILD

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "CMakeLists.txt").is_file(), reason="needs the source tree")
CROSS = "aarch64-linux-gnu-g++"
FLAGS = ["-std=c++17", "-fsyntax-only", "-fPIC"]
DEFINITIONS = ["-DHOST_ISA=native", "-D_GLIBCXX_USE_CXX11_ABI=0"]
PORTABLE = {"x86_64": "X86", "aarch64": "AARCH64"}
# What a kernel is made of besides the vector unit: elements, rows with a sum, products, integers.
KERNELS = ["silu_mul", "rms_norm", "matmul", "weight_quant_matmul"]


def clang():
    """The newest one."""
    names = ["clang++", *(f"clang++-{version}" for version in range(30, 13, -1))]
    return next(filter(shutil.which, names), "clang++-14")


def compiles(*arguments):
    compiler = clang()
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


def test_vector_unit_of_clang():
    compiles("-march=native", ROOT / "kernels/host/simd/vector_unit.cpp")


def test_host_layer_and_kernels_of_clang(tmp_path):
    """Of the host layer what depends on the architecture, of a portable build.

    As one source, since headers take most of the time.
    """
    names = ("runtime/job", "runtime/non_temporal", "simd/vector_unit_select")
    sources = [ROOT / f"kernels/host/{name}.cpp" for name in names]
    sources += [BUILD / f"generated/{name}_host.cpp" for name in KERNELS]
    everything = tmp_path / "everything.cpp"
    everything.write_text("".join(f'#include "{source}"\n' for source in sources))
    compiles(f"-DHOST_PORTABLE_{PORTABLE[platform.machine()]}", everything)


def test_what_a_compiler_refuses_is_said(tmp_path):
    """Also what only an instance of a template tells; in the vector unit what only a whole compiler does."""
    sources = {
        "right.cpp": "template <class T> int Get(T x) { return x.value; }\n",
        "wrong.cpp": "template <class T> int Get(T x) { return x.value; }\nint got = Get(1);\n",
        "vector_unit.cpp": 'void Wrong() { asm("" : : "i"(*new int)); }\n',
    }
    commands = []
    for name, text in sources.items():
        (tmp_path / name).write_text(text)
        command = f"g++ -std=c++17 -O3 -o {name}.o -c {tmp_path / name}"
        commands.append({"directory": str(tmp_path), "command": command, "file": str(tmp_path / name)})
    wrong, vector_unit = refused(commands)
    assert wrong.startswith(f"{tmp_path / 'wrong.cpp'}:\n")
    assert "error: request for member" in wrong
    assert vector_unit.startswith(f"{tmp_path / 'vector_unit.cpp'}:\n")
    assert not list(tmp_path.glob("*.[so]"))


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
