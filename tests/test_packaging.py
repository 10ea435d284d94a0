"""What pyproject.toml and the pages say of an installation."""

import importlib.util
import re
import zipfile
from pathlib import Path

import pytest

from ms_ascend_ops import _C
from tests.release import wheel
from tests.release.fresh import StepError

ROOT = Path(__file__).parents[1]


def test_what_pytorch_needs_without_mindspore():
    """The command in docs/torch.md has the requirements of pyproject.toml, but for MindSpore and what it limits."""
    text = (ROOT / "pyproject.toml").read_text().partition("\ndependencies = [")[2].partition("\n]")[0]
    needed = {one for one in re.findall(r'^  "([^"]+)"', text, re.MULTILINE) if "mindspore" not in one}
    needed = {one.removesuffix(",<2") if one.startswith("numpy") else one for one in needed}
    (line,) = re.findall(r"^pip install ('click.*)$", (ROOT / "docs/torch.md").read_text(), re.MULTILINE)
    assert set(re.findall(r"'([^']+)'", line)) == needed | {"torch>=2.6"}


@pytest.fixture
def setup():
    spec = importlib.util.spec_from_file_location("setup_of_the_tree", ROOT / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_of_the_description_lead_somewhere(setup):
    readme = (ROOT / "README.md").read_text()
    assert "](docs/" in readme
    names = setup.description(readme, "1.2")
    urls = setup.description(readme, "1.2", "https://example.org/ms")
    assert re.findall(r"\]\((?!https?:)", names + urls) == []
    text = "![a picture](docs/a.svg), [a page](docs/a.md), [docs/a.md](docs/a.md), [a heading](#a), [MS](https://a.b)"
    assert setup.description(text, "1.2") == (
        "a picture (`docs/a.svg`), a page (`docs/a.md`), `docs/a.md`, a heading, [MS](https://a.b)"
    )
    assert setup.description(text, "1.2", "https://c.d/ms") == (
        "![a picture](https://c.d/ms/raw/v1.2/docs/a.svg), [a page](https://c.d/ms/blob/v1.2/docs/a.md), "
        "[docs/a.md](https://c.d/ms/blob/v1.2/docs/a.md), a heading, [MS](https://a.b)"
    )


def test_the_module_is_one_for_all_versions_of_mindspore():
    """It depends on Python alone: no library of MindSpore is linked to it, or named in it."""
    assert b"libmindspore" not in Path(_C.__file__).read_bytes()


def test_the_packages_of_the_documentation():
    """build.sh installs them without this package, whose build the documentation does not need."""
    wanted = re.search(r"^docs = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    (line,) = re.findall(r"pip install .*(?=\n.*docs/site/stage\.py)", (ROOT / "build.sh").read_text())
    assert re.findall(r'"([^"]+)"', line) == re.findall(r'"([^"]+)"', wanted)


LIBRARIES = (
    "_C.so",
    "_pynative.so",
    "lib/libms_ascend_ops.so",
    "lib/libms_ascend_ops_onnx.so",
    "lib/cann/lib64/liba.so",
)


def made_wheel(folder, tag, machine=183, left_out=""):
    path = folder / f"ms_ascend_ops-1-cp311-cp311-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in LIBRARIES:
            if name != left_out:
                head = b"\x7fELF" + bytes(14) + machine.to_bytes(2, "little")
                archive.writestr(f"ms_ascend_ops/{name}", head + bytes(44))
    return path


def test_a_wheel_that_is_right(tmp_path, capsys):
    wheel.check(made_wheel(tmp_path, "manylinux_2_35_aarch64"), "aarch64")
    assert "5 libraries for aarch64" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tag": "linux_aarch64"}, "has no tag that says which Linux"),
        ({"machine": 62}, "is not for aarch64: its machine is 62"),
        ({"left_out": LIBRARIES[2]}, r"lacks \['lib/libms_ascend_ops.so'\]"),
    ],
)
def test_a_wheel_that_is_not(tmp_path, changed, said):
    with pytest.raises(StepError, match=said):
        wheel.check(made_wheel(tmp_path, **{"tag": "manylinux_2_35_aarch64", **changed}), "aarch64")
