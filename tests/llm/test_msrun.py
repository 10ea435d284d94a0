"""Two processes of msrun against one: the same tokens, and the same losses. All in one run, which takes seconds."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.llm import msrun_process, tiny

ROOT = Path(__file__).resolve().parents[2]


def test_two_processes(tmp_path):
    path = tiny.write_directory(tmp_path / "m")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    command = [
        sys.executable, "-m", "mindspore.parallel.cluster.run", "--worker_num=2", "--local_worker_num=2", "--join=True",
        f"--master_port={port}", f"--log_dir={tmp_path / 'log'}", "--tail_worker_log=2",
        "python", "-m", "tests.llm.msrun_process", str(path), str(tmp_path),
    ]  # fmt: skip
    paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": paths, "GLOG_v": "3", "MS_ASCEND_OPS_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    logs = "".join((tmp_path / "log" / f"worker_{rank}.log").read_text()[-2000:] for rank in (0, 1))
    assert done.returncode == 0, logs
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert first == second  # drawn without a seed, too
    greedy, _, _ = msrun_process.tokens(path)
    assert first["greedy"] == greedy
    expected = msrun_process.losses(path)
    # Gradients of two shares are added up in another order: some ULP of float32 after three steps.
    np.testing.assert_allclose(first["losses"], expected, rtol=2e-6)
    assert expected[-1] < expected[0]
