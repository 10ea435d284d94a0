"""Figures of operators: counted where they should be, and as Prometheus and Grafana want them."""

import itertools
import json
import re
import socket
import sys
import threading
import time
import urllib.request
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest

from ms_ascend_ops import RMSNorm, dispatch, library, monitoring, ops
from ms_ascend_ops.dispatch.implementations import Form
from tests.tensors import tensor

prometheus_client = pytest.importorskip("prometheus_client")
trace = pytest.importorskip("opentelemetry.trace")
sdk = pytest.importorskip("opentelemetry.sdk.trace")
export = pytest.importorskip("opentelemetry.sdk.trace.export")
memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")

DASHBOARD = Path(__file__).parents[2] / "examples" / "monitoring" / "grafana.json"
SHAPE = "float32[8,64] float32[8,64]"  # the bucket of the inputs here


@pytest.fixture
def registry():
    return prometheus_client.CollectorRegistry()


@pytest.fixture(autouse=True)
def _off_again():
    yield
    monitoring.stop()
    dispatch.reset()
    for version in ("mine", "next"):
        for operator in ("silu_mul", "add"):
            if version in dispatch.table.table_of(operator).versions:
                dispatch.unregister(operator, version)


@pytest.fixture
def x():
    return tensor(np.random.default_rng(0).standard_normal((7, 50)), "float32")


def value(registry, name, **labels):
    """0 if nothing was counted."""
    return registry.get_sample_value(f"ms_ascend_ops_{name}", labels) or 0


def calls(registry, operator, version="kernel", shape=SHAPE):
    return value(registry, "call_seconds_count", operator=operator, version=version, shape=shape)


def test_off_by_default(x):
    before = library.native().counts()
    ops.silu_mul(x, x)
    assert library.native().counts() == before


def test_calls_seconds_and_bytes(x, registry):
    monitoring.start(registry=registry)
    start = time.perf_counter()
    for _ in range(5):
        ops.silu_mul(x, x)
    passed = time.perf_counter() - start
    labels = {"operator": "silu_mul", "version": "kernel", "shape": SHAPE}
    assert calls(registry, "silu_mul") == 5
    assert 0 < value(registry, "call_seconds_sum", **labels) < passed
    assert value(registry, "bytes_total", **labels) == 5 * 3 * x.nbytes
    assert value(registry, "call_seconds_bucket", **labels, le="+Inf") == 5
    buckets = [
        sample.value for family in registry.collect() for sample in family.samples if sample.name.endswith("bucket")
    ]
    assert buckets == sorted(buckets), "each holds those below it"
    monitoring.stop()
    ops.silu_mul(x, x)
    assert list(registry.collect()) == []
    monitoring.start(registry=registry)
    assert calls(registry, "silu_mul") == 0, "from the start on"


def test_graphs_gradients_and_arrays_are_counted(x, registry):
    def square(x):
        return ops.silu_mul(x, x)

    net, graph = RMSNorm(50), ms.jit(square)
    graph(x)
    monitoring.start(registry=registry)
    for _ in range(3):
        graph(x)
    assert calls(registry, "silu_mul") == 3
    ms.grad(lambda x: net(x).sum())(x)
    shapes = [name for name, _, _ in registry_keys(registry)]
    assert {"rms_norm", "rms_norm_grad"} <= set(shapes)
    y = np.ones((7, 50), np.float32)
    library.native().launch("silu_mul", [y, y], [np.empty_like(y)])
    assert calls(registry, "silu_mul") == 4


def registry_keys(registry):
    return [
        (s.labels["operator"], s.labels["version"], s.labels["shape"])
        for family in registry.collect()
        for s in family.samples
        if s.name == "ms_ascend_ops_call_seconds_count"
    ]


@pytest.mark.parametrize(
    ("shape", "bucket"),
    [((1, 1), "[1,1]"), ((2, 3), "[2,4]"), ((5, 64), "[8,64]"), ((1, 1, 65), "[1,1,128]"), ((4,), "[4]")],
)
def test_buckets_are_those_of_dispatch(registry, shape, bucket):
    monitoring.start(registry=registry)
    x = tensor(np.ones(shape), "float32")
    ops.silu_mul(x, x)
    ((_, _, shown),) = registry_keys(registry)
    assert shown == f"float32{bucket} float32{bucket}"
    assert shown == Form((shape, shape), ("float32", "float32")).bucket


def test_an_absent_input(registry):
    monitoring.start(registry=registry)
    ops.matmul(tensor(np.ones((2, 3)), "float32"), tensor(np.ones((3, 4)), "float32"))
    ((_, _, shape),) = registry_keys(registry)
    assert shape == "float32[2,4] float32[4,4] -"


