"""Builds other versions of the kernel library: the one of this tree with a change of text in a kernel of `add`."""

import json
import shlex
import subprocess
import sysconfig
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3]
BUILD = SOURCE / "build" / f"cmake-{sysconfig.get_config_var('SOABI').rsplit('-', 3)[0]}"
KERNEL = Path("kernels/add/add_kernel.h")

CHANGES = {
    "same": ("", ""),
    # Seeded bugs of float32.
    "wrong": ("AscendC::Add(z, x, y, static", "AscendC::Max(z, x, y, static"),
    "infinite": ("AscendC::Add(z, x, y, static", "AscendC::Div(z, x, y, static"),
}


def build(name, folder):
    """One compilation unit anew, linked with the objects of the build that the tests run on."""
    entries = BUILD / "compile_commands.json"
    if not entries.is_file():
        pytest.skip(f"needs the objects of {BUILD}")
    commands = {Path(e["file"]).name: shlex.split(e["command"]) for e in json.loads(entries.read_text())}
    text = (SOURCE / KERNEL).read_text()
    old, new = CHANGES[name]
    assert not old or text.count(old) == 1, f"{old!r} must stand once in {KERNEL}"
    changed, built, library = folder / KERNEL.name, folder / f"{name}.o", folder / f"lib{name}.so"
    changed.write_text(text.replace(old, new) if old else text)
    command = commands["add_host.cpp"]
    command[command.index("-o") + 1] = str(built)
    # Found before the one of the tree.
    command[1:1] = [f"-I{folder}", f"-I{SOURCE / KERNEL.parent}"]
    subprocess.run([*[part for part in command if part != "-O3"], "-O1", "-w"], cwd=BUILD, check=True)
    link = shlex.split((BUILD / "CMakeFiles/ms_ascend_ops.dir/link.txt").read_text())
    link = [str(built) if part.endswith("/add_host.cpp.o") else part for part in link]
    link[link.index("-o") + 1] = str(library)
    subprocess.run(link, cwd=BUILD, check=True)
    return library


def crashing(folder):
    """A library whose initialisation ends the process."""
    source, library = folder / "crash.cpp", folder / "libcrash.so"
    source.write_text("#include <cstdlib>\nstruct Crash { Crash() { std::abort(); } } crash;\n")
    subprocess.run(["g++", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return library
