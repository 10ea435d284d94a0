"""The application under Ray Serve: two replicas, one of which is killed while requests come."""

import json
import os
import signal
import socket
import threading
import urllib.error
import urllib.request
from importlib.util import find_spec

import pytest
from ms_ascend_ops.benchmarks.serving import network, servers
from ms_ascend_ops.benchmarks.serving.clients import Load, network_questions, run_load

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(find_spec("ray") is None, reason="`bash build.sh test --clients` installs it"),
]


def test_a_replica_is_killed(tmp_path):
    """Requests that it had are sent again; no answer is wrong; Ray starts another one."""
    model = network.write(tmp_path / "network")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with servers.ray(model, port, 2, stock=False) as processes:
        assert len(processes) == 2
        url = f"http://127.0.0.1:{port}/v2"
        assert json.load(urllib.request.urlopen(f"{url}/models/network", timeout=10))["versions"] == ["1"]
        with pytest.raises(urllib.error.HTTPError, match="403"):  # it would reach one of them only
            urllib.request.urlopen(f"{url}/repository/models/network/unload", b"{}", timeout=10)
        threading.Timer(3, os.kill, (processes[0], signal.SIGKILL)).start()
        result = run_load(Load(port, network_questions(32), clients=8, seconds=15, retried=True))
        assert set(result.outcomes) <= {"right", "retried", "hung up"}, result.lines()
        assert result.outcomes["right"] > 50
        assert set(servers._replicas()) - set(processes)
