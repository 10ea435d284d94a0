"""The Open Inference Protocol over HTTP."""

import asyncio
import json
import re

import numpy as np
import pytest

from ms_ascend_ops.serving import Settings
from ms_ascend_ops.serving.tensors import from_bfloat16, to_bfloat16
from tests.serving import networks
from tests.serving.conftest import Served

INFER = "/v2/models/block/versions/1/infer"


def tensor(name, array, datatype="FP32"):
    return {"name": name, "datatype": datatype, "shape": list(array.shape), "data": array.ravel().tolist()}


def inputs(rng, *shape):
    return (rng.standard_normal((*shape, networks.SIZE)).astype(np.float32) for _ in range(2))


def body(x, y, **fields):
    return {"inputs": [tensor("x", x), tensor("y", y)], **fields}


def close(got, wanted):
    return np.allclose(got, wanted, rtol=1e-5, atol=1e-5)


def output(answer, index=0):
    entry = answer["outputs"][index]
    return np.array(entry["data"]).reshape(entry["shape"])


def test_metadata(served):
    assert served.get("/v2").json()["extensions"] == [
        "binary_tensor_data",
        "model_configuration",
        "model_repository",
        "statistics",
    ]
    assert served.get("/v2/health/live").json() == {"live": True}
    assert served.get("/v2/health/ready").json() == {"ready": True}
    assert served.get("/v2/models/block/ready").json() == {"name": "block", "ready": True}
    assert served.get("/v2/models/block").json() == {
        "name": "block",
        "versions": ["1", "2"],
        "platform": "mindspore_mindir",
        "inputs": [{"name": name, "datatype": "FP32", "shape": [-1, -1, 8]} for name in "xy"],
        "outputs": [
            {"name": "output_0", "datatype": "FP32", "shape": [-1, -1, 8]},
            {"name": "output_1", "datatype": "FP16", "shape": [-1, -1, 8]},
        ],
    }
    assert served.get("/v2/models/block/versions/3").status_code == 404
    assert served.get("/v2/nothing").json() == {"error": "there is no such path"}
    assert served.get(INFER).status_code == 405


def test_configuration(served):
    """As Triton has it: without the axis of the batch."""
    config = served.get("/v2/models/block/config").json()
    assert config == served.get("/v2/models/block/versions/2/config").json()
    assert (config["name"], config["max_batch_size"], config["platform"]) == ("block", 16, "mindspore_mindir")
    assert config["input"] == [{"name": name, "data_type": "TYPE_FP32", "dims": [-1, 8]} for name in "xy"]
    assert [one["data_type"] for one in config["output"]] == ["TYPE_FP32", "TYPE_FP16"]
    assert config["dynamic_batching"] == {"max_queue_delay_microseconds": 1000}
    language = served.get("/v2/models/tiny/config").json()
    assert (language["input"], language["max_batch_size"]) == ([], 0)
    assert served.get("/v2/models/other/config").status_code == 404


def test_statistics(served, rng):
    """Counts of rows, runs and requests, and that time passed."""

    def stats(path="block/versions/2/stats"):
        return served.get(f"/v2/models/{path}").json()["model_stats"]

    (before,) = stats()
    x, y = inputs(rng, 3, 2)
    assert served.post("/v2/models/block/versions/2/infer", body(x, y)).status_code == 200
    (after,) = stats()
    assert after["inference_count"] == before["inference_count"] + 3
    assert after["execution_count"] == before["execution_count"] + 1
    for name in ("success", "queue", "compute_infer"):
        old, new = before["inference_stats"][name], after["inference_stats"][name]
        assert new["count"] == old["count"] + 1, name
        assert new["ns"] > old["ns"], name
    assert after["last_inference"] > 1.7e12  # ms
    assert {one["batch_size"] for one in after["batch_stats"]} >= {3}
    assert [one["version"] for one in stats("block/stats")] == ["1", "2"]
    assert {one["name"] for one in stats("stats")} == {"block", "tiny"}
    assert served.get("/v2/models/block/versions/9/stats").status_code == 404


