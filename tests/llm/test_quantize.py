"""`llm quantize`: rounding, factors between layers, and types by a bound, against float64."""

import itertools
import math
import re

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner

from ms_ascend_ops.__main__ import main
from ms_ascend_ops.llm.checkpoints import open_checkpoint
from ms_ascend_ops.llm.checkpoints.quantized import QuantizedMatrix
from ms_ascend_ops.llm.executor import Chunk, ProgramExecutor
from ms_ascend_ops.llm.network import load_network
from ms_ascend_ops.llm.quantize import build, policy
from ms_ascend_ops.llm.quantize.build import Samples, calibrated_checkpoint, mixed_checkpoint
from ms_ascend_ops.llm.quantize.divergence import Divergence, divergence
from ms_ascend_ops.llm.quantize.forward import Forward
from ms_ascend_ops.llm.quantize.policy import Option, chosen, searched
from ms_ascend_ops.llm.quantize.rounding import TYPES, floats_of, nbytes_of, rounded
from ms_ascend_ops.llm.quantize.scaling import calibrated, output_error, scale_units
from ms_ascend_ops.llm.quantize.units import Editable, rounded_checkpoint
from tests.acceptance import assert_close
from tests.llm import reference, tiny
from tests.llm.test_network import close, ids

WINDOW = 32


def uneven(config, seed=0):
    """Weights of a network some of whose activations are much larger than the others, as those of trained ones are."""
    weights = tiny.random_weights(config, seed)
    rng = np.random.default_rng(seed)
    for name, value in weights.items():
        if name.endswith("layernorm.weight"):
            value[rng.choice(len(value), 3, replace=False)] *= 20
        elif name.endswith(("up_proj.weight", "v_proj.weight")):
            value[rng.choice(len(value), 3, replace=False)] *= 10
    return weights


def opened(tmp_path, config=tiny.CONFIG, weights=None, name="m"):
    return open_checkpoint(tiny.write_directory(tmp_path / name, config, weights or uneven(config)))


def samples(windows=2, window=WINDOW):
    return Samples([ids(window, seed) for seed in range(windows)], [ids(window, 50 + seed) for seed in range(windows)])


def divergence_64(expected, actual):
    """From the definition."""

    def chances(rows):
        powers = np.exp(rows - rows.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)

    p, q = chances(np.asarray(expected, np.float64)), chances(np.asarray(actual, np.float64))
    return float((p * np.log(p / q)).sum(-1).mean())


def written_weights(checkpoint):
    return tiny.doubles({name: checkpoint.array(name) for name in tiny.random_weights(checkpoint.config)})


@pytest.mark.parametrize("kind", TYPES)
def test_rounding(kind):
    weight = np.random.default_rng(0).standard_normal((7, 96)).astype(np.float32)
    weight[2, :32] = 0  # groups without a span, of one number, and of one sign
    weight[3, 32:64] = -0.75
    weight[4] = np.abs(weight[4])
    result = rounded(weight, kind, 32)
    error = np.abs(floats_of(result) - weight)
    groups = weight.reshape(7, 3, 32)
    if kind == "int8":
        scale = np.abs(groups).max(-1) / 127
    elif kind == "int4":
        scale = (np.maximum(groups.max(-1), 0) - np.minimum(groups.min(-1), 0)) / 15
    else:
        scale = np.abs(groups).max(-1) * {"float16": 2**-10, "bfloat16": 2**-7, "float32": 0}[kind]
    # Half a step; one more where the zero point, which is rounded itself, cuts the end of a group off; float16 scales.
    room = {"int8": 0.5 + 127 * 2**-11, "int4": 1.0 + 15 * 2**-11}.get(kind, 0.5)
    assert (error <= room * np.repeat(scale, 32, 1) + 1e-7).all()
    assert not error[2, :32].any()
    parts = [result.codes, result.scale, result.zero] if isinstance(result, QuantizedMatrix) else [result]
    assert sum(part.nbytes for part in parts if part is not None) == nbytes_of(weight.shape, kind, 32)


