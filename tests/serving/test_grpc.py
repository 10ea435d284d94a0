"""The Open Inference Protocol over gRPC, through a channel."""

import os
import subprocess
import sys
import threading

import grpc
import numpy as np
import pytest

from ms_ascend_ops.serving.graphs import GraphNetwork
from ms_ascend_ops.serving.inference_grpc import grpc_server
from ms_ascend_ops.serving.messages import SERVICE, message
from tests.serving import networks
from tests.serving.test_inference import close, inputs
from tests.waiting import wait


@pytest.fixture(scope="module")
def channel(served):
    async def start():
        server, port = grpc_server(served.service, "127.0.0.1:0")
        await server.start()
        return server, port

    server, port = served.run(start())
    with grpc.insecure_channel(f"127.0.0.1:{port}") as one:
        yield one
    served.run(server.stop(1))


def method(channel, name):
    serialize, read = message(f"{name}Request").SerializeToString, message(f"{name}Response").FromString
    return channel.unary_unary(f"/{SERVICE}/{name}", serialize, read)


def request(x, y, raw=True, **fields):
    made = message("ModelInferRequest")(model_name="block", model_version="1", **fields)
    for name, value in (("x", x), ("y", y)):
        entry = made.inputs.add(name=name, datatype="FP32", shape=value.shape)
        if raw:
            made.raw_input_contents.append(value.tobytes())
        else:
            entry.contents.fp32_contents.extend(value.ravel().tolist())
    return made


@pytest.mark.parametrize("raw", [True, False])
def test_values(channel, rng, raw):
    x, y = inputs(rng, 2, 3)
    answer = method(channel, "ModelInfer")(request(x, y, raw, id="5"), timeout=20)
    assert (answer.id, answer.model_version) == ("5", "1")
    first, second = answer.raw_output_contents
    assert close(np.frombuffer(first, np.float32).reshape(x.shape), networks.expected(x, y))
    assert second == x.astype(np.float16).tobytes()
    assert [one.datatype for one in answer.outputs] == ["FP32", "FP16"]


def test_configuration_and_statistics(channel, served, rng):
    """What HTTP says, with Triton's numbers of types (FP32: 11, FP16: 10)."""
    config = method(channel, "ModelConfig")(message("ModelConfigRequest")(name="block"), timeout=20).config
    assert (config.name, config.max_batch_size, config.backend) == ("block", 16, "ms_ascend_ops")
    assert [(one.name, one.data_type, list(one.dims)) for one in config.input] == [
        ("x", 11, [-1, 8]),
        ("y", 11, [-1, 8]),
    ]
    assert [one.data_type for one in config.output] == [11, 10]
    method(channel, "ModelInfer")(request(*inputs(rng, 2, 3)), timeout=20)
    asked = message("ModelStatisticsRequest")(name="block", version="1")
    (one,) = method(channel, "ModelStatistics")(asked, timeout=20).model_stats
    (known,) = served.get("/v2/models/block/versions/1/stats").json()["model_stats"]
    assert (one.inference_count, one.execution_count) == (known["inference_count"], known["execution_count"])
    assert one.inference_stats.success.ns == known["inference_stats"]["success"]["ns"] > 0
    assert len(one.batch_stats) == len(known["batch_stats"]) >= 1
    assert code(method(channel, "ModelConfig"), message("ModelConfigRequest")(name="other"))[0] == "NOT_FOUND"


def code(call, *arguments, **options):
    with pytest.raises(grpc.RpcError) as error:
        call(*arguments, timeout=20, **options)
    return error.value.code().name, error.value.details()


def test_errors(channel, rng):
    infer = method(channel, "ModelInfer")
    x, y = inputs(rng, 2, 3)
    assert code(infer, request(x, y[:, :2]))[0] == "INVALID_ARGUMENT"
    assert code(infer, message("ModelInferRequest")(model_name="none"))[0] == "NOT_FOUND"
    both = request(x, y)
    both.inputs[0].contents.fp32_contents.append(1)
    assert "has contents beside raw_input_contents" in code(infer, both)[1]
    wrong = request(x, y, raw=False)
    wrong.inputs[0].contents.int_contents.append(1)
    assert "FP32 must be in fp32_contents, got int_contents" in code(infer, wrong)[1]
    large = np.zeros((1, 2**19, 1), np.float32)
    assert code(infer, request(large, large))[0] == "RESOURCE_EXHAUSTED"
    plain = channel.unary_unary(f"/{SERVICE}/ModelInfer")
    assert code(plain, b"\xff\xff")[0] == "INVALID_ARGUMENT"
    assert code(channel.unary_unary(f"/{SERVICE}/ModelStreamInfer"), b"")[0] == "UNIMPLEMENTED"


def test_who_hangs_up_leaves_the_queue(channel, served, rng, monkeypatch):
    """While another request runs: cancelled by the client, and by its deadline."""
    x, y = inputs(rng, 16, 3)  # a full batch: requests do not run together
    run, started, may = GraphNetwork.run, threading.Event(), threading.Event()
    runs = []

    def slow(self, given):
        runs.append(given)
        started.set()
        may.wait(60)
        return run(self, given)

    monkeypatch.setattr(GraphNetwork, "run", slow)
    infer = method(channel, "ModelInfer")
    first = infer.future(request(x, y), timeout=20)
    assert started.wait(20)
    cancelled = infer.future(request(x, y), timeout=20)
    wait(lambda: queue_length(served) == 1)
    cancelled.cancel()
    wait(lambda: queue_length(served) == 0)
    assert infer.future(request(x, y), timeout=0.3).exception().code() == grpc.StatusCode.DEADLINE_EXCEEDED
    wait(lambda: queue_length(served) == 0)
    short = request(x, y)
    short.parameters["timeout"].int64_param = 1000  # microseconds
    assert code(infer, short) == ("DEADLINE_EXCEEDED", "there was no answer within 0.001 s")
    may.set()
    assert first.result().model_name == "block"
    assert len(runs) == 1


def queue_length(served):
    return served.metrics().get('ms_ascend_ops_serving_queue_length{model="block",version="1"}', 0)


def test_mindspore_comes_up_after_protobuf():
    """Up to 2.9 it refuses the implementation in C, which protobuf has unless somebody asks for the other one."""
    code = "import ms_ascend_ops.serving.messages, mindspore"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PROTOCOL_BUFFERS")}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