def test_statistics_of_a_language_model(served):
    """An answer is a run; a request that is refused is none."""

    def stats():
        return served.get("/v2/models/tiny/stats").json()["model_stats"][0]

    before, asked = stats(), {"model": "tiny", "prompt": "hello", "max_tokens": 3}
    assert served.post("/v1/completions", asked).status_code == 200
    assert served.post("/v1/completions", {**asked, "max_tokens": "3"}).status_code == 400
    after = stats()
    assert after["inference_count"] == before["inference_count"] + 1
    durations = after["inference_stats"]
    for name in ("success", "queue", "compute_infer"):
        assert durations[name]["count"] == before["inference_stats"][name]["count"] + 1, name
    assert durations["success"]["ns"] >= durations["queue"]["ns"] + durations["compute_infer"]["ns"] - 1000 > 0


@pytest.mark.parametrize("shape", [(1, 1), (2, 5), (20, 3)], ids=str)  # the last one is more than a batch holds
def test_json(served, rng, shape):
    x, y = inputs(rng, *shape)
    answer = served.post(INFER, body(x, y, id="seven")).json()
    assert (answer["id"], answer["model_name"], answer["model_version"]) == ("seven", "block", "1")
    assert close(output(answer), networks.expected(x, y))
    assert np.array_equal(output(answer, 1), x.astype(np.float16))


def test_nested_lists_and_one_output(served, rng):
    x, y = inputs(rng, 2, 3)
    given = body(x, y, outputs=[{"name": "output_1"}])
    given["inputs"][0]["data"] = x.tolist()
    answer = served.post(INFER, given).json()
    assert [entry["name"] for entry in answer["outputs"]] == ["output_1"]
    assert np.array_equal(output(answer), x.astype(np.float16))


