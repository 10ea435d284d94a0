"""`count_operators`: what kernels do behind requests, beside the server's own figures."""

import numpy as np
import pytest

from ms_ascend_ops import monitoring
from tests.serving.conftest import Served
from tests.serving.test_inference import body, inputs


def counted(served, operators):
    """Calls of each of some operators."""
    return {
        operator: sum(
            value
            for name, value in served.metrics().items()
            if name.startswith("ms_ascend_ops_call_seconds_count{") and f'operator="{operator}"' in name
        )
        for operator in operators
    }


@pytest.fixture
def served(network_files, language_file):
    from ms_ascend_ops.serving import Settings  # noqa: PLC0415

    one = Served(Settings(models={"block": network_files["block"], "tiny": language_file}, count_operators=True))
    yield one
    one.close()
    assert monitoring._running == []


def test_operators_of_graphs_and_of_language_models(served):
    before = counted(served, ["add_rms_norm", "silu_mul", "rms_norm", "swiglu"])
    x, y = inputs(np.random.default_rng(0), 2, 3)
    assert served.post("/v2/models/block/infer", body(x, y)).status_code == 200
    after = counted(served, before)
    assert sum(after.values()) > sum(before.values())
    answer = served.post("/v1/completions", {"model": "tiny", "prompt": [1, 2, 3], "max_tokens": 4})
    assert answer.status_code == 200, answer.text
    last = counted(served, before)
    assert last["rms_norm"] + last["add_rms_norm"] > after["rms_norm"] + after["add_rms_norm"]
    assert any(name.startswith("ms_ascend_ops_serving_requests_total") for name in served.metrics())
