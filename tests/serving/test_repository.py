"""Models that come and go while the server runs; what is not in the repository is not there."""

import asyncio
import json
import shutil
import threading

import httpx
import pytest

from ms_ascend_ops.serving import Settings
from ms_ascend_ops.serving.settings import read_options
from tests.serving import networks
from tests.serving.conftest import Served
from tests.serving.networks import add_version
from tests.serving.test_inference import body, close, inputs, output
from tests.waiting import wait


@pytest.fixture
def root(tmp_path, network_files):
    add_version(tmp_path, "block", 1, network_files["block"])
    return tmp_path


@pytest.fixture
def server(root):
    one = Served(Settings(repository=root))
    yield one
    one.close()


def versions(server, **options):
    rows = server.post("/v2/repository/index", options).json()
    return [(row["name"], row["version"], row["state"]) for row in rows]


def test_a_new_version_while_requests_come(root, server, network_files, rng):
    """Requests that came before it are answered by the old one, those after it by the new one, and none is lost."""
    x, y = inputs(rng, 2, 2)
    add_version(root, "block", 2, network_files["second"])
    assert versions(server) == [("block", "1", "READY"), ("block", "2", "UNAVAILABLE")]

    async def both():
        answers = []
        loading = asyncio.ensure_future(server.client.post("/v2/repository/models/block/load"))
        while not loading.done() or len(answers) < 20:
            answers.append(await server.client.post("/v2/models/block/infer", json=body(x, y)))
        assert (await loading).status_code == 200
        return answers

    answers = [answer.json() for answer in server.run(both())]
    numbers = [answer["model_version"] for answer in answers]
    assert numbers == sorted(numbers)
    for answer in answers[:3] + answers[-3:]:
        assert close(output(answer), networks.expected(x, y, int(answer["model_version"])))
    assert versions(server, ready=True) == [("block", "2", "READY")]


def test_unload_and_load(server, rng):
    x, y = inputs(rng, 1, 1)
    assert server.post("/v2/repository/models/block/unload").status_code == 200
    assert server.post("/v2/models/block/infer", body(x, y)).status_code == 404
    assert server.get("/v2/models/block/ready").status_code == 404
    assert server.post("/v2/repository/models/block/unload").status_code == 404
    config = json.dumps({"timeout_s": 5, "versions": [1]})
    assert server.post("/v2/repository/models/block/load", {"parameters": {"config": config}}).status_code == 200
    assert server.service.version("block").options.timeout_s == 5
    assert server.post("/v2/models/block/infer", body(x, y)).status_code == 200


def test_a_version_that_cannot_be_loaded(root, server, rng):
    """The one that is there stays."""
    x, y = inputs(rng, 1, 1)
    (root / "block" / "2").mkdir()
    (root / "block" / "2" / "block.mindir").write_bytes(b"nonsense")
    answer = server.post("/v2/repository/models/block/load")
    assert answer.status_code == 400
    assert "version 2 of block cannot be loaded: " in answer.json()["error"]
    assert server.post("/v2/models/block/infer", body(x, y)).json()["model_version"] == "1"
    reasons = [row["reason"] for row in server.post("/v2/repository/index").json()]
    assert reasons[0] == ""
    assert "cannot be loaded" in reasons[1]


@pytest.mark.parametrize(
    "name",
    ["../block", "..", "%2e%2e", "%2e%2e%2fblock", "%2Fetc%2Fpasswd", ".hidden", "a" * 200, "block%00", "nothing"],
)
def test_names_that_are_none(server, name):
    for path in ("load", "unload", "traffic"):
        answer = server.post(f"/v2/repository/models/{name}/{path}", {})
        assert answer.status_code in (400, 404), path
        assert answer.json()["error"]


