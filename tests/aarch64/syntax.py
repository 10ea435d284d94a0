"""`bash build.sh cross-test aarch64 --syntax`: does a compiler for aarch64 accept the library's sources?

It needs nothing but that compiler, and a minute of one CPU: nothing is linked or run, and the vector unit alone, which
names instructions, is compiled to assembly. CMake says which sources there are, and with which options.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build/aarch64-syntax"
COMPILER = "aarch64-linux-gnu-g++"
# The emulated device and what only tests call, which `--compile` compiles; an empty source.
LEFT_OUT = re.compile("/kernels/device/|/tests/|/nothing.cpp$")


def main() -> None:
    if not shutil.which(COMPILER):
        sys.exit(f"cross-test: there is no {COMPILER}; install it by: apt-get install g++-aarch64-linux-gnu")
    began = time.monotonic()
    configure()
    commands = json.loads((FOLDER / "compile_commands.json").read_text(encoding="utf-8"))
    of_library = [one for one in commands if not LEFT_OUT.search(one["file"].removeprefix(str(ROOT)))]
    failures = refused(of_library)
    if failures:
        sys.exit("\n".join(["cross-test: refused by the compiler:", *failures]))
    print(f"cross-test: {COMPILER} accepts {len(of_library)} sources ({time.monotonic() - began:.0f} s)")


def configure() -> None:
    """The headers of Python are those of this machine: integers and pointers have the same sizes there."""
    include = Path(sysconfig.get_path("include"))
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    variables = {
        "CMAKE_SYSTEM_NAME": "Linux",
        "CMAKE_SYSTEM_PROCESSOR": "aarch64",
        "CMAKE_CXX_COMPILER": COMPILER,
        "CMAKE_CXX_FLAGS": f"-I{links(include.parent / multiarch / include.name)}",
        "MS_ASCEND_OPS_PORTABLE": "ON",
        "MS_ASCEND_OPS_TEST_BUILD": "ON",
        "MS_ASCEND_OPS_UNITY": "2",
        "PYTHON_MODULE_DEBUG_POSTFIX": "",
        "PYTHON_MODULE_EXTENSION": ".so",
        "Python_EXECUTABLE": sys.executable,
        "Python_INCLUDE_DIR": str(include),
    }
    options = [f"-D{name}={value}" for name, value in variables.items()]
    run("cmake", "-S", str(ROOT), "-B", str(FOLDER), *options)
    run("cmake", "--build", str(FOLDER), "--target", "generated_code")


def links(headers: Path) -> Path:
    """A folder in which Debian's pyconfig.h finds the one of the architecture."""
    folder = FOLDER / "include"
    link = folder / "aarch64-linux-gnu" / headers.name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(headers)
    return folder


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"cross-test: {shlex.join(command)} failed:\n{done.stdout}{done.stderr}")


def refused(commands: list[dict[str, str]]) -> list[str]:
    """What the compiler says of each source that it refuses."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        return [said for said in threads.map(check, commands) if said]


def check(command: dict[str, str]) -> str:
    """A level's instructions in the code of another are refused only by a whole compiler."""
    words = shlex.split(command["command"])
    output = words.index("-o")
    mode = ["-O0", "-S"] if "vector_unit" in command["file"] else ["-fsyntax-only"]
    whole = [*words[:output], *words[output + 2 :], *mode, "-o", os.devnull]
    done = subprocess.run(whole, cwd=command["directory"], capture_output=True, text=True, check=False)
    return f"{command['file']}:\n{done.stderr}" if done.returncode else ""


if __name__ == "__main__":
    main()