def test_binary_tensors(served, rng):
    """One input as bytes, one in JSON; one output as bytes."""
    x, y = inputs(rng, 3, 2)
    first = {"name": "x", "datatype": "FP32", "shape": [3, 2, 8], "parameters": {"binary_data_size": x.nbytes}}
    wanted = [{"name": "output_1", "parameters": {"binary_data": True}}, {"name": "output_0"}]
    header = json.dumps({"inputs": [first, tensor("y", y)], "outputs": wanted}).encode()
    length = {"Inference-Header-Content-Length": str(len(header))}
    answer = served.post(INFER, content=header + x.tobytes(), headers=length)
    size = int(answer.headers["Inference-Header-Content-Length"])
    fields = json.loads(answer.content[:size])
    assert fields["outputs"][0]["parameters"] == {"binary_data_size": x.nbytes // 2}
    assert np.array_equal(np.frombuffer(answer.content[size:], np.float16), x.astype(np.float16).ravel())
    assert close(output(fields, 1), networks.expected(x, y))


def test_shares_of_the_versions(served, rng):
    """config.yaml gives version 1 three of four requests."""
    x, y = inputs(rng, 1, 2)
    seen = []
    for _ in range(12):
        answer = served.post("/v2/models/block/infer", body(x, y)).json()
        seen.append(answer["model_version"])
        assert close(output(answer), networks.expected(x, y, int(seen[-1])))
    assert seen.count("1") == 9
    path = "/v2/repository/models/block/traffic"
    assert served.post(path, {"traffic": {"2": 1}}).json() == {"traffic": {"2": 1}}
    assert served.post("/v2/models/block/infer", body(x, y)).json()["model_version"] == "2"
    for wrong in ({"3": 1}, {"1": -1}, {"1": 0}, {"one": 1}, [], {"1": "2"}):
        assert served.post(path, {"traffic": wrong}).status_code == 400
    assert served.post(path, {"traffic": {"1": 3, "2": 1}}).status_code == 200


def test_many_at_once(served, rng):
    """Requests of different sizes run together, and each gets its own answer."""
    given = [tuple(inputs(rng, 1 + index % 3, 2 + index % 2)) for index in range(60)]

    async def all_of_them():
        return await asyncio.gather(*(served.client.post(INFER, json=body(x, y)) for x, y in given))

    rows = served.metrics()
    for (x, y), answer in zip(given, served.run(all_of_them()), strict=True):
        assert answer.status_code == 200
        assert close(output(answer.json()), networks.expected(x, y))
    key = 'ms_ascend_ops_serving_batch_rows_count{model="block",version="1"}'
    assert served.metrics()[key] - rows[key] < 40


WRONG = {
    "no JSON": (b"{", "is not JSON"),
    "no object": (b"[]", "must be a JSON object"),
    "deep": (b'{"inputs":' + b"[" * 100_000, "is not JSON"),
    "no inputs": ({}, "inputs must be a list"),
    "a missing one": ({"inputs": []}, "the input x is missing"),
    "another name": ({"inputs": [{"name": "z", "datatype": "FP32", "shape": [1], "data": [1]}]}, "has no input 'z'"),
}


@pytest.mark.parametrize(("content", "message"), WRONG.values(), ids=WRONG)
def test_wrong_bodies(served, content, message):
    options = {"content": content} if isinstance(content, bytes) else {"json": content}
    answer = served.run(served.client.post(INFER, **options))
    assert answer.status_code == 400
    assert message in answer.json()["error"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"datatype": "FP16"}, "datatype must be FP32, got FP16"),
        ({"datatype": "FLOAT"}, "datatype must be one of"),
        ({"shape": [2, 2, 8]}, r"has 32 values, got data of \[16\]"),
        ({"shape": [2, 8]}, "shape must be"),
        ({"shape": [1, 2, -8]}, "sizes of shape must be integers from 1"),
        ({"shape": [0, 2, 8], "data": []}, "sizes of shape must be integers from 1"),
        ({"shape": "1, 2, 8"}, "shape must be a list"),
        ({"shape": [1.0, 2, 8]}, "sizes of shape must be integers"),
        ({"data": [True] * 16}, "must be values of FP32, got True"),
        ({"data": ["1"] * 16}, "data must be numbers"),
        ({"data": [None] * 16}, "data must be numbers"),
        ({"data": [10**400] * 16}, "out of the range"),
        ({"data": [1e300] * 16}, "out of the range of FP32"),
        ({"data": [[1.0] * 8, [1.0] * 7]}, "equal lengths"),
        ({"data": 1}, "data must be a list"),
        ({"parameters": {"binary_data_size": 64}}, "both data and binary_data_size"),
        ({"parameters": {"shared_memory_region": "x"}}, "is not supported"),
        ({"parameters": []}, "parameters must be an object"),
        ({"shape": [1, 4, 8], "data": [0.0] * 32}, "the size s must be 4, got"),
    ],
)
def test_wrong_tensors(served, changes, message):
    x = np.ones((1, 2, 8), np.float32)
    given = body(x, x)
    given["inputs"][0] |= changes
    answer = served.post(INFER, given)
    assert answer.status_code == 400
    assert re.search(message, answer.json()["error"])


def test_largest_size(served):
    x = np.ones((1, 65, 8), np.float32)
    assert "s must be at most 64, got 65" in served.post(INFER, body(x, x)).json()["error"]


def test_limits_of_the_body(served):
    answer = served.post(INFER, content=b" " * (2**20 + 1))
    assert (answer.status_code, answer.json()["error"]) == (413, "the body may have 1048576 bytes")

    async def chunks():
        for _ in range(40):
            yield b" " * 2**15

    assert served.run(served.client.post(INFER, content=chunks())).status_code == 413
    assert served.post(INFER, content=b"x", headers={"Content-Encoding": "gzip"}).status_code == 400


