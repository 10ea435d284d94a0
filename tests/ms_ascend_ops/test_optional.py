"""Optional inputs, with an operator that has two: from its definition to its functions, in every mode, and for CANN."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from codegen import host, params
from codegen.tiling_header import read_fields

from ms_ascend_ops import registry
from tests.kernels.host.module import ROOT, library_objects

HERE = Path(__file__).parent / "optional"
FLAGS = ["-std=c++17", "-O0", "-w", "-fPIC", "-fvisibility=hidden", "-D_GLIBCXX_USE_CXX11_ABI=0", "-ffp-contract=off"]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A kernel library with this operator, of objects that are there."""
    folder = tmp_path_factory.mktemp("library")
    spec = registry.load(HERE / "affine.yaml")
    fields = {s.name: read_fields(HERE / "affine_tiling.h", f"{s.entry}TilingData") for s in spec.signatures}
    (folder / "affine_params.h").write_text(params.generate(spec))
    (folder / "affine_host.cpp").write_text(host.generate(spec, ["affine_kernel.h"], fields))
    kernels = ROOT / "kernels"
    includes = [f"-I{path}" for path in (kernels, kernels / "host", folder, HERE)]
    target = folder / "libms_ascend_ops.so"
    objects = library_objects()
    command = ["g++", *FLAGS, *includes, "-shared", folder / "affine_host.cpp", *objects]
    command += [f"-Wl,-soname,{target.name}", "-lpthread", "-ldl", "-o", target]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
    return target


def test_in_every_mode(library):
    # Taken instead of the one beside _C: they have the same name.
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(HERE / "cases.py")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
