"""The workflow for a user's CI: it runs with each MindSpore that was tried, by a command that there is."""

import re
from pathlib import Path

import yaml

from ms_ascend_ops.mindspore_versions import TRIED

ROOT = Path(__file__).parents[2]


def test_the_matrix_has_every_version_that_was_tried():
    (job,) = yaml.safe_load((ROOT / "examples/ci/mindspore-versions.yml").read_text("utf-8"))["jobs"].values()
    matrix = job["strategy"]["matrix"]["include"]
    assert tuple(row["mindspore"] for row in matrix) == TRIED
    assert {row["python"] for row in matrix} <= {"3.10", "3.11", "3.12"}
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands == ["bash build.sh test --mindspore ${{ matrix.mindspore }}"]
    assert re.search(r"--mindspore\) .*command=other_mindspore", (ROOT / "build.sh").read_text("utf-8"))