def test_scales_beyond_float16():
    weight = np.array([[1e7] + [0] * 31, [-3e-9] + [0] * 31], np.float32)
    for kind in ("int4", "int8"):
        np.testing.assert_allclose(floats_of(rounded(weight, kind)), weight, rtol=1e-2)
    assert np.isinf(rounded(weight, "float16")[0, 0])
    assert output_error(weight, "float16", 32, np.ones((1, 32), np.float32)) == math.inf


@pytest.mark.parametrize(
    ("weight", "kind", "group", "message"),
    [
        (np.zeros((2, 96)), "int5", 32, "the type must be one of int4, .* got 'int5'"),
        (np.zeros((2, 96)), "int4", 64, "a multiple of 32 that divides the matrix's 96 columns, got 64"),
        (np.zeros((2, 96)), "int4", 48, "a multiple of 32 that divides the matrix's 96 columns, got 48"),
        (np.full((2, 96), np.nan), "int8", 32, "must be finite"),
    ],
)
def test_what_cannot_be_rounded(weight, kind, group, message):
    with pytest.raises(ValueError, match=message):
        rounded(weight.astype(np.float32), kind, group)


@pytest.mark.parametrize("architecture", tiny.VARIANTS)
def test_forward(tmp_path, architecture):
    config = tiny.VARIANTS[architecture]
    weights = uneven(config)
    editable = Editable(opened(tmp_path, config, weights))
    forward = Forward(editable.network, 40)
    tokens = ids(40)
    seen = {}
    residual = forward.embedded(tokens)
    for index, layer in enumerate(editable.network.layers):
        residual = forward.layer(layer, residual, lambda kind, x, index=index: seen.setdefault((index, kind), x.shape))
    expected = reference.logits(config, tiny.doubles(weights), tokens)
    # Channels of very different sizes, whose rounding comes into the small ones: 1.6e-5 of the largest logit is seen.
    for result in (forward.logits(residual), forward.logits_from(forward.embedded(tokens), 0)):
        assert_close(result, expected, atol=1e-4)
    inputs = {"qkv": config.hidden, "output": config.query_size, "gate_up": config.hidden, "down": config.feed_forward}
    assert seen == {(index, kind): (40, size) for index in range(config.layers) for kind, size in inputs.items()}


@pytest.mark.parametrize("powers_of_two", [False, True])
@pytest.mark.parametrize("architecture", tiny.VARIANTS)
def test_factors_leave_the_network_as_it_is(tmp_path, architecture, powers_of_two):
    """Biases of values, heads that share values, norms of heads; and errors of outputs are smaller."""
    config = tiny.VARIANTS[architecture]
    weights = uneven(config)
    source = opened(tmp_path, config, weights)
    editable = Editable(source)
    forward = Forward(editable.network, WINDOW)
    inputs, states = calibrated(editable, forward, samples(3).calibration)
    assert [len(state) for state in states] == [3] * (config.layers + 1)
    left = scale_units(editable, inputs, "int4", 32, powers_of_two)
    assert max(left.values()) <= 1
    assert np.mean(list(left.values())) < 0.8
    plan = dict.fromkeys((unit.name for unit in editable.units), "float32")
    scaled = written_weights(editable.checkpoint(plan))
    changed = [name for name, value in scaled.items() if not np.array_equal(value, weights[name])]
    assert any("norm" in name for name in changed)
    assert "model.layers.0.self_attn.o_proj.weight" in changed
    if powers_of_two:
        for name in changed:
            assert (np.frexp(scaled[name])[0] == np.frexp(weights[name].astype(np.float64))[0]).all()
    tokens = ids(30, 7)
    expected = reference.logits(config, tiny.doubles(weights), tokens)
    np.testing.assert_allclose(reference.logits(config, scaled, tokens), expected, atol=2e-5 * np.abs(expected).max())
    # The activations that the samples were noted with are those of the network as it is now.
    again, _ = calibrated(editable, forward, samples(3).calibration)
    for name, one in inputs.items():
        np.testing.assert_allclose(one.rows, again[name].rows, atol=1e-4 * np.abs(one.rows).max(), err_msg=name)


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_factors_make_predictions_better(tmp_path, architecture):
    config = tiny.VARIANTS[architecture]
    weights = uneven(config)
    source = opened(tmp_path, config, weights)
    given = samples(4)
    result = calibrated_checkpoint(source, "int4", "int8", 32, given)
    plain = written_weights(rounded_checkpoint(source, "int4", "int8", 32))
    better = written_weights(result.checkpoint)

    def measured(rounded_weights):
        pairs = [
            (reference.logits(config, tiny.doubles(weights), tokens), reference.logits(config, rounded_weights, tokens))
            for tokens in given.held_out
        ]
        return np.mean([divergence_64(*pair) for pair in pairs])

    assert measured(better) < 0.8 * measured(plain)
    assert result.measured.value == pytest.approx(measured(better), rel=1e-2)
    assert result.measured.tokens == 4 * WINDOW