def test_links_that_lead_out_are_refused(root, server, network_files, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    add_version(outside, "other", 1, network_files["block"])
    (root / "linked").symlink_to(outside / "other")  # the model
    (root / "second").mkdir()
    (root / "second" / "1").symlink_to(outside / "other" / "1")  # its version
    (root / "third" / "1").mkdir(parents=True)
    (root / "third" / "1" / "block.mindir").symlink_to(network_files["block"])  # its file
    (root / "fourth" / "1").mkdir(parents=True)
    shutil.copyfile(network_files["block"], root / "fourth" / "1" / "block.mindir")
    (root / "fourth" / "config.yaml").symlink_to("/etc/passwd")
    for name in ("linked", "second", "third", "fourth"):
        answer = server.post(f"/v2/repository/models/{name}/load")
        assert answer.status_code == 400
        assert "leads out of the repository" in answer.json()["error"]
    assert server.service.names() == ["block"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("queue: 0", "queue must be an integer >= 1, got 0"),
        ("queue: true", "queue must be"),
        ("versions: newest", "versions must be"),
        ("traffic: {2: 1}", "traffic: version 2 of block is not loaded; loaded: 1"),
        ("path: /etc", "there is no option path"),
        ("[1, 2]", "it must be a map"),
        ("a: [", "it is no YAML"),
        ("max_batch_size: 4\nsizes: {z: [b]}", "sizes: the network has no input z"),
        ("most: {s: 4}", "most: no input has a size s"),
        ("!!python/object/apply:os.system ['true']", "it is no YAML"),
    ],
)
def test_options_that_are_wrong(root, server, text, message):
    (root / "block" / "config.yaml").write_text(text)
    answer = server.post("/v2/repository/models/block/load")
    assert answer.status_code == 400
    assert message in answer.json()["error"]


def test_what_a_version_must_hold(root, server):
    (root / "block" / "3").mkdir()
    answer = server.post("/v2/repository/models/block/load")
    assert "version 3 of block: 3 must hold one .msbundle, .mindir or .gguf" in answer.json()["error"]
    assert answer.status_code == 400


def test_options_over_each_other(tmp_path):
    """Those of the request over those of the file over those of the server."""
    file = tmp_path / "config.yaml"
    file.write_text("queue: 5\nmax_batch_size: 6")
    options = read_options(file, {"queue": 1, "max_batch_size": 2, "batch": 3}, {"queue": 7, "traffic": {"2": 0.5}})
    assert (options.queue, options.max_batch_size, options.batch, options.traffic) == (7, 6, 3, {2: 0.5})


def test_keys(root, rng):
    """Without a key nothing but the probes, and pages that know no model; the models are changed by an admin's."""
    server = Served(Settings(repository=root, api_keys=("one", "two"), admin_keys=("root",)))
    try:
        x, y = inputs(rng, 1, 1)
        assert server.get("/v2/health/ready").status_code == 200
        for path in ("/v2/models/block", "/v1/models", "/metrics"):
            assert server.get(path).status_code == 401, path
        for path in ("/", "/docs", "/openapi.json"):  # what every such server shows
            shown = server.get(path)
            assert shown.status_code == 200, path
            assert "/models/block" not in shown.text, path

        def status(path, key, json=None):
            return server.post(path, json, headers={"Authorization": f"Bearer {key}"}).status_code

        infer, load = "/v2/models/block/infer", "/v2/repository/models/block/load"
        assert [status(infer, key, body(x, y)) for key in ("one", "two", "root", "three", "")] == [200] * 3 + [401] * 2
        assert [status(load, key) for key in ("root", "one", "three")] == [200, 403, 401]
        assert status("/v2/repository/models/block/traffic", "one", {"traffic": {"1": 1}}) == 403
        # Behind a proxy that puts something before the path.
        transport = httpx.ASGITransport(server.app, root_path="/api")
        proxied = httpx.AsyncClient(transport=transport, base_url="http://test/api")
        assert server.run(proxied.get("v2/health/live")).status_code == 200
        assert server.run(proxied.get("v1/models")).json()["error"]["type"] == "authentication_error"
        one = {"Authorization": "Bearer one"}
        assert server.run(proxied.get("v2/models/block", headers=one)).status_code == 200
        assert server.run(proxied.post("v2/repository/models/block/unload", headers=one)).status_code == 403
        server.run(proxied.aclose())
        answer = server.get("/v1/models")
        assert answer.json()["error"]["code"] == "invalid_api_key"
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    finally:
        server.close()
    server = Served(Settings(repository=root, api_keys=("one",)))
    try:
        assert server.post(load, headers={"Authorization": "Bearer one"}).status_code == 403
    finally:
        server.close()


def test_threads_of_models_that_went(server):
    """They end."""
    for _ in range(3):
        assert server.post("/v2/repository/models/block/load").status_code == 200
    wait(lambda: [thread.name.startswith("serve block") for thread in threading.enumerate()].count(True) == 1)
