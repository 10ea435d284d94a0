"""No hot loop takes more instructions than it did. Runs on a portable build: `bash build.sh portable`."""

import os
import platform
import shutil

import pytest

from tests.kernels.instructions import UNIT, expected, measured

COMPILERS = 1.2  # they differ by so much


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.skipif(platform.machine() != "x86_64", reason=f"the counts are those of {UNIT}")
@pytest.mark.skipif(os.environ.get("MS_ASCEND_OPS_PORTABLE") != "1", reason="counts are those of a portable build")
def test_no_kernel_takes_more(tmp_path):
    table = expected()
    found = measured([(text, dtype) for text, counts in table.items() for dtype in counts], tmp_path)
    more = [
        f"{text} {dtype}: {found[text][dtype]:.2f} instructions an element, {bound} before"
        for text, counts in table.items()
        for dtype, bound in counts.items()
        if found[text][dtype] > COMPILERS * bound
    ]
    assert not more, "\n".join([*more, "If that is meant: python -m tests.kernels.instructions > counts.yaml"])