def test_divergence():
    rng = np.random.default_rng(0)
    expected = [rng.standard_normal((70, 50)).astype(np.float32) for _ in range(2)]
    actual = [one + 0.3 * rng.standard_normal(one.shape).astype(np.float32) for one in expected]
    result = divergence(expected, actual)
    assert result.value == pytest.approx(divergence_64(np.concatenate(expected), np.concatenate(actual)), rel=1e-9)
    same = np.concatenate(expected).argmax(1) == np.concatenate(actual).argmax(1)
    assert result.same == pytest.approx(same.mean())
    assert result.tokens == 140
    assert divergence(expected, expected).value == pytest.approx(0, abs=1e-12)
    assert divergence(expected, [one * np.nan for one in actual]).value == math.inf


def unit_options(rng, count):
    """Like those of networks: sensitivities over some powers of ten, each type far better than the one below."""
    return {
        f"unit {index}": [
            Option(kind, size * scale, adds * worst)
            for kind, size, adds in zip(TYPES, (5, 9, 16, 16, 32), (1, 4e-3, 3e-7, 2e-5, 0), strict=True)
        ]
        for index, (scale, worst) in enumerate(
            zip(rng.integers(1, 5, count), 10.0 ** rng.uniform(-5, -2, count), strict=True)
        )
    }


@pytest.mark.parametrize("target", [0.0, 1e-6, 1e-4, 1e-3, 1e-2, 1.0])
def test_choice_against_all_there_are(target):
    for seed in range(5):
        choices = unit_options(np.random.default_rng(seed), 6)
        result = chosen(choices, target)
        assert sum(option.adds for option in result.values()) <= target
        size = sum(option.nbytes for option in result.values())
        best = min(
            sum(option.nbytes for option in one)
            for one in itertools.product(*choices.values())
            if sum(option.adds for option in one) <= target
        )
        assert size <= 1.15 * best
        assert not any(option.kind == "bfloat16" for option in result.values())  # float16 is better in all of these


@pytest.mark.parametrize("factor", [0.05, 0.9, 1.0, 3.0, 40.0])
def test_search_where_estimates_are_wrong(factor):
    """The bound is kept by what is measured, and not by far more than it must be."""
    choices = unit_options(np.random.default_rng(1), 30)
    kinds = {name: {option.kind: option.adds for option in one} for name, one in choices.items()}
    sizes = {name: {option.kind: option.nbytes for option in one} for name, one in choices.items()}

    def measure(plan):
        value = factor * sum(kinds[name][kind] for name, kind in plan.items())
        return Divergence(value, 0.0, 1.0, 100)

    bound = 5e-3
    tried = []
    result = searched(choices, bound, measure, tried.append)
    assert result.measured.value == measure(result.plan).value <= bound
    assert len(tried) <= 2 * policy._ROUNDS
    right = chosen(choices, bound / factor)  # what one would choose who knew
    size = sum(sizes[name][kind] for name, kind in result.plan.items())
    assert size <= 1.1 * sum(option.nbytes for option in right.values())


def test_search_where_only_floats_keep_the_bound():
    choices = unit_options(np.random.default_rng(1), 4)

    def measure(plan):
        return Divergence(0.0 if set(plan.values()) == {"float32"} else math.inf, 0.0, 1.0, 100)

    result = searched(choices, 1e-3, measure)
    assert set(result.plan.values()) == {"float32"}


