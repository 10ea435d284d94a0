"""What pyproject.toml and the pages say of an installation."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_what_pytorch_needs_without_mindspore():
    """The command in docs/torch.md has the requirements of pyproject.toml, but for MindSpore and what it limits."""
    text = (ROOT / "pyproject.toml").read_text().partition("\ndependencies = [")[2].partition("\n]")[0]
    needed = {one for one in re.findall(r'^  "([^"]+)"', text, re.MULTILINE) if "mindspore" not in one}
    needed = {one.removesuffix(",<2") if one.startswith("numpy") else one for one in needed}
    (line,) = re.findall(r"^pip install ('click.*)$", (ROOT / "docs/torch.md").read_text(), re.MULTILINE)
    assert set(re.findall(r"'([^']+)'", line)) == needed | {"torch>=2.13"}


def test_the_packages_of_the_documentation():
    """build.sh installs them without this package, whose build the documentation does not need."""
    wanted = re.search(r"^docs = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    (line,) = re.findall(r"pip install .*(?=\n.*docs/site/stage\.py)", (ROOT / "build.sh").read_text())
    assert re.findall(r'"([^"]+)"', line) == re.findall(r'"([^"]+)"', wanted)
