"""HCCL between emulated devices: of one program, and of two programs on this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid

import pytest

from tests.device import communication_program
from tests.device.acl import ROOT, VARIABLES

PROGRAM = [sys.executable, "-m", "tests.device.communication_program"]
# Of the device's own operators; what waits for a rank that is not there ends soon enough for a test.
ENVIRONMENT = {
    **{name: value for name, value in VARIABLES.items() if not name.endswith("OPERATORS")},
    "MS_ASCEND_EMULATED_MEMORY": str(1 << 26),
    "MS_ASCEND_EMULATED_LOG": "1",
}
SUM_OF_FLOATS = "call('HcclAllReduce', at, at, four, 4, 0)"


@pytest.fixture(scope="module")
def passed():
    """The checks that passed, and what was written to stderr."""
    done = subprocess.run(
        PROGRAM,
        cwd=ROOT,
        env=os.environ | ENVIRONMENT | {"MS_ASCEND_EMULATED_DEVICES": "3"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.stdout.split(), done.stderr


@pytest.mark.parametrize("check", [check.__name__ for check in communication_program.CHECKS])
def test_three_devices(passed, check):
    """To the bit what NumPy gives in the order of the ranks."""
    names, errors = passed
    assert check in names, errors[-3000:]


@pytest.mark.parametrize(
    "text", ["rank 3 is not among 3", "'.*empty.json' names no rank", "cannot read the table of ranks '.*none.json'"]
)
def test_tables_that_are_wrong_say_why(passed, text):
    assert re.search(f"HCCL: .*{text}", passed[1]), passed[1][-3000:]


def start(codes, **variables):
    """Start two ranks, and return what each wrote when it ended."""
    environment = os.environ | ENVIRONMENT | {"TEST_ROOT": str(uuid.uuid4())} | variables
    ranks = [
        subprocess.Popen(
            [*PROGRAM, str(rank), code],
            cwd=ROOT,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for rank, code in enumerate(codes)
        if code
    ]
    return [rank.communicate(timeout=300)[0] for rank in ranks]


def test_a_rank_that_dies_ends_the_others():
    """It is killed behind the first operation; the other one waits for the second, and is told."""
    first = f"{SUM_OF_FLOATS}; acl.SynchronizeStream(stream); "
    waits, _ = start([f"{first}{SUM_OF_FLOATS}; acl.SynchronizeStream(stream)", f"{first}os.kill(os.getpid(), 9)"])
    assert "HcclAllReduce: rank 1 of 2 in" in waits
    assert "has ended (CommunicationError" in waits


def test_ranks_that_call_other_operations_are_told():
    """Rank 1 is told what rank 0 did instead; rank 0, that rank 1 has ended the communicator."""
    end = "; acl.SynchronizeStream(stream)"
    one, other = start([SUM_OF_FLOATS + end, "call('HcclBroadcast', at, four, 4, 0)" + end])
    expected = (
        "HcclBroadcast: rank 1 in .* expects 4 elements of float32, but rank 0 called HcclAllReduce with 2 of float32"
    )
    assert re.search(expected, other), other
    assert "rank 1 of 2 in" in one
    assert "has ended" in one


def test_a_rank_that_never_comes():
    [found] = start(["", "pass"], HCCL_CONNECT_TIMEOUT="1")
    assert "waited for rank 0 1 s (HCCL_CONNECT_TIMEOUT)" in found