@pytest.mark.parametrize("architecture", tiny.VARIANTS)
def test_bound_is_kept(tmp_path, architecture):
    """By the file that was written, in float64, too; smaller bounds take more bytes."""
    config = tiny.VARIANTS[architecture]
    weights = uneven(config)
    source = opened(tmp_path, config, weights)
    given = samples(3)
    sizes = []
    for bound in (1e-1, 1e-3, 1e-6):
        result = mixed_checkpoint(source, bound, 32, given)
        assert result.measured.value <= bound
        target = tmp_path / f"out {bound}"
        sizes.append(build_and_write(result.checkpoint, target))
        again = open_checkpoint(target)
        assert again.config == source.config
        stored = written_weights(again)
        exact = np.mean(
            [
                divergence_64(
                    reference.logits(config, tiny.doubles(weights), tokens), reference.logits(config, stored, tokens)
                )
                for tokens in given.held_out
            ]
        )
        assert exact <= 1.05 * bound  # float32 against float64
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[2]


def build_and_write(checkpoint, target):
    from ms_ascend_ops.llm.checkpoints.writer import write_directory  # noqa: PLC0415

    return write_directory(checkpoint, target, None)


def test_weights_that_bfloat16_holds(tmp_path):
    """float16 rounds small ones, bfloat16 does not: half the bytes of float32, at a bound that allows no error."""
    powers = {"up_proj": 2.0**-14, "down_proj": 2.0**14}
    weights = {
        name: value.astype(ml_dtypes.bfloat16).astype(np.float32) * np.float32(powers.get(name.split(".")[-2], 1))
        for name, value in tiny.random_weights(tiny.CONFIG).items()
    }
    result = mixed_checkpoint(opened(tmp_path, weights=weights), 1e-12, 32, samples(1))
    matrix = result.checkpoint.weight("model.layers.0.mlp.up_proj.weight")
    assert matrix.dtype.name == "bfloat16"
    assert re.search(r"gate_up +bfloat16 .*; float16 is less exact here", "\n".join(result.lines))


