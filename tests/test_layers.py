"""The folders of the host layer include in one direction: each only itself and those in front of it."""

import re
from pathlib import Path

HOST = Path(__file__).parents[1] / "kernels" / "host"
LAYERS = ("base", "ir", "simd", "cube", "passes", "jit", "runtime", "operators")
LAYERS += ("observed", "checked", "traced", "api", "lib")


def test_includes_go_one_way():
    assert {path.name for path in HOST.iterdir() if path.is_dir()} == set(LAYERS)
    wrong = []
    for file in HOST.glob("*/*.*"):
        for name in re.findall(r'^#include "([^"]+)"', file.read_text(), re.MULTILINE):
            if (HOST / name).is_file() and Path(name).parts[0] in LAYERS[LAYERS.index(file.parent.name) + 1 :]:
                wrong.append(f"{file.relative_to(HOST)} includes {name}")
    assert wrong == []


def test_kernels_include_primitives_and_ascend_c():
    """Only a library header, which answers in place of a kernel, includes the host, and that of another operator."""
    kernels = HOST.parent
    operators = {path.stem for path in (kernels.parent / "ms_ascend_ops" / "ops").glob("*.yaml")}
    everywhere = r"\w+|lib/matmul_intf|primitives/\w+|interface/\w+"  # a name without a folder is the operator's own
    library = r"|host/operators/\w+|binding/op|\w+/\w+_library"
    wrong = []
    for folder in [*sorted(operators), "primitives"]:
        for file in (kernels / folder).glob("*.h"):
            allowed = everywhere + (library if file.stem.endswith("_library") else "")
            names = re.findall(r'^#include "([^"]+)\.h"', file.read_text(), re.MULTILINE)
            wrong += [f"{folder}/{file.name} includes {name}.h" for name in names if not re.fullmatch(allowed, name)]
    assert wrong == []
