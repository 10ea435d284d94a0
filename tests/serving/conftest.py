"""Models of each kind, and a service with its event loop in a thread: requests go straight into the application."""

import asyncio
import threading
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

# What the extras bring, and what writes the files of the tests; `build.sh test` installs all of them.
NEEDED = ("fastapi", "gguf", "grpc", "httpx", "jinja2", "prometheus_client", "tokenizers", "uvicorn")

collect_ignore_glob = ["test_*.py"] if any(find_spec(name) is None for name in NEEDED) else []


class Served:
    """An application whose models are loaded, and a client of httpx for it."""

    def __init__(self, settings):
        import httpx  # noqa: PLC0415 - may be missing

        from ms_ascend_ops.serving import Service, create_app  # noqa: PLC0415

        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.service = Service(settings)
        self.run(self.service.start())
        self.app = create_app(settings, self.service)
        transport = httpx.ASGITransport(self.app)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://test", timeout=60)

    def run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(120)

    def post(self, path, json=None, **options):
        return self.run(self.client.post(path, json=json, **options))

    def get(self, path, **options):
        return self.run(self.client.get(path, **options))

    def metrics(self):
        """Name with labels -> value."""
        lines = self.service.metrics.text().decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}

    def close(self):
        self.run(self.client.aclose())
        self.run(self.service.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


@pytest.fixture(scope="session")
def network_files(tmp_path_factory):
    """See networks.write."""
    from tests.serving import networks  # noqa: PLC0415 - MindSpore

    return networks.write(tmp_path_factory.mktemp("networks"))


@pytest.fixture(scope="session")
def language_file(tmp_path_factory):
    from tests.llm import tiny  # noqa: PLC0415

    # An output matrix of its own: with that of the embedding a random model repeats its last token.
    config = replace(tiny.CONFIG, tied_embedding=False)
    return tiny.write_gguf(tmp_path_factory.mktemp("language") / "tiny.gguf", config, tiny.random_weights(config))


@pytest.fixture(scope="session")
def repository(network_files, language_file, tmp_path_factory):
    """Two versions of a network, which batches, and a language model."""
    from tests.serving.networks import add_version  # noqa: PLC0415

    root = tmp_path_factory.mktemp("repository")
    add_version(root, "block", 1, network_files["block"])
    add_version(root, "block", 2, network_files["second"])
    (root / "block" / "config.yaml").write_text(
        "versions: all\ntraffic: {1: 3, 2: 1}\nmax_batch_size: 16\nbatch_delay_ms: 1\n"
        "sizes: {x: [b, s, 8], y: [b, s, 8]}\nmost: {s: 64}\n"
    )
    add_version(root, "tiny", 1, language_file)
    return root


@pytest.fixture(scope="module")
def served(repository):
    from ms_ascend_ops.serving import Settings  # noqa: PLC0415

    one = Served(Settings(repository=repository, body_bytes=2**20))
    yield one
    one.close()


@pytest.fixture
def rng():
    return np.random.default_rng(0)
