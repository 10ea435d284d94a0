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
