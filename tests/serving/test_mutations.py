"""Requests with errors of any kind: an answer, or 4xx with a message; never 500, and the server lives."""

import asyncio
import json
import random
from copy import deepcopy

import grpc
import numpy as np

from ms_ascend_ops.serving.inference_grpc import _Calls
from ms_ascend_ops.serving.messages import message
from tests.serving import networks
from tests.serving.test_inference import body, close, output

X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(2, 2, 8)
HEADER = {
    "inputs": [
        {"name": name, "datatype": "FP32", "shape": [2, 2, 8], "parameters": {"binary_data_size": X.nbytes}}
        for name in "xy"
    ],
    "parameters": {"binary_data_output": True, "timeout": 10**7},
    "outputs": [{"name": "output_0", "parameters": {"binary_data": True}}],
}
SAMPLING = {
    "temperature": 0.5, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "seed": 1, "n": 2, "stop": ["x"], "max_tokens": 3,
}  # fmt: skip
CHAT = {
    "model": "tiny",
    "messages": [{"role": "system", "content": "he"}, {"role": "user", "content": [{"type": "text", "text": "hello"}]}],
    "stream": True,
    "stream_options": {"include_usage": True},
    **SAMPLING,
}
# Path and object of good requests. Loading is left out of most of them: it takes 100 times as long.
GOOD = [
    ("/v2/models/block/infer", body(X, X, id="1", outputs=[{"name": "output_0"}])),
    ("/v2/models/block/versions/2/infer", body(X, X, parameters={"timeout": 10**7})),
    ("/v1/completions", {"model": "tiny", "prompt": ["hello", "world"], "echo": True, "logprobs": None, **SAMPLING}),
    ("/v1/completions", {"model": "tiny:1", "prompt": [1, 2, 3], "max_tokens": 3}),
    ("/v1/chat/completions", CHAT),
    ("/v2/repository/index", {"ready": True}),
    ("/v2/repository/models/block/traffic", {"traffic": {"1": 3, "2": 1}}),
    ("/v2/repository/models/none/load", {"parameters": {"config": '{"queue": 3}'}}),
]
ODD = [
    None, True, False, 0, 1, -1, 2, 3.5, -0.0, 1e99, float("nan"), float("inf"), 2**31, 2**63, 2**64, -(2**63) - 1,
    10**400,
    "", "x", "\0", "\ud800", "tiny", "block", "FP16", "INT64", "BYTES", "../..", "é" * 50, "1" * 500, [], [[]], {}, [0],
    [None], ["x"], [[1], [2, 3]], [[[[[[[[[[1]]]]]]]]]], {"a": 1}, {"name": "x"}, list(range(300)),
]  # fmt: skip


def places(value, path=()):
    """Every part of an object: where it is."""
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in list(parts)[:40]:
        yield from places(part, (*path, key))


def changed(rng, value):
    """A part of an object replaced, left out, given twice, or under another name."""
    value = deepcopy(value)
    path = rng.choice(list(places(value)))
    if not path:
        return rng.choice(ODD)
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    kind = rng.random()
    if kind < 0.6:
        holder[path[-1]] = rng.choice(ODD)
    elif kind < 0.75:
        del holder[path[-1]]
    elif isinstance(holder, list):
        holder.insert(rng.randrange(len(holder) + 1), deepcopy(holder[path[-1]]))
    else:
        holder[rng.choice(["", "x", "parameters", "n", "\ud800", "inputs"])] = holder.pop(path[-1])
    return value


