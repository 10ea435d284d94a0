"""Predicted times: the clocks of streams, events and the trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ms_ascend_ops.profiler.chip import load_chip
from tests.device.acl import program

CODE = """
    from tests.device.device_calls import vector_call
    n = 1 << 18
    x = np.ones(n, np.float32)
    source, target = acl.put(x), acl.malloc(x.nbytes)
    first, second, events = acl.stream(), acl.stream(), [acl.event() for _ in range(6)]
    def sqrt(stream):
        data = vector_call("aclnnSqrt", n, source, target)
        acl.MsAscendDeviceCall(stream, data, c_size_t(len(data)))
    acl.RecordEvent(events[0], first)
    sqrt(first)
    acl.RecordEvent(events[1], first)
    acl.copy(target, source, x.nbytes, DEVICE_TO_DEVICE, first)
    acl.RecordEvent(events[2], first)
    acl.copy(target, x, x.nbytes, HOST_TO_DEVICE, first)
    acl.RecordEvent(events[3], first)
    acl.RecordEvent(events[4], second)
    acl.StreamWaitEvent(second, events[3])
    sqrt(second)
    acl.RecordEvent(events[5], second)
    acl.SynchronizeDevice()
    print(json.dumps([acl.elapsed_ms(events[0], event) * 1e3 for event in events]))
"""


def test_predicted_times(tmp_path: Path):
    path = tmp_path / "trace.json"
    done = program(
        "import json\n" + CODE.replace("\n    ", "\n"),
        MS_ASCEND_EMULATED_TRACE=str(path),
        MS_ASCEND_EMULATED_OPERATORS="",
        MS_ASCEND_EMULATED_CHIP="soc=Ascend910B2",
    )
    assert done.returncode == 0, done.stderr
    # An operator of CANN: the launch, and its bytes by the roofline.
    chip = load_chip("ascend910b2")
    count = 4 << 18
    once = count / (chip.hbm_gb_per_s * chip.hbm_efficiency * 1e3)
    call, copy, upload = chip.launch_us + chip.cann_memory_ratio * 2 * once, 2 * once, count / 25e3
    before = [0, call, call + copy, call + copy + upload]
    assert json.loads(done.stdout) == pytest.approx([*before, 0, before[3] + call], rel=1e-3, abs=2e-3)
    trace = json.loads(path.read_text())
    assert trace["predicted"] is True
    slices = [row for row in trace["traceEvents"] if row["ph"] == "X"]
    assert [row["name"] for row in slices] == ["aclnnSqrt", "copy", "host copy", "aclnnSqrt"]
    assert [row["ts"] for row in slices] == pytest.approx(before, abs=2e-3)
    assert slices[3]["tid"] != slices[0]["tid"] == slices[1]["tid"]
    assert slices[0]["args"] == {"by": "CANN", "predicted from": "a roofline", "bound": "launch", "bytes": 2 * count}
    assert "timeline: " in done.stderr
    assert "aclnnSqrt" in done.stderr
