import json
import os
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from ms_ascend_ops import cann, doctor
from ms_ascend_ops.__main__ import main

VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH", "ASCEND_CUSTOM_OPP_PATH")


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch, tmp_path):
    ours = ("MS_ASCEND_OPS_NUM_THREADS", "MS_ASCEND_OPS_COMPILE", "MS_ASCEND_OPS_STREAM_BYTES")
    for name in (*VARIABLES, "MS_CUSTOM_AOT_WHITE_LIST", *ours):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cann, "_DRIVER", tmp_path / "driver")


def examined(*parts):
    return {check.part: check for check in doctor.examine() if not parts or check.part in parts}


def only(monkeypatch, *parts):
    """Leave out what takes a process of its own."""
    monkeypatch.setattr(doctor, "_CHECKS", {part: doctor._CHECKS[part] for part in parts})


def test_this_machine_is_in_order():
    command = [sys.executable, "-m", "ms_ascend_ops", "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    checks = {check["part"]: check for check in json.loads(done.stdout)}
    assert done.returncode == 0, checks
    assert checks["kernel library"]["status"] == "ok"
    assert checks["an operator"]["found"] == "rms_norm runs on CPU"
    assert checks["products"]["status"] == "ok"
    assert re.match(r"oneDNN [23]\.", checks["products"]["found"])  # 2.2 before MindSpore 2.9
    assert checks["CANN toolkit"]["status"] == "absent"


def test_environment(monkeypatch, tmp_path):
    only(monkeypatch, "environment")
    monkeypatch.setenv("MS_ASCEND_OPS_NUM_THREADS", "0")
    monkeypatch.setenv("MS_ASCEND_OPS_STREAM_BYTES", "1e6")
    monkeypatch.setenv("MS_ASCEND_OPS_COMPILE", "off")
    monkeypatch.setenv("MS_CUSTOM_AOT_WHITE_LIST", str(tmp_path))
    monkeypatch.setenv("ASCEND_OPP_PATH", str(tmp_path / "none"))
    check = examined()["environment"]
    assert check.status == "error"
    for part in (
        "it must be 1 to 256",
        "it must be 1 or more",
        "MS_ASCEND_OPS_COMPILE: it must be 0 or 1",
        "or MindSpore refuses every operator",
        "none does not exist: source set_env.sh",
    ):
        assert part in check.remedy
    done = CliRunner().invoke(main, ["doctor"])
    assert done.exit_code == 1
    assert "1 to put right: environment" in done.output


def test_rows_of_a_table_that_wrap_go_on_below_their_second_column(monkeypatch):
    row = "certify  needs jinja2, matplotlib, pybind11, rich, scipy, numpy"
    found = doctor.Check("commands", "absent", f"a  needs b\n{row}")
    monkeypatch.setattr(doctor, "_CHECKS", {"commands": lambda part: found})
    lines = CliRunner().invoke(main, ["doctor"]).output.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].index("needs") == len(lines[2]) - len(lines[2].lstrip())


def test_library(monkeypatch, tmp_path):
    only(monkeypatch, "kernel library")
    monkeypatch.setattr(doctor, "__version__", "99.0")
    check = examined()["kernel library"]
    assert check.status == "error"
    assert "but the package has 99.0" in check.found
    monkeypatch.setattr(doctor, "LIBRARY", tmp_path / "lib.so")
    check = examined()["kernel library"]
    assert (check.status, check.found) == ("error", f"{tmp_path / 'lib.so'} is missing")
    assert "pip install ." in check.remedy


