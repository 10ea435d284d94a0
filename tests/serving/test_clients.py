"""Clients that others wrote: tritonclient over HTTP and gRPC, openai, curl; each a script in an environment of its own.

`bash build.sh test --clients` makes that environment: tritonclient and MindSpore need different versions of protobuf.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ms_ascend_ops.llm import LanguageModel, Sampling
from ms_ascend_ops.serving import messages
from tests.acceptance import assert_close
from tests.serving import networks
from tests.serving.test_server import process

PYTHON = os.environ.get("MS_ASCEND_OPS_SERVING_CLIENTS", "")
SCRIPTS = Path(__file__).parent / "clients"
KEY = "a key"

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(not PYTHON, reason="`bash build.sh test --clients` has the environment for it"),
]


@pytest.fixture(scope="module")
def addresses(repository, tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    (folder / "keys").write_text(KEY)
    (folder / "admin").write_text("root")
    keys = ("--api-keys", folder / "keys", "--admin-keys", folder / "admin")
    with process("--repository", repository, *keys, folder=folder) as (_, url, target):
        yield url, target


def script(name, *arguments, **expected):
    done = subprocess.run(
        [PYTHON, SCRIPTS / f"{name}.py", *arguments], input=json.dumps(expected), capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_tritonclient(addresses, rng, protocol):
    x, y = (rng.standard_normal((3, 5, networks.SIZE)).astype(np.float32) for _ in range(2))
    outputs = {version: networks.expected(x, y, version).tolist() for version in (1, 2)}
    target = addresses[0].removeprefix("http://") if protocol == "http" else addresses[1]
    script("triton", protocol, target, KEY, x=x.tolist(), y=y.tolist(), outputs=outputs)


def test_openai(addresses, language_file):
    model = LanguageModel.from_file(language_file)
    messages_ = [{"role": "user", "content": "hello world"}]
    tokens = model.chat_tokens(messages_)
    script(
        "openai_", f"{addresses[0]}/v1", KEY, messages=messages_,
        completion=model.generate("hello", 16).text,
        sampled=model.generate("hello", 16, Sampling(0.8, top_p=0.9, seed=7)).text,
        chat=model.generate(tokens, 12).text,
        prompt_tokens=len(tokens),
    )  # fmt: skip


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_curl(addresses, rng, tmp_path):
    """JSON, a body of bytes, a stream, errors."""

    def curl(path, *arguments, key=KEY):
        command = ["curl", "-sS", "-H", f"Authorization: Bearer {key}", *arguments, addresses[0] + path]
        return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout

    x, y = (rng.standard_normal((1, 2, networks.SIZE)).astype(np.float32) for _ in range(2))
    entries = [
        {"name": name, "datatype": "FP32", "shape": [1, 2, 8], "parameters": {"binary_data_size": x.nbytes}}
        for name in "xy"
    ]
    header = json.dumps({"inputs": entries, "outputs": [{"name": "output_0"}]}).encode()
    (tmp_path / "body").write_bytes(header + x.tobytes() + y.tobytes())
    length = f"Inference-Header-Content-Length: {len(header)}"
    answer = curl("/v2/models/block/versions/2/infer", "--data-binary", f"@{tmp_path / 'body'}", "-H", length)
    got = np.array(json.loads(answer)["outputs"][0]["data"]).reshape(x.shape)
    assert_close(got, networks.expected(x, y, 2), rtol=1e-5, atol=1e-5)
    asked = json.dumps({"model": "tiny", "prompt": "hello", "max_tokens": 3, "stream": True})
    assert curl("/v1/completions", "-N", "-d", asked).endswith(b"data: [DONE]\n\n")
    status = ("-o", os.devnull, "-w", "%{http_code}")
    assert curl("/v2/models/block/infer", "-d", "{", *status) == b"400"
    assert curl("/v1/completions", "-d", asked, *status, key="none") == b"401"
    assert curl("/v2/repository/models/block/unload", "-X", "POST", *status) == b"403"
    assert curl("/v2/health/ready", "-f", key="") == b'{"ready":true}'
    assert b"ms_ascend_ops_serving_requests_total" in curl("/metrics")


def test_the_messages_of_grpc_are_tritons():
    """Every field of ours has the number and the type that it has there; some messages have more fields there."""
    theirs = json.loads(script("descriptors", *messages._MESSAGES))
    for name in messages._MESSAGES:
        own = messages.message(name).DESCRIPTOR if "." not in name else messages._pool.FindMessageTypeByName(
            f"{messages.PACKAGE}.{name}"
        )  # fmt: skip
        for field in own.fields:
            # There batching is one of several schedulers, which are a group of fields.
            parts = 5 if (name, field.name) == ("ModelConfig", "dynamic_batching") else 6
            assert describe(field)[:parts] in [one[:parts] for one in theirs[name]], (name, field.name)


def describe(field):
    """As clients/descriptors.py does it."""
    nested = field.message_type.full_name if field.message_type else None
    one_of = field.containing_oneof.name if field.containing_oneof else None
    return [field.name, field.number, field.type, bool(field.is_repeated), nested, one_of]
