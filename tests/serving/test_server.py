"""The command as a process: its ports, TLS, gRPC, and how it stops."""

import contextlib
import json
import re
import shutil
import signal
import ssl
import subprocess
import sys

import grpc
import httpx
import pytest
from click.testing import CliRunner

from ms_ascend_ops.commands.serve import serve
from ms_ascend_ops.serving.messages import SERVICE, message
from tests.waiting import wait

ASKED = {"model": "tiny", "prompt": "hello", "max_tokens": 5, "temperature": 0}


@contextlib.contextmanager
def process(*arguments, folder):
    """A server process: itself, and its addresses of HTTP and gRPC, which it prints before its models are loaded."""
    log = folder / "server.log"
    command = [sys.executable, "-m", "ms_ascend_ops", "serve", "--port", "0", "--grpc-port", "0", *map(str, arguments)]
    with log.open("w") as file:
        running = subprocess.Popen(command, stderr=file, stdout=file, cwd=folder)
    try:
        url, port = wait_for(log, running, r"(https?://[\d.:]+), gRPC: port (\d+)").groups()
        wait_for(log, running, r"server: ready")
        yield running, url, f"localhost:{port}"
    finally:
        running.kill()
        running.wait(10)


def wait_for(log, running, pattern):
    def is_there():
        assert running.poll() is None, log.read_text()
        return re.search(pattern, log.read_text())

    wait(is_there, pattern)
    return is_there()


def call(channel, method, *metadata, **fields):
    ask = channel.unary_unary(
        f"/{SERVICE}/{method}", message(f"{method}Request").SerializeToString, message(f"{method}Response").FromString
    )
    return ask(message(f"{method}Request")(**fields), metadata=metadata, timeout=20)


def test_grpc_keys_and_a_graceful_stop(language_file, tmp_path):
    """SIGTERM while an answer is streamed: the stream is complete, nothing new is taken, the exit code is 0."""
    (tmp_path / "keys").write_text("secret\n")
    with process(language_file, "--api-keys", tmp_path / "keys", folder=tmp_path) as (running, url, target):
        key = {"Authorization": "Bearer secret"}
        assert httpx.get(f"{url}/v2/health/ready").json() == {"ready": True}
        assert httpx.post(f"{url}/v1/completions", json=ASKED).status_code == 401
        with grpc.insecure_channel(target) as channel:
            assert call(channel, "ServerLive").live
            assert call(channel, "ServerReady").ready
            with pytest.raises(grpc.RpcError) as refused:
                call(channel, "ModelReady", name="tiny")
            assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
            bearer = ("authorization", "Bearer secret")
            assert call(channel, "ModelReady", bearer, name="tiny").ready
            assert call(channel, "ModelMetadata", bearer, name="tiny").platform == "ms_ascend_ops_llm"
            with pytest.raises(grpc.RpcError) as refused:
                call(channel, "RepositoryModelUnload", bearer, model_name="tiny")
            assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED
        asked = ASKED | {"prompt": "he", "max_tokens": 240, "stream": True}
        with httpx.Client(headers=key) as client, client.stream("POST", f"{url}/v1/completions", json=asked) as answer:
            lines = answer.iter_lines()
            next(lines)
            running.send_signal(signal.SIGTERM)
            rest = [line for line in lines if line]
        assert rest[-1] == "data: [DONE]"
        assert json.loads(rest[-2].removeprefix("data: "))["choices"][0]["finish_reason"] in ("length", "stop")
        assert running.wait(20) == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/v2/health/live")
    assert "stopped" in (tmp_path / "server.log").read_text()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes the certificate")
def test_tls(language_file, tmp_path):
    """HTTP and gRPC; and who hangs up in the middle of an answer does no harm."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "certificate.pem",
         "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    certificate = tmp_path / "certificate.pem"
    options = ("--tls-certificate", certificate, "--tls-key", tmp_path / "key.pem")
    with process(language_file, *options, folder=tmp_path) as (_, url, target):
        assert url.startswith("https://")
        with httpx.Client(verify=ssl.create_default_context(cafile=str(certificate))) as client:
            for _ in range(3):
                with client.stream("POST", f"{url}/v1/completions", json=ASKED | {"stream": True, "max_tokens": 200}):
                    pass  # hangs up
            assert client.post(f"{url}/v1/completions", json=ASKED).status_code == 200
            idle = 'running_sequences{model="tiny",version="1"} 0.0'
            wait(lambda: idle in client.get(f"{url}/metrics").text)
        credentials = grpc.ssl_channel_credentials(certificate.read_bytes())
        with grpc.secure_channel(target, credentials) as channel:
            assert call(channel, "ServerMetadata").name == "ms_ascend_ops"


def test_a_model_that_cannot_be_loaded(tmp_path):
    (tmp_path / "bad.gguf").write_bytes(b"nonsense")
    result = CliRunner().invoke(serve, [str(tmp_path / "bad.gguf"), "--port", "0", "--no-grpc"])
    assert result.exit_code == 1
    assert result.output.splitlines()[-1].startswith("Error: version 1 of bad cannot be loaded: bad.gguf")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a MODEL, or --repository"),
        (["nothing.gguf"], "there is no file nothing.gguf"),
        (["a.txt"], "a model is a .msbundle, .mindir or .gguf file"),
        (["x=m.gguf", "x=m.gguf"], "two models of the name x"),
        (["m.gguf", "--tls-key", "m.gguf"], "--tls-certificate and --tls-key go together"),
        (["m.gguf", "--api-keys", "empty"], "holds no key"),
    ],
)
def test_wrong_options(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "m.gguf", "empty"):
        (tmp_path / name).write_text("")
    result = CliRunner().invoke(serve, arguments)
    assert result.exit_code in (1, 2)
    assert message in " ".join(result.output.split())