def test_a_library_for_another_cpu(monkeypatch):
    """What the kernel does to a process that meets an unknown instruction."""
    only(monkeypatch, "kernel library")
    monkeypatch.setattr(doctor, "_TRY_LIBRARY", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    check = examined()["kernel library"]
    assert check.status == "error"
    assert "instructions that this CPU does not have" in check.found
    assert "MS_ASCEND_OPS_PORTABLE=1" in check.remedy


def test_a_library_that_computes_wrong_values(monkeypatch):
    only(monkeypatch, "kernel library")
    monkeypatch.setattr(doctor, "_TRY_LIBRARY", doctor._TRY_LIBRARY.replace("+ 1e-6)).max()", "+ 1e3)).max()"))
    assert "computes wrong values" in examined()["kernel library"].found


def test_products(monkeypatch):
    only(monkeypatch, "products")
    monkeypatch.setenv("MS_ASCEND_OPS_ONEDNN", "0")
    check = examined()["products"]
    assert (check.status, check.found) == (
        "warning",
        "plain loops, which are slower: switched off by MS_ASCEND_OPS_ONEDNN",
    )


def test_products_without_mindspore(monkeypatch):
    """The library tells, as it does beside PyTorch."""
    only(monkeypatch, "products")
    monkeypatch.setattr(doctor, "_installed", lambda _: None)
    check = examined()["products"]
    assert check.status == "warning"
    assert check.found.startswith("plain loops, which are slower: no libdnnl.so")


def test_loops(monkeypatch):
    only(monkeypatch, "loops")
    check = examined()["loops"]
    assert check.status == "ok"
    assert re.fullmatch(r"compiled by LLVM \d+\.\d+\.\d+ \(llvmlite \d+\.\d+\.\d+\)", check.found)
    monkeypatch.setenv("MS_ASCEND_OPS_COMPILE", "0")
    check = examined()["loops"]
    assert (check.status, check.found) == ("absent", "interpreted, which is slower: MS_ASCEND_OPS_COMPILE=0")


def test_loops_without_llvmlite(monkeypatch):
    only(monkeypatch, "loops")
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    check = examined()["loops"]
    assert (check.status, check.found) == ("warning", "interpreted, which is slower: llvmlite is not installed")
    assert "pip install 'llvmlite" in check.remedy


@pytest.mark.parametrize(
    ("old", "new", "status", "found"),
    [
        ("LoopCompiler(_C)", "LoopCompiler(None)", "warning", "interpreted, which is slower: AttributeError: "),
        ("set_loop_threshold(0)", "stop_loops()", "absent", "interpreted: for the vector unit "),
        ("[compiled], {})", "[compiled], {}); compiled[-1, -1] += 1", "error", "computes wrong values"),
        ('found["same"] =', "import os; os.abort()  #", "error", "does not run: killed by SIGABRT"),
    ],
)
def test_loops_that_do_not_work(monkeypatch, old, new, status, found):
    only(monkeypatch, "loops")
    assert old in doctor._TRY_LOOPS
    monkeypatch.setattr(doctor, "_TRY_LOOPS", doctor._TRY_LOOPS.replace(old, new))
    check = examined()["loops"]
    assert check.status == status
    assert found in check.found


@pytest.mark.parametrize(
    ("part", "package", "version", "status", "remedy"),
    [
        ("NumPy", "numpy", "2.1.0", "error", "fails with 2"),
        ("NumPy", "numpy", "1.24.0", "error", "numpy>=1.25,<2"),
        ("NumPy", "numpy", None, "error", "numpy>=1.25,<2"),
        ("MindSpore", "mindspore", "2.6.0", "error", "mindspore>=2.7,<2.11"),
        ("MindSpore", "mindspore", None, "error", "mindspore>=2.7,<2.11"),
        ("MindSpore", "mindspore", "2.7.2", "ok", ""),
    ],
)
def test_packages(monkeypatch, part, package, version, status, remedy):
    only(monkeypatch, part)
    monkeypatch.setattr(doctor, "_installed", lambda name: version if name == package else "1")
    monkeypatch.setattr(doctor.importlib.metadata, "distributions", lambda **_: [])
    check = examined()[part]
    assert check.status == status
    assert remedy in check.remedy


@pytest.mark.parametrize(("installed", "status", "found", "remedy"), [
    ({"mindspore": "2.7.1"}, "ok", "2.7.1", ""),
    ({"mindspore": "2.7.1", "mindspore-dev": "2.10.0.dev20260101"}, "error",
     "mindspore 2.7.1 and mindspore-dev 2.10.0.dev20260101", "pip uninstall mindspore mindspore-dev, then pip install"),
    ({"mindspore-dev": "2.10.0.dev20260101"}, "warning", "mindspore-dev 2.10.0.dev20260101", "not a release"),
])  # fmt: skip
def test_packages_that_bring_mindspore(monkeypatch, tmp_path, installed, status, found, remedy):
    for name, version in installed.items():
        folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    only(monkeypatch, "MindSpore")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    check = examined()["MindSpore"]
    assert (check.status, check.found) == (status, found)
    assert remedy in check.remedy


def test_cann(monkeypatch, tmp_path):
    only(monkeypatch, "CANN toolkit")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    assert examined()["CANN toolkit"].status == "error"
    (tmp_path / "compiler").mkdir()
    info = tmp_path / "compiler" / "version.info"
    info.write_text("Version=8.5.0\nversion_dir=8.5.0\n")
    assert examined()["CANN toolkit"].found == f"8.5.0 at {tmp_path}"
    info.write_text("Version=7.0.0\n")
    check = examined()["CANN toolkit"]
    assert check.status == "warning"
    assert " is for CANN 8." in check.remedy  # 8.3 or 8.5, by the version


def test_a_part_that_breaks_does_not_end_the_examination(monkeypatch):
    def broken(part):
        raise OSError("disk on fire")

    monkeypatch.setattr(doctor, "_CHECKS", {"one": broken, "environment": doctor._CHECKS["environment"]})
    checks = examined()
    assert checks["one"].found == "cannot be examined: OSError: disk on fire"
    assert checks["environment"].status == "ok"


def test_a_process_that_does_not_answer(monkeypatch):
    """The reason is all there is to read, not the code that ran."""
    only(monkeypatch, "kernel library")
    monkeypatch.setattr(doctor, "_LIMIT_S", 0.2)
    monkeypatch.setattr(doctor, "_TRY_LIBRARY", "import time; time.sleep(60)")
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    assert examined()["kernel library"].found.endswith(" does not run: no answer within 0.2 s")
    monkeypatch.setattr(os, "getloadavg", lambda: (1000.0, 0.0, 0.0))
    assert " s, as some 1000 processes share " in examined()["kernel library"].found
