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


MIXTURE = replace(SMALL, architecture="mixtral", layers=2, experts=4, experts_used=2, normalized_experts=True)


@pytest.mark.parametrize(
    ("config", "tokens", "context", "layer"),
    [
        (SMALL, 1, 65, 10),
        (SMALL, 48, 48, 10),
        (replace(SMALL, windows=(8, 0, 8)), 1, 65, 10),
        (MIXTURE, 1, 65, 15),  # eight launches in the place of three
    ],
)
def test_the_sum_of_all_launches(recorder, config, tokens, context, layer):
    chip = load_chip("ascend910b2")
    step = predict_step(config, "float16", 2, tokens, context, chip, recorder)
    launches = launches_of(config, "float16", 2, tokens, context)
    each = [predict_launch(launch, context, chip, recorder) for launch in launches]
    assert step.launches == len(launches) == 1 + layer * config.layers + 1  # the first norm, layers, the last product
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


def test_what_is_not_read_is_not_in_the_bound(recorder):
    """Experts without a token, and what lies in front of a window."""
    chip = load_chip("ascend910b2")

    def bound(config, operator, context=65):
        (launch, *_) = [one for one in launches_of(config, "float16", 1, 1, context) if one.operator == operator]
        return predict_launch(launch, context, chip, recorder).bound_us

    many = replace(MIXTURE, experts=64)
    matrix = 2 * SMALL.hidden * SMALL.feed_forward
    more = (bound(many, "grouped_matmul") - bound(MIXTURE, "grouped_matmul")) * chip.hbm_gb_per_s * 1e3
    assert bound(many, "grouped_matmul") * chip.hbm_gb_per_s * 1e3 == pytest.approx(2 * matrix, rel=0.02)
    assert more < matrix / 4  # ends of 64 experts are longer than those of 4
    windows = replace(SMALL, windows=(64,) * SMALL.layers)
    assert bound(windows, "paged_attention", 1025) == pytest.approx(bound(SMALL, "paged_attention", 64), rel=0.1)


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