def test_limit_of_all_bodies(network_files, rng):
    """Of 8 at once, those are refused whose bodies would not fit; afterwards there is room again."""
    x, y = inputs(rng, 4, 16)
    size = len(json.dumps(body(x, y)))
    served = Served(Settings(models={"block": network_files["block"]}, all_bodies_bytes=3 * size))

    async def eight():
        post = served.client.post
        return await asyncio.gather(*(post("/v2/models/block/infer", json=body(x, y)) for _ in range(8)))

    try:
        codes = [answer.status_code for answer in served.run(eight())]
        assert set(codes) == {200, 429}
        assert codes.count(200) >= 3
        assert served.post("/v2/models/block/infer", body(x, y)).status_code == 200
    finally:
        served.close()


def test_limit_of_requests(network_files, rng):
    x, y = inputs(rng, 1, 1)
    served = Served(Settings(models={"block": network_files["block"]}, requests=2))

    async def five():
        post = served.client.post
        return await asyncio.gather(*(post("/v2/models/block/infer", json=body(x, y)) for _ in range(5)))

    try:
        assert [answer.status_code for answer in served.run(five())].count(429) == 3
        assert served.get("/v2/health/live").status_code == 200
    finally:
        served.close()


def test_a_network_that_raises(network_files, rng):
    """Without `sizes` only the network knows that x and y must be alike; MindSpore's graph is of no use after that."""
    served = Served(Settings(models={"block": network_files["block"]}))
    try:
        x, y = inputs(rng, 2, 3)
        for _ in range(2):  # the second time without running it
            answer = served.post("/v2/models/block/infer", body(x, y[:, :2]))
            assert answer.status_code == 400
            assert "the network cannot take inputs of [2, 3, 8], [2, 2, 8]" in answer.json()["error"]
        assert close(output(served.post("/v2/models/block/infer", body(x, y)).json()), networks.expected(x, y))
        count = served.metrics()['ms_ascend_ops_serving_model_requests_total{model="block",version="1"}']
        assert count == 2
    finally:
        served.close()


def test_other_datatypes(network_files):
    """bfloat16, int32 and bool, in JSON and as bytes; sizes that are fixed."""
    served = Served(Settings(models={"identity": network_files["identity"]}))
    try:
        x = np.array([[1.5, -2], [3.140625, 1e30]], np.float32)
        n, flag = np.array([-5, 0, 7], np.int32), np.array([True, False])
        given = [tensor("x", x, "BF16"), tensor("n", n, "INT32"), tensor("flag", flag, "BOOL")]
        answer = served.post("/v2/models/identity/infer", {"inputs": given}).json()
        assert [entry["datatype"] for entry in answer["outputs"]] == ["BF16", "INT32", "BOOL"]
        assert np.array_equal(output(answer), from_bfloat16(to_bfloat16(x)))
        assert output(answer, 1).tolist() == [-4, 1, 8]
        assert output(answer, 2).tolist() == [False, True]
        given[1]["data"] = [2**31, 0, 0]
        assert "INT32 is -2147483648 to" in served.post("/v2/models/identity/infer", {"inputs": given}).json()["error"]
        parts = [to_bfloat16(x).tobytes(), n.tobytes(), flag.tobytes()]
        for entry, part in zip(given, parts, strict=True):
            del entry["data"]
            entry["parameters"] = {"binary_data_size": len(part)}
        header = json.dumps({"inputs": given, "parameters": {"binary_data_output": True}}).encode()
        length = {"Inference-Header-Content-Length": str(len(header))}
        answer = served.post("/v2/models/identity/infer", content=header + b"".join(parts), headers=length)
        size = int(answer.headers["Inference-Header-Content-Length"])
        expected = [parts[0], (n + 1).tobytes(), (~flag).tobytes()]
        assert answer.content[size:] == b"".join(expected)
    finally:
        served.close()


def test_rows_that_depend_on_each_other_are_not_batched(network_files):
    with pytest.raises(Exception, match="max_batch_size: rows of output_0 depend on the rows beside them"):
        Served(Settings(models={"mixed": network_files["mixed"]}, defaults={"max_batch_size": 8}))
