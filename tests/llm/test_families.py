"""Architectures with parts of their own, against the decoder in float64. Those of others: test_transformers.py."""

from dataclasses import replace
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest

from ms_ascend_ops.llm.checkpoints import open_checkpoint
from ms_ascend_ops.llm.checkpoints.checkpoint import places_of
from ms_ascend_ops.llm.checkpoints.hugging_face_config import read_config
from ms_ascend_ops.llm.checkpoints.writer import write_directory
from ms_ascend_ops.llm.config import RopeScaling
from ms_ascend_ops.llm.executor import Chunk, ProgramExecutor
from ms_ascend_ops.llm.finetune.network import TrainedNetwork
from ms_ascend_ops.llm.graph import Decoder
from ms_ascend_ops.llm.network import load_network
from ms_ascend_ops.llm.parallel import partition
from ms_ascend_ops.llm.quantize.forward import Forward
from ms_ascend_ops.llm.quantize.scaling import calibrated, scale_units
from ms_ascend_ops.llm.quantize.units import Editable
from tests.llm import reference, tiny

WEIGHTS = {name: tiny.random_weights(config) for name, config in tiny.FAMILIES.items()}
TOKENS = np.random.default_rng(3).integers(0, tiny.CONFIG.vocabulary, 50).tolist()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("families")
    return {
        name: tiny.write_gguf(folder / f"{index}.gguf", config, WEIGHTS[name])
        for index, (name, config) in enumerate(tiny.FAMILIES.items())
    }


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize("name", tiny.FAMILIES)
def test_logits(files, name):
    """Of a prompt, of which the first half comes alone; and where the context asked for is short."""
    checkpoint, config = open_checkpoint(files[name]), tiny.FAMILIES[name]
    held = checkpoint.config
    assert replace(held, epsilon=config.epsilon, rope_scaling=config.rope_scaling) == config
    network, weights = load_network(checkpoint), tiny.doubles(WEIGHTS[name])
    for context, blocks in ((64, [1, 0]), (32, [1])):
        tokens = TOKENS[: context - 14]
        runs = ProgramExecutor(network, 2, context)
        expected = reference.logits(config, weights, tokens, context)
        runs.step([Chunk(tokens[:11], 0, blocks)])
        close(runs.step([Chunk(tokens[11:-1], 11, blocks)], every_row=True), expected[11:-1])
        close(runs.step([Chunk(tokens[-1:], len(tokens) - 1, blocks)])[0], expected[-1])


@pytest.mark.parametrize("name", tiny.FAMILIES)
def test_directories(files, tmp_path, name):
    """A directory has the names of the family, and its fused matrices; it is read as what was written."""
    checkpoint = open_checkpoint(files[name])
    write_directory(checkpoint, tmp_path / "m", np.dtype(np.float32))
    again = open_checkpoint(tmp_path / "m")
    assert again.config == checkpoint.config
    for weight, value in WEIGHTS[name].items():
        np.testing.assert_array_equal(again.array(weight), value, err_msg=weight)
    part = again.weight("model.layers.1.mlp.up_proj.weight", slice(5, 9), slice(8, 32))
    np.testing.assert_array_equal(part, WEIGHTS[name]["model.layers.1.mlp.up_proj.weight"][5:9, 8:32])


@pytest.mark.parametrize("name", ["phi3", "olmo2", "glm4"])
def test_a_graph_and_training(files, name):
    """The same layer, compiled, and with gradients."""
    checkpoint, weights = open_checkpoint(files[name]), tiny.doubles(WEIGHTS[name])
    tokens, count, context = TOKENS[:24], 24, 64
    decoder = Decoder(load_network(checkpoint), 2, context)
    decoder.set_train(False)
    positions = np.arange(count, dtype=np.int32)[None]
    inputs = np.array([tokens]), positions, positions, np.array([[0, 1]]), np.array([count])
    logits = ms.jit(decoder)(*(ms.Tensor(one, ms.int32) for one in inputs)).asnumpy()
    expected = reference.logits(tiny.FAMILIES[name], weights, tokens, context)
    close(logits[0], expected[-1])
    trained = TrainedNetwork(checkpoint, context=context)
    labels = np.array([[*tokens[1:], 5]], np.int32)
    loss = trained(*trained.inputs(np.array([tokens], np.int32), labels)).asnumpy()
    shifted = expected - expected.max(-1, keepdims=True)
    right = np.log(np.exp(shifted).sum(-1)) - shifted[np.arange(count), labels[0]]
    np.testing.assert_allclose(loss, right.sum(), rtol=1e-5)


