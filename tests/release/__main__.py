"""`bash build.sh release-check`: the source distribution and the wheel as their users get them.

Both are made, read, and installed in fresh environments, in which some functions and commands are called.
"""

from __future__ import annotations

import email
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

from tests.release.fresh import ROOT, Environment, StepError, run

WORK = ROOT / "build/release"
CALLS = Path(__file__).parent
# Of the files of the repository those that only it needs.
REPOSITORY_ALONE = (".ci/", ".gitignore", "MANIFEST.in")
# Folders that are part of the package under another name.
MAPPED = ("benchmarks", "cells", "export", "samples")


def main() -> None:
    began = time.monotonic()
    # As they are now: who works on while this runs adds none.
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    try:
        source, wheel = distributions()
        read(source, wheel, listed.stdout.splitlines())
        with_mindspore(wheel, "wheel")
        with_mindspore(source, "sdist")
        with_pytorch_alone(wheel)
    except StepError as failure:
        sys.exit(f"FAILED  {failure}")
    print(
        f"{source.name} and {wheel.name}, in {WORK.relative_to(ROOT)}, are fit to be given to others "
        f"({time.monotonic() - began:.0f} s)"
    )


def distributions() -> tuple[Path, Path]:
    """Made by `python -m build`, for any machine of this architecture, without a warning."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    tools = Environment(WORK / "tools")
    tools.pip("install", "--quiet", "build", "twine")
    said = run(
        tools.python, "-m", "build", "--outdir", WORK, cwd=ROOT, label="python -m build", MS_ASCEND_OPS_PORTABLE="1"
    )
    # pip's own words are about its indexes; the compiler has -Wall and -Werror of its own.
    warnings = [line for line in said.splitlines() if re.match(r"\s*warning\b|.*\w*Warning: ", line)]
    if warnings:
        raise StepError("python -m build warns:\n" + "\n".join(warnings))
    (source,), (wheel,) = WORK.glob("*.tar.gz"), WORK.glob("*.whl")
    run(tools.python, "-m", "twine", "check", "--strict", source, wheel, cwd=WORK, label="twine check --strict")
    return source, wheel


def read(source: Path, wheel: Path, tracked: list[str]) -> None:
    """Nothing of the repository is missing, and nothing is said that leads nowhere on an index page."""
    with tarfile.open(source) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    missing = [path for path in tracked if path not in packed and not path.startswith(REPOSITORY_ALONE)]
    if missing:
        raise StepError(f"the source distribution lacks {', '.join(missing[:9])}: MANIFEST.in")
    with zipfile.ZipFile(wheel) as archive:
        installed = set(archive.namelist())
        (name,) = (name for name in installed if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    wanted = [f"ms_ascend_ops/{path}" if path.split("/")[0] in MAPPED else path for path in tracked]
    missing = [path for path in wanted if path.startswith("ms_ascend_ops/") and path not in installed]
    if missing:
        raise StepError(f"the wheel lacks {', '.join(missing[:9])}: pyproject.toml, packages and package-data")
    if lost := re.findall(r"\]\((?!https?:)[^)\s]+\)", metadata.get_payload()):
        raise StepError(f"the description has links that lead nowhere: {', '.join(lost)}")
    print(f"ok      {len(packed)} files in the source distribution, {len(installed)} in the wheel")
    if not metadata.get_all("Project-URL"):
        print("note    pyproject.toml has no [project.urls]: links of README.md are names of files in the description")


def with_mindspore(distribution: Path, label: str) -> None:
    """Installed without extras, beside nothing of this tree."""
    environment, folder = Environment(WORK / f"{label}-environment"), empty_folder(label)
    environment.pip("install", "--quiet", distribution, cwd=folder)
    environment.pip("check", cwd=folder)
    environment.script("python", CALLS / "mindspore_calls.py", cwd=folder)
    for command in (
        ("ms-ascend-ops", "--version"),
        ("ms-ascend-ops", "doctor"),
        ("ms-ascend-ops", "operators"),
        ("ms-ascend-ops", "infer", "block.mindir", "--shape", "3,5,64", "--profile"),
        ("ms_optimize", "stock.mindir", "--fusion_level=O3"),
        ("ms_infer", "--model", "block.mindir", "--shape", "3,5,64"),
        ("python", "-m", "ms_ascend_ops", "bundle", "block.mindir"),
    ):
        environment.script(*command, cwd=folder)
    environment.delete()


def with_pytorch_alone(wheel: Path) -> None:
    """As docs/torch.md tells those who have no MindSpore, with the oldest PyTorch that the page takes."""
    environment, folder = Environment(WORK / "torch-environment"), empty_folder("torch")
    (needs,) = re.findall(r"^pip install ('click.*)$", (ROOT / "docs/torch.md").read_text(), re.MULTILINE)
    needs = re.sub(r"'torch>=([\d.]+)'", r"'torch==\1.*'", needs)
    environment.pip("install", "--quiet", *re.findall(r"'([^']+)'", needs), cwd=folder)
    environment.pip("install", "--quiet", "--no-deps", wheel, cwd=folder)
    environment.script("python", CALLS / "torch_calls.py", cwd=folder)
    environment.delete()


def empty_folder(label: str) -> Path:
    folder = WORK / label
    folder.mkdir()
    return folder


if __name__ == "__main__":
    main()
