"""Predicted steps of language models: sums of launches, each of which is a prediction of its own."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from ms_ascend_ops.__main__ import main
from ms_ascend_ops.device.operators.memory import Tensor
from ms_ascend_ops.device.roofline import cost
from ms_ascend_ops.llm.prediction import PRESETS, launches_of, predict_launch, predict_step
from ms_ascend_ops.profiler.chip import load_chip
from ms_ascend_ops.profiler.launches import Case, profile

SMALL = replace(PRESETS["smollm2-135m"], layers=3, hidden=128, feed_forward=192, heads=4, key_heads=2, head_size=32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"windows": (8, 0, 8)}, r"the windows of all layers must be alike, got \[0, 8\]"),
        ({"architecture": "mixtral", "experts": 4, "experts_used": 2}, r"experts \(4 of them\) has no prediction"),
    ],
)
def test_networks_without_a_prediction(recorder, changes, message):
    with pytest.raises(ValueError, match=message):
        predict_step(replace(SMALL, **changes), "float16", 1, 1, 65, load_chip("ascend910b2"), recorder)


@pytest.mark.parametrize(("tokens", "context"), [(1, 65), (48, 48)])
def test_the_sum_of_all_launches(recorder, tokens, context):
    chip = load_chip("ascend910b2")
    step = predict_step(SMALL, "float16", 2, tokens, context, chip, recorder)
    launches = launches_of(SMALL, "float16", 2, tokens, context)
    each = [predict_launch(launch, context, chip, recorder) for launch in launches]
    assert step.launches == len(launches) == 1 + 10 * SMALL.layers + 1  # the first norm, layers, the last product
    assert step.us == pytest.approx(sum(one.us for one in each))
    assert step.bound_us == pytest.approx(sum(one.bound_us for one in each))
    assert sum(step.parts.values()) == pytest.approx(step.us)
    products = sum(one.us for launch, one in zip(launches, each, strict=True) if launch.operator == "matmul")
    assert step.parts["matmul"] == pytest.approx(products)
    assert step.bound_us < step.us < step.stock_us
    assert step.launches < step.stock_launches
    assert sum(step.stock_parts.values()) == pytest.approx(step.stock_us)


def test_stock_products_take_what_a_trace_of_the_device_says(recorder):
    chip, rows, hidden, inner = load_chip("ascend910b2"), 2 * 48, SMALL.hidden, SMALL.feed_forward
    step = predict_step(SMALL, "float16", 2, 48, 48, chip, recorder)

    def product(rows, width, depth):
        shapes = ((rows, depth), (depth, width), (rows, width))
        return cost("aclnnMatmul", [*(Tensor(0, 1, 0, s, (s[1], 1), s[0] * s[1]) for s in shapes), 0], chip).us

    keys = SMALL.key_heads * SMALL.head_size
    layer = 2 * product(rows, hidden, hidden) + 2 * product(rows, keys, hidden)
    layer += 2 * product(rows, inner, hidden) + product(rows, hidden, inner)
    assert step.stock_parts["MatMul"] == pytest.approx(SMALL.layers * layer + product(2, SMALL.vocabulary, hidden))


def test_command(recorder, tmp_path):
    arguments = ["llm", "predict", "smollm2-135m", "-c", "64", "--prompt", "32", "--json", str(tmp_path / "out.json")]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert "nothing was measured" in done.output
    found = json.loads((tmp_path / "out.json").read_text("utf-8"))
    assert list(found["steps"]) == ["prompt of 32", "a token behind 64"]
    assert all(step["predicted"] and step["us"] > 0 for step in found["steps"].values())


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nothing"], 1, "nothing: no such file, and none of llama-2-7b, smollm2-135m"),
        (["llama-2-7b", "-c", "5000"], 2, "made for 4096 tokens at most, not for 5000"),
        (["llama-2-7b", "--chip", "x"], 1, "there is no chip 'x'"),
    ],
)
def test_bad_arguments(recorder, arguments, code, message):
    done = CliRunner().invoke(main, ["llm", "predict", *arguments])
    assert done.exit_code == code
    assert message in done.output


def test_a_kernel_that_reads_what_another_left(recorder):
    """Where calls are only counted, kv_cache_update once found its greatest slot in what a launch before had left."""
    caches = dict.fromkeys(("key_cache", "value_cache"), (8, 32, 2, 64))
    profile(Case("swiglu", (64, 16384), "float32"), recorder, executes=True)
    case = Case(
        "kv_cache_update", (1, 4, 2, 64), "float32", shapes={"value": (1, 4, 2, 64), **caches, "slot_mapping": (1, 4)}
    )
    assert profile(case.changed(fill={"slot_mapping": "count"}), recorder).prediction.us > 0