@pytest.mark.parametrize("kind", ["int4", "int8"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_written_directory(tmp_path, kind, dtype):
    """Of a file that is quantized otherwise; it runs in 4 or 8 bits, and in half precision."""
    source = open_checkpoint(tiny.write_gguf(tmp_path / "m.gguf", kind="Q8_0"))
    build_and_write(rounded_checkpoint(source, kind, "int8", 32), tmp_path / "out")
    checkpoint = open_checkpoint(tmp_path / "out")
    matrix = checkpoint.weight("model.layers.1.mlp.down_proj.weight")
    assert matrix.bits == int(kind[3:])
    np.testing.assert_array_equal(
        floats_of(rounded(source.array("model.layers.1.mlp.down_proj.weight"), kind)), matrix.dequantized()
    )
    runs = ProgramExecutor(load_network(checkpoint, dtype, quantized=True), 16, 64)
    tokens = ids(20)
    expected = reference.logits(tiny.CONFIG, written_weights(checkpoint), tokens)
    close(runs.step([Chunk(tokens, 0, [0])], True), expected, np.dtype(dtype).name)


def run(*arguments):
    return CliRunner().invoke(main, ["llm", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def model(tmp_path):
    (tmp_path / "text").write_text("hello world, hell or low, " * 40)
    return tiny.write_directory(tmp_path / "m", weights=uneven(tiny.CONFIG))


def test_command(model, tmp_path):
    out = tmp_path / "out"
    done = run("quantize", model, "-o", out)
    assert done.exit_code == 0, done.output
    assert re.match(
        rf"{out}: [\d.]+ MiB of weights, \d+% smaller than the [\d.]+ MiB of {model}\nRun it with: ", done.stdout
    )
    assert not (out / "quantization.txt").exists()
    assert run("generate", out, "-p", "hello", "-n", 3).exit_code == 0
    larger = run("quantize", out, "-o", tmp_path / "larger", "--type", "int8", "--embedding", "float32")
    assert re.search(rf"% LARGER than the [\d.]+ MiB of {out}, which are quantized already\n", larger.stdout)
    again = run("quantize", model, "-o", out)
    assert again.exit_code == 1
    assert again.stderr == f"Error: {out}: it is there already; delete it, or name another directory\n"


def test_command_with_samples(model, tmp_path):
    done = run(
        "quantize", model, "-o", tmp_path / "out", "--samples", tmp_path / "text", "--window", 32, "--type", "int8"
    )
    assert done.exit_code == 0, done.output
    assert re.search(r"factors between layers leave \d+% of the squared errors", done.stdout)
    assert re.search(r"divergence on \d+ held-out tokens: \S+ \+- \S+ nats a token; the likeliest", done.stdout)
    assert (tmp_path / "out" / "quantization.txt").read_text() in done.stdout


def test_command_with_a_bound(model, tmp_path):
    (tmp_path / "other").write_text("low or hello " * 60)
    done = run(
        "quantize", model, "-o", tmp_path / "out", "--samples", tmp_path / "text", "--held-out", tmp_path / "other",
        "--window", 32, "--bound", 1e-3, "--tokens", 128,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    report = (tmp_path / "out" / "quantization.txt").read_text()
    assert report in done.stdout
    measured = re.search(r"divergence on 128 held-out tokens: (\S+) .* the bound is 0.001;", report)
    assert float(measured[1]) <= 1e-3
    rows = re.findall(r"^(layers\.\d\.\w+|head) +(\w+) +\d+ +\S+  (.+)$", report, re.MULTILINE)
    assert [name for name, _, _ in rows][:4] == [f"layers.0.{kind}" for kind in ("qkv", "output", "gate_up", "down")]
    assert {kind for _, kind, _ in rows} <= set(TYPES)
    assert all(why == "the fewest bytes" or "would add" in why for _, _, why in rows)
    for command in (["generate", "-p", "hello", "-n", 3], ["bench", "-c", 8, "--tokens", 4, "--runs", 1]):
        assert run(command[0], tmp_path / "out", *command[1:]).exit_code == 0
    assert run("perplexity", tmp_path / "out", tmp_path / "text", "--window", 32).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--bound", 0.1], 2, "--bound needs --samples"),
        (["--held-out", "text"], 2, "--held-out needs --samples"),
        (["--bound", 0.1, "--samples", "text", "--type", "int4"], 2, "either --bound or --type and --embedding"),
        (["--bound", 0], 2, "0 is not in the range"),
        (
            ["--group-size", 64],
            1,
            "down_proj.weight: the group size must be a multiple of 32 that divides the matrix's 96",
        ),
        (["--samples", "text", "--group-size", 64], 1, "the group size must be a multiple of 32"),
        (["--samples", "text", "--window", 300], 1, "--window must be at most 256, the context, got 300"),
        (["--samples", "short"], 1, "must have at least 512 tokens (windows of 256), got 2"),
        (["--samples", "text", "--held-out", "short", "--window", 64], 1, "must have at least 64 tokens"),
    ],
)
def test_bad_arguments(model, tmp_path, arguments, code, message):
    """One line, and nothing written."""
    (tmp_path / "short").write_text("hello w")
    before = sorted(tmp_path.iterdir())
    known = [tmp_path / one if one in ("text", "short") else one for one in arguments]
    done = run("quantize", model, "-o", tmp_path / "out", *known)
    assert done.exit_code == code
    assert message in done.stderr
    assert "Traceback" not in done.output
    assert sorted(tmp_path.iterdir()) == before


def test_a_weight_that_is_not_finite(tmp_path):
    weights = uneven(tiny.CONFIG)
    weights["model.layers.1.mlp.up_proj.weight"][3, 4] = np.inf
    model = tiny.write_directory(tmp_path / "m", weights=weights)
    done = run("quantize", model, "-o", tmp_path / "out")
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_nothing_half_written(model, tmp_path, monkeypatch):
    """The disk is full while the tokenizer is written: neither the directory nor a piece of it stays."""
    (tmp_path / "text").unlink()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ms_ascend_ops.llm.checkpoints.writer._write_json", full)
    done = run("quantize", model, "-o", tmp_path / "out")
    assert done.exit_code == 1
    assert "No space left on device" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_samples():
    given = Samples.of(list(range(100)), None, 16, 32)
    assert given.calibration == [list(range(16)), list(range(16, 32))]
    assert given.held_out == [list(range(32, 48)), list(range(48, 64))]
    given = Samples.of(list(range(100)), list(range(200, 240)), 16, 64)
    assert [len(given.calibration), len(given.held_out), given.window] == [4, 2, 16]
    assert build._MEASURED >= 1
