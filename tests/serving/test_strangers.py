"""Requests of strangers: much to read, pages of other origins, numbers of any length; what they are told."""

import asyncio
import json
import time

import numpy as np
import pytest

from ms_ascend_ops.serving import Settings
from ms_ascend_ops.serving.errors import BadRequest
from ms_ascend_ops.serving.reader import _raw_bytes
from ms_ascend_ops.serving.settings import read_options
from tests.llm import tiny
from tests.serving.conftest import Served
from tests.serving.test_inference import body, close, inputs, output

LOAD = "/v2/repository/models/tiny/load"
INFER = "/v2/models/block/infer"
COMPLETIONS, CHATS = "/v1/completions", "/v1/chat/completions"
MIB = 2**20


@pytest.fixture(scope="module")
def open_server(repository):
    """With room for large bodies."""
    one = Served(Settings(repository=repository))
    yield one
    one.close()


def text_of(count):
    return json.dumps({"model": "tiny", "prompt": "word " * count})


MUCH = {
    "numbers": (
        INFER, {}, b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[' + b"1," * 4 * MIB + b"1]}]}",
    ),
    "tokens": (COMPLETIONS, {}, b'{"model":"tiny","prompt":[' + b"1," * 4 * MIB + b"1]}"),
    "text": (COMPLETIONS, {}, text_of(2 * MIB).encode()),
    "escapes": (COMPLETIONS, {}, b'{"model":"tiny","prompt":"' + b"\\u0041" * MIB + b'"}'),
    "messages": (
        CHATS, {},
        json.dumps({"model": "tiny", "messages": [{"role": "user", "content": "a" * 1000}] * 9999}).encode(),
    ),
    "parts": (
        CHATS, {},
        json.dumps(
            {"model": "tiny", "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}] * 20}] * 999}
        ).encode(),
    ),
}  # fmt: skip
MUCH["numbers in a header"] = (
    INFER, {"Inference-Header-Content-Length": str(len(MUCH["numbers"][2]))}, MUCH["numbers"][2],
)  # fmt: skip


@pytest.mark.parametrize("name", MUCH)
def test_the_loop_goes_on(open_server, name):
    """Whatever is read: what runs in the event loop at once, and so what a probe waits for, is short. CPU time of its
    thread, so that it does not matter what else the machine, and other threads, do."""
    path, headers, content = MUCH[name]

    async def pieces():
        for first in range(0, len(content), 65536):
            yield content[first : first + 65536]

    async def longest():
        request = asyncio.ensure_future(open_server.client.post(path, content=pieces(), headers=headers))
        worst, last = 0.0, time.thread_time()
        while not request.done():
            await asyncio.sleep(0.001)
            now = time.thread_time()
            worst, last = max(worst, now - last), now
        return worst, await request

    worst, answer = open_server.run(longest())
    assert answer.status_code == 400
    assert worst < 0.1, answer.text


def test_large_requests_are_right(open_server, rng):
    """What another process reads is what this one would read."""
    x, y = inputs(rng, 16, 50)
    request = body(x, y)
    assert len(json.dumps(request)) > 65536
    answer = open_server.post(INFER, request)
    assert answer.status_code == 200, answer.text
    from tests.serving import networks  # noqa: PLC0415 - MindSpore

    assert close(output(answer.json()), networks.expected(x, y, int(answer.json()["model_version"])))
    padded = {"model": "tiny", "prompt": "hello", "max_tokens": 3, "temperature": 0, "user": "x" * 70000}
    short = {**padded, "user": "x"}
    texts = [open_server.post(COMPLETIONS, one).json()["choices"][0]["text"] for one in (padded, short)]
    assert texts[0] == texts[1]
    broken = open_server.run(open_server.client.post(INFER, content=b'{"inputs": [' + b" " * 70000))
    assert (broken.status_code, "the body is not JSON" in broken.text) == (400, True)


def test_the_reader_is_ended(open_server):
    """A process that ends is an error of one request, and the next one has a new process."""
    reader = open_server.service.reader
    content = b'{"model": "tiny", "prompt": "hello", "max_tokens": 1, "user": "' + b"x" * 70000 + b'"}'
    assert open_server.run(open_server.client.post(COMPLETIONS, content=content)).status_code == 200
    first = reader._process
    first.kill()
    first.wait()
    assert open_server.run(open_server.client.post(COMPLETIONS, content=content)).status_code == 200
    assert reader._process is not first


def test_tensors_over_grpc_stay_here():
    from ms_ascend_ops.serving.messages import message  # noqa: PLC0415

    request = message("ModelInferRequest")(model_name="block", raw_input_contents=[b"x" * 1000, b"y" * 500])
    data = request.SerializeToString()
    assert _raw_bytes(data) == 1500
    assert _raw_bytes(data[:-1]) == 0
    assert _raw_bytes(b"\xff" * 50) == 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "127.0.0.1:8000"}, 200),
        ({"Host": "[::1]:8000", "Origin": "http://[::1]:8000"}, 200),
        ({"Host": "localhost:8000", "Origin": "http://localhost:8000"}, 200),
        ({"Host": "models.default.svc:8000"}, 200),
        ({"Host": "here.example", "Origin": "https://here.example"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 403),
        ({"Host": "localhost:8000", "Origin": "http://evil.example"}, 403),
        ({"Host": "localhost:8000", "Origin": "http://localhost:9000"}, 403),
        ({"Host": "LocalHost.:8000", "Origin": "HTTP://localhost.:8000"}, 200),
        ({"Host": "localhost:8000", "Origin": "null"}, 403),
        ({"Host": "", "Origin": "null"}, 403),
        ({"Host": "null", "Origin": "null"}, 403),
        ({"Host": "", "Origin": ""}, 403),
        ({"Host": "localhost:8000", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": "[::1].evil.example"}, 403),
    ],
)
def test_pages_of_other_origins(language_file, tmp_path, headers, status):
    from ms_ascend_ops.serving.errors import Forbidden  # noqa: PLC0415
    from ms_ascend_ops.serving.http import check_origin  # noqa: PLC0415

    names = {name.lower(): value for name, value in headers.items()}
    names.setdefault("host", "test")
    settings = Settings(hosts=("here.example",))
    if status == 200:
        check_origin(names, settings, changes_models=True)
    else:
        with pytest.raises(Forbidden, match=r"no name of this server|of other origins") as raised:
            check_origin(names, settings, changes_models=True)
        assert raised.value.status == 403
        # Who has a key is no stranger.
        check_origin(names, Settings(api_keys=("k",)), changes_models=True)
        if "origin" not in names and "sec-fetch-site" not in names:
            check_origin(names, settings)  # of programs that change nothing


def test_pages_of_other_origins_change_nothing(open_server):
    foreign = {"Host": "localhost", "Origin": "http://evil.example"}
    for path in (LOAD, "/v2/repository/models/tiny/unload", "/v2/repository/models/block/traffic", COMPLETIONS):
        answer = open_server.post(path, {"traffic": {"1": 1}}, headers=foreign)
        assert answer.status_code == 403, path
    assert open_server.get("/v2/health/live", headers=foreign).status_code == 200
    assert open_server.get("/v2/models/tiny/ready").status_code == 200


@pytest.mark.parametrize("value", ["0" * 5000, "0" * 20 + "9" * 5000, "9" * 30, "-1", "1.5", "", "+10", "\u0663"])
def test_numbers_of_headers(open_server, value):
    headers = {b"Inference-Header-Content-Length": value.encode()}
    answer = open_server.run(open_server.client.post(INFER, content=b'{"inputs": []}', headers=headers))
    assert answer.status_code == 400
    assert "must be a number of bytes of the body" in answer.text


@pytest.mark.parametrize("options", [{"cache_tokens": 2**31 - 1}, {"batch": 2**31 - 1}, {"context": 2**31 - 1}])
def test_more_than_there_is_memory(open_server, options):
    answer = open_server.post(LOAD, {"parameters": {"config": json.dumps(options)}})
    assert answer.status_code == 400
    assert "GiB, this machine has" in answer.text or "context must be 2 to 256" in answer.text
    assert open_server.get("/v2/models/tiny/ready").status_code == 200


def test_many_times_the_same_version(open_server, caplog):
    answer = open_server.post(LOAD, {"parameters": {"config": json.dumps({"versions": [1] * 100000})}})
    assert answer.status_code == 200
    answer = open_server.post(LOAD, {"parameters": {"config": '{"dtype": "float7"}'}})
    assert answer.status_code == 400
    assert "dtype must be one of" in caplog.text
    assert "Traceback" not in caplog.text


def test_no_paths_in_errors(tmp_path):
    """Where a model lies is nothing for clients: neither what its template says, nor why it cannot be loaded."""
    secret = tmp_path / "a private folder"
    path = tiny.write_directory(secret / "m")
    (path / "chat_template.jinja").write_text("{{ raise_exception('roles must alternate') }}")
    server = Served(Settings(models={"m": path}))
    try:
        answer = server.post(CHATS, {"model": "m", "messages": [{"role": "user", "content": "a"}]})
        assert answer.status_code == 400
        assert answer.json()["error"]["message"] == "the chat template failed: roles must alternate"
        (path / "config.json").write_text("[")
        answers = [server.post("/v2/repository/models/m/load"), server.post("/v2/repository/index", {})]
        assert (answers[0].status_code, "config.json: this is no JSON" in answers[0].text) == (400, True)
        for one in (answer, *answers):
            assert str(tmp_path) not in one.text
            assert "private" not in one.text
    finally:
        server.close()


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("/usr/lib/x.gguf: truncated", "x.gguf: truncated"),
        ("'/usr/share/y' is missing", "'y' is missing"),
        ("ask /v1/completions or /v2/models/m/infer", "ask /v1/completions or /v2/models/m/infer"),
        ("1/2 of it", "1/2 of it"),
    ],
)
def test_paths_of_this_machine(message, shown):
    assert BadRequest(message).message == shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sizes:\n  a: &a {x: [1]}\n  b: *a\n", "it is no YAML: aliases are not supported"),
        ("versions: &a [*a]\n", "it is no YAML: aliases are not supported"),
        ("versions: [" + "9" * 5000 + "]\n", "it is no YAML: Exceeds the limit"),
        ("queue: 0x" + "f" * 5000 + "\n", "it is no YAML: an integer must have at most 1024 bits"),
        ("versions: 2001-99-99\n", "it is no YAML: month must be in"),
        ("? [1, 2]\n: 3\n", "it is no YAML: .*unhashable key"),
        ("versions: " + "[" * 1000 + "]" * 1000, "it is no YAML: .*recursion|versions must be"),
        ("versions: !!python/object/apply:os.system ['id']\n", "it is no YAML: could not determine"),
        ("traffic: {1: .inf}\n", "traffic must be a map"),
        ("dtype: [float32]\n", r"dtype must be a text, got \['float32'\]"),
    ],
)
def test_yaml(tmp_path, text, message):
    """65536 bytes of YAML can say a value of any size, or one without an end."""
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(ValueError, match=rf"config\.yaml: {message}"):
        read_options(tmp_path / "config.yaml", {})


def test_numbers_of_answers(open_server, rng):
    """Long answers are written in runs."""
    from ms_ascend_ops.serving.inference import _written  # noqa: PLC0415
    from ms_ascend_ops.serving.tensors import Values  # noqa: PLC0415

    array = rng.standard_normal((3, 7000)).astype(np.float32)
    fields = {"id": "a", "outputs": [{"name": "y", "data": None}, {"name": "z", "parameters": {}}]}
    read = json.loads(_written(fields, {0: Values("FP32", array)}))
    assert read["id"] == "a"
    assert read["outputs"][0] == {"name": "y", "data": array.ravel().tolist()}
    assert read["outputs"][1] == {"name": "z", "parameters": {}}