def damaged(rng, data):
    """Some bytes flipped, cut out, or put in."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(data)) if data else 0
        kind = rng.random()
        if kind < 0.5 and data:
            data[place] = rng.choice([0, 255, 34, 92, 123, 125, rng.randrange(256)])
        elif kind < 0.7:
            del data[place : place + rng.choice([1, 2, 50])]
        else:
            data[place:place] = rng.choice([b"\0", b'"', b"{", b"[" * 2000, b"\xff\xfe", b"1e999", b"9" * 5000, b"NaN"])
    return bytes(data)


def mutated(rng):
    """Path, body, headers."""
    headers = {}
    if rng.random() < 0.25:
        path, fields = "/v2/models/block/infer", HEADER
        fields = changed(rng, fields) if rng.random() < 0.5 else fields
        head = json.dumps(fields).encode()
        if rng.random() < 0.3:
            head = damaged(rng, head)
        length = rng.choice([len(head)] * 4 + [0, -1, len(head) - 1, len(head) + 1, 10**30, "x", "", "²"])
        headers["Inference-Header-Content-Length"] = str(length).encode()
        data = head + X.tobytes() * 2
        data = damaged(rng, data) if rng.random() < 0.3 else data
    else:
        path, fields = rng.choice(GOOD)
        for _ in range(rng.randint(0, 3)):
            fields = changed(rng, fields)
        data = json.dumps(fields).encode()
        if rng.random() < 0.4:
            data = damaged(rng, data)
    if rng.random() < 0.05:
        path = rng.choice(
            ["/v2/models/x/infer", "/v2/models/block/versions/9/infer", "/v2/models/%00/infer", "/v1/", "//"]
        )
    if rng.random() < 0.05:
        headers[rng.choice(["Content-Type", "Content-Encoding", "Authorization", "Accept", "Expect"])] = rng.choice(
            [b"text/xml", b"gzip", b"\xff", b"Bearer", b""]
        )
    return path, data, headers


def count(request):
    """Of the 10,000: all with --thorough, a sample otherwise."""
    return 10_000 if request.config.getoption("cases") == "all" else 600


def test_http(served, request):
    async def one(seed):
        path, data, headers = mutated(random.Random(seed))
        answer = await served.client.post(path, content=data, headers=headers)
        return seed, answer

    async def some(seeds):
        return await asyncio.gather(*map(one, seeds))

    seen = []
    for first in range(0, count(request), 50):
        for seed, answer in served.run(some(range(first, first + 50))):
            seen.append(answer.status_code)
            if answer.status_code != 200:
                assert 400 <= answer.status_code < 500, (seed, answer.status_code, answer.text)
                error = answer.json()["error"]
                assert error if isinstance(error, str) else error["message"], seed
            else:
                assert b'{"error"' not in answer.content, seed
    share = seen.count(200) / len(seen)
    assert 0.1 < share < 0.6, share  # both are tried
    lives(served)


def lives(served):
    answer = served.post("/v2/models/block/versions/1/infer", body(X, X))
    assert close(output(answer.json()), networks.expected(X, X))
    assert served.get("/v2/health/ready").status_code == 200


class AbortedError(Exception):
    pass


class Context:
    """What a method of gRPC sees of a call."""

    def invocation_metadata(self):
        return ()

    async def abort(self, code, details):
        raise AbortedError(code, details)


def good_messages():
    kind = message("ModelInferRequest")
    raw = kind(model_name="block", id="1", raw_input_contents=[X.tobytes()] * 2)
    raw.parameters["timeout"].int64_param = 10**7
    typed = kind(model_name="block", model_version="1")
    for name in "xy":
        raw.inputs.add(name=name, datatype="FP32", shape=X.shape)
        typed.inputs.add(name=name, datatype="FP32", shape=X.shape).contents.fp32_contents.extend(X.ravel().tolist())
    typed.outputs.add(name="output_1")
    load = message("RepositoryModelLoadRequest")(model_name="none")
    load.parameters["config"].string_param = "{}"
    return [
        ("ModelInfer", raw),
        ("ModelInfer", typed),
        ("ModelMetadata", message("ModelMetadataRequest")(name="block", version="1")),
        ("RepositoryIndex", message("RepositoryIndexRequest")(ready=True)),
        ("RepositoryModelLoad", load),
    ]


def test_grpc(served, request):
    """The methods themselves: the channel is gRPC's."""
    calls = _Calls(served.service)
    good = [(name, one.SerializeToString()) for name, one in good_messages()]
    fault_of_client = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.DEADLINE_EXCEEDED)

    async def one(seed):
        rng = random.Random(seed)
        name, data = rng.choice(good)
        try:
            await calls.guarded(name)(damaged(rng, data) if seed % 20 else data, Context())
        except AbortedError as error:
            return seed, *error.args
        return seed, None, ""

    async def some(seeds):
        return await asyncio.gather(*map(one, seeds))

    seen = []
    for first in range(0, count(request) // 2, 50):
        for seed, code, details in served.run(some(range(first, first + 50))):
            seen.append(code)
            assert code is None or (code in fault_of_client and details), (seed, code, details)
    assert 0.05 < seen.count(None) / len(seen) < 0.9
    lives(served)
