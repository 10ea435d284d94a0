"""The logic of the script for a user's NPU, with the CPU as the device."""

from importlib.metadata import version

import pytest
from click.testing import CliRunner

from ms_ascend_ops import cpu_builtins, registry
from tests.npu import smoke
from tests.npu.__main__ import main


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.thorough] * (i % 4 > 0)) for i, name in enumerate(registry.names())],
)
def test_every_operator_passes_on_the_cpu(name, tmp_path, monkeypatch, request):
    """One of four, with its first attributes; thoroughly all, with all. tests/ops has them all."""
    table = smoke.operator(name)
    if request.config.getoption("cases") != "all":
        fields = vars(table)
        monkeypatch.setattr(
            smoke, "operator", lambda _: type(table)(**{**fields, "variants": dict([*table.variants.items()][:1])})
        )
    results = list(smoke.check(name, "float32", tmp_path, rounds=0))
    assert results
    assert [str(result) for result in results if result.status == "FAILED"] == []


def test_the_report_is_one_file(tmp_path):
    report = tmp_path / "report.txt"
    arguments = ["--device", "CPU", "--report", str(report), "--ops", "swiglu", "--dtypes", "float16", "--rounds", "2"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    text = report.read_text()
    for line in (
        f"MindSpore {version('mindspore')}",
        "swiglu: ours",
        "ok         swiglu float16 forward",
        "ok         swiglu float16 MindIR",
    ):
        assert line in text
    assert " GB/s" in text
    assert text.endswith("0 failed\n")


def test_a_wrong_result_fails(tmp_path, monkeypatch):
    table = smoke.operator("swiglu")
    broken = type(table)(**{**vars(table), "ours": lambda x, **attributes: table.ours(x, **attributes) * 1.5})
    monkeypatch.setattr(smoke, "operator", lambda name: broken)
    statuses = {result.what: result.status for result in smoke.check("swiglu", "float32", tmp_path, rounds=0)}
    assert statuses["swiglu float32 forward"] == statuses["swiglu float32 gradient"] == "FAILED"


def test_an_unknown_operator_is_refused():
    done = CliRunner().invoke(main, ["--device", "CPU", "--ops", "swish"])
    assert done.exit_code == 2
    assert "there is no operator swish" in done.output


def test_what_cann_has_is_timed_and_compared(monkeypatch):
    """With the composition of stock operators in place of CANN's operator, and a device that calls itself an NPU."""
    table = smoke.operator("flash_attention")
    fields = vars(table)
    like = type(table)(**{**fields, "cann_shape": table.small_shapes[0], "cann": {"FlashAttentionScore": table.stock}})
    wrong = type(table)(
        **{
            **vars(like),
            "cann": {"FlashAttentionScore": lambda *tensors, **options: 2 * table.stock(*tensors, **options)},
        }
    )
    monkeypatch.setattr(smoke.ms, "get_context", lambda name: "Ascend")
    monkeypatch.setattr(smoke.ms.runtime, "synchronize", lambda: None)
    right, other = (list(smoke._times("flash_attention", t, "float32", 1))[1] for t in (like, wrong))
    assert "CANN FlashAttentionScore" in right.what
    assert right.status.endswith(" us")
    assert other.status == "FAILED"
    assert "the results differ by" in other.detail


@pytest.mark.parametrize(
    ("name", "shape"),
    [("dynamic_quant", (5, 64)), ("quant_matmul", (3, 5, 64)), ("grouped_quant_matmul", (7, 3, 5, 64))],
)
def test_quantized_operators_of_cann_get_their_arguments(name, shape):
    """Of those that `cpu_builtins` has."""
    table = smoke.operator(name)
    tensors = [smoke._tensor(array) for array in table.inputs(smoke.Draw("float16"), *shape)]
    (function,) = table.cann.values()
    with cpu_builtins():
        smoke._assert_alike(function(*tensors), table.ours(*tensors), 1 / 127)