def test_functions_are_counted_where_python_calls_them(x, registry):
    dispatch.register("silu_mul", "mine", function=lambda gate, up: gate * ms.ops.sigmoid(gate) * up)
    dispatch.use(dispatch.Fixed("mine"), "silu_mul")
    ops.silu_mul(x, x)
    monitoring.start(registry=registry)
    for _ in range(3):
        ops.silu_mul(x, x)
    assert calls(registry, "silu_mul", "mine") == 3
    assert calls(registry, "silu_mul") == 0


def test_failures_and_fallbacks(x, registry):
    def fails(gate, up):
        raise MemoryError("no room")

    dispatch.register("silu_mul", "mine", function=fails)
    dispatch.use(dispatch.Fixed("mine"), "silu_mul")
    monitoring.start(registry=registry)
    for _ in range(4):
        ops.silu_mul(x, x)
    assert value(registry, "failures_total", operator="silu_mul", version="mine", kind="error") == 1
    assert value(registry, "fallbacks_total", operator="silu_mul", version="mine", to="kernel") == 4
    assert value(registry, "out", operator="silu_mul", version="mine") == 1
    assert value(registry, "out", operator="silu_mul", version="kernel") == 0
    assert calls(registry, "silu_mul") == 4, "the kernel answered, and its library counted it"


def test_threads_that_have_ended_stay_in_the_sums(registry):
    monitoring.start(registry=registry)
    y = np.ones((7, 50), np.float32)

    def work():
        for _ in range(50):
            library.native().launch("silu_mul", [y, y], [np.empty_like(y)])

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert calls(registry, "silu_mul") <= 300
    for thread in threads:
        thread.join()
    assert calls(registry, "silu_mul") == 300


def test_many_shapes_do_not_fill_the_memory(registry):
    """A thread keeps 1024 buckets; what comes after is "other"."""
    monitor = monitoring.start(registry=registry)

    def work():
        shapes = itertools.product((1, 2, 4), repeat=7)  # 2187, a bucket each
        for shape in itertools.islice(shapes, 1100):
            y = np.ones(shape, np.float32)
            library.native().launch("silu_mul", [y, y], [np.empty_like(y)])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    figures = monitor.figures()
    assert sum(sum(one.calls) for one in figures.values()) == 1100
    assert len(figures) <= 1025
    assert sum(figures["silu_mul", "kernel", "other"].calls) >= 76


def test_spans(x, registry, monkeypatch):
    exporter, provider = memory.InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    monitoring.start(registry=registry, spans=True)
    with provider.get_tracer("application").start_as_current_span("request"):
        ops.silu_mul(x, x)
    operator, request = exporter.get_finished_spans()
    assert operator.name == "silu_mul"
    assert operator.parent.span_id == request.context.span_id
    assert dict(operator.attributes) == {
        "ms_ascend_ops.version": "kernel", "ms_ascend_ops.shape": SHAPE, "ms_ascend_ops.bytes": 3 * x.nbytes,
    }  # fmt: skip
    assert request.start_time <= operator.start_time < operator.end_time <= request.end_time
    assert calls(registry, "silu_mul") == 1, "counted once"
    monitoring.stop()
    ops.silu_mul(x, x)
    assert len(exporter.get_finished_spans()) == 2


def test_a_server_of_its_own(x, registry):
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            monitoring.start(port, registry)
    monitoring.start(port, registry)
    ops.silu_mul(x, x)
    with urllib.request.urlopen(f"http://localhost:{port}/metrics") as answer:
        text = answer.read().decode()
    assert f'ms_ascend_ops_call_seconds_count{{operator="silu_mul",shape="{SHAPE}",version="kernel"}} 1.0' in text


def test_what_is_wrong_is_said(registry, monkeypatch):
    monitoring.start(registry=registry)
    with pytest.raises(RuntimeError, match="it runs already"):
        monitoring.start(registry=registry)
    monitoring.stop()
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(RuntimeError, match=r"prometheus_client is not installed: pip install 'ms_ascend_ops\[monitor"):
        monitoring.start()


def test_the_dashboard_asks_for_what_there_is(x, registry):
    from ms_ascend_ops.serving.metrics import Metrics  # noqa: PLC0415 - of an extra

    monitoring.start(registry=registry)
    ops.silu_mul(x, x)
    families = [*registry.collect(), *Metrics().registry.collect()]
    suffixes = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
    known = {family.name + suffix for family in families for suffix in suffixes.get(family.type, ())}
    dashboard = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked = {name for text in expressions for name in re.findall(r"ms_ascend_ops_\w+", text)}
    assert asked <= known
    # All that monitoring has is shown.
    for family in registry.collect():
        assert any(name.startswith(family.name) for name in asked), family.name
    for variable in dashboard["templating"]["list"]:
        assert variable["name"] in ("datasource", "operator", "version")
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