def test_factors_where_no_norm_is_in_front(files):
    """Matrices behind a norm, or another matrix, get factors; the network stays what it is."""
    checkpoint = open_checkpoint(files["olmo2"])
    editable = Editable(checkpoint)
    inputs, _ = calibrated(editable, Forward(editable.network, 16), [TOKENS[:16]])
    left = scale_units(editable, inputs, "int4", 32)
    assert all((share == 1) == name.endswith(("qkv", "gate_up")) for name, share in left.items())
    network = load_network(editable.checkpoint(dict.fromkeys([unit.name for unit in editable.units], "float32")))
    expected = reference.logits(tiny.FAMILIES["olmo2"], tiny.doubles(WEIGHTS["olmo2"]), TOKENS[:20])
    close(ProgramExecutor(network, 2, 64).step([Chunk(TOKENS[:20], 0, [0])], every_row=True), expected)


def test_a_norm_of_all_heads_is_not_divided(files):
    with pytest.raises(ValueError, match="olmo2 has a norm of all heads together, which cannot be divided"):
        partition(open_checkpoint(files["olmo2"]), 0, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rotary": 17}, "the part of a head that is rotated must be even, got 17"),
        ({"windows": (4,)}, r"windows must be 2 and at least 0, got \(4,\)"),
        (
            {"rope_scaling": RopeScaling("longrope", short_factors=(1.0,), long_factors=(1.0,))},
            "must have 8 numbers, got 1",
        ),
        ({"rope_scaling": RopeScaling("yarn", beta_fast=0.0)}, "beta_fast of rope_scaling must be > 0"),
        ({"rope_scaling": RopeScaling("yarn"), "rope_base": 1.0}, "rope_base must be > 1 with yarn, got 1.0"),
        ({"rope_scaling": RopeScaling("foo")}, "the kind of rope_scaling is not known: 'foo'"),
        (
            {"rope_scaling": RopeScaling("longrope", long_factors=(-1.0,))},
            "short_factor and long_factor must be > 0",
        ),
    ],
)
def test_numbers_that_are_not_possible(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(tiny.CONFIG, **changes).check("file")


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("olmo2", {"olmo2.attention.sliding_window": 20}, "olmo2.attention.sliding_window is not supported, got 20"),
        ("glm4", {"glm4.rope.dimension_count": 0}, "rope.dimension_count must be at least 2, got 0"),
    ],
)
def test_fields_that_would_be_lost(tmp_path, name, fields, message):
    with pytest.raises(ValueError, match=message):
        open_checkpoint(tiny.write_gguf(tmp_path / "m.gguf", tiny.FAMILIES[name], fields=fields))


def test_two_tensors_of_one_weight():
    shapes = {"model.layers.0.self_attn.q_proj.weight": (64, 64), "model.layers.0.self_attn.qkv_proj.weight": (128, 64)}
    with pytest.raises(ValueError, match=r"q_proj.weight and \S+qkv_proj.weight are both \S+q_proj.weight"):
        places_of(tiny.FAMILIES["phi3"], Path("m"), shapes, {})


def test_glm4_with_yarn():
    """Only Phi-3's older files mean LongRoPE by that word."""
    scaling = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
    data = tiny.config_json(replace(tiny.FAMILIES["glm4"], rotary=0)) | {"rope_scaling": scaling}
    data |= {"partial_rotary_factor": 0.5}
    config = read_config(Path("config.json"), data, {}, False)
    assert (config.rope_scaling.kind, config.context) == ("yarn", 256)


@pytest.mark.parametrize(
    ("fields", "leave_out", "message"),
    [
        (
            {"phi3.rope.scaling.type": "yarn"},
            (),
            "linear, yarn, or, with factors, longrope, got 'yarn'",
        ),
        ({}, ("rope_factors_short",), "the tensor rope_factors_short.weight is missing"),
        ({}, ("model.layers.1.self_attn.qkv_proj.weight",), r"the tensor blk\.1\.attn_qkv\.weight is missing"),
    ],
)
def test_files_that_are_not_whole(tmp_path, fields, leave_out, message):
    path = tiny.write_gguf(tmp_path / "m.gguf", tiny.FAMILIES["phi3"], fields=fields, leave_out=leave_out)
    with pytest.raises(ValueError, match=message):
        open_checkpoint(path)
