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
    matrix = f"model.layers.1.mlp.{'experts.2.' if again.config.experts else ''}up_proj.weight"
    for one in (checkpoint, again):
        part = one.weight(matrix, slice(5, 9), slice(8, 32))
        np.testing.assert_array_equal(part, WEIGHTS[name][matrix][5:9, 8:32])


REFUSED = {
    "gemma2": r"gemma2 has a soft cap of attention's scores \(2\), which has no gradient here",
    "mixtral": r"a mixture of experts \(4 of them\) cannot be trained here",
}


@pytest.mark.parametrize("name", ["phi3", "olmo2", "glm4", "gemma2", "gemma3", "mixtral"])
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
    if name in REFUSED:
        with pytest.raises(ValueError, match=REFUSED[name]):
            TrainedNetwork(checkpoint, context=context)
        return
    trained = TrainedNetwork(checkpoint, context=context)
    labels = np.array([[*tokens[1:], 5]], np.int32)
    loss = trained(*trained.inputs(np.array([tokens], np.int32), labels)).asnumpy()
    shifted = expected - expected.max(-1, keepdims=True)
    right = np.log(np.exp(shifted).sum(-1)) - shifted[np.arange(count), labels[0]]
    np.testing.assert_allclose(loss, right.sum(), rtol=1e-5)


@pytest.mark.parametrize(("name", "without"), [("olmo2", ("qkv", "gate_up")), ("gemma2", ())])
def test_factors(files, name, without):
    """Matrices behind a norm, or another matrix, get factors; the network stays what it is."""
    checkpoint = open_checkpoint(files[name])
    editable = Editable(checkpoint)
    inputs, _ = calibrated(editable, Forward(editable.network, 16), [TOKENS[:16]])
    left = scale_units(editable, inputs, "int4", 32)
    helped = {unit.rpartition(".")[2] for unit, share in left.items() if share < 1}
    assert helped == {"qkv", "output", "gate_up", "down"} - set(without)
    network = load_network(editable.checkpoint(dict.fromkeys([unit.name for unit in editable.units], "float32")))
    expected = reference.logits(tiny.FAMILIES[name], tiny.doubles(WEIGHTS[name]), TOKENS[:20])
    close(ProgramExecutor(network, 2, 64).step([Chunk(TOKENS[:20], 0, [0])], every_row=True), expected)


def test_networks_that_are_not_divided(files):
    with pytest.raises(ValueError, match="olmo2 has a norm of all heads together, which cannot be divided"):
        partition(open_checkpoint(files["olmo2"]), 0, 2)
    with pytest.raises(ValueError, match=r"a mixture of experts \(4 of them\) cannot be divided"):
        partition(open_checkpoint(files["mixtral"]), 0, 2)


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
        ("gemma2", {"gemma2.attention.scale": 0.5}, "the key gemma2.attention.scale is not supported, got 0.5"),
        ("gemma3", {"gemma3.attention.sliding_window_pattern": 2}, "sliding_window_pattern must be 6, got 2"),
        ("gemma3", {"gemma3.attn_logit_softcapping": 9.0}, "gemma3.attn_logit_softcapping is not supported, got 9.0"),
        ("mixtral", {"llama.attention.sliding_window": 20}, "llama.attention.sliding_window is not supported, got 20"),
        ("qwen3_moe", {"qwen3moe.expert_count": 0}, "qwen3moe.expert_count must be at least 1, got 0"),
        ("qwen3_moe", {"qwen3moe.expert_shared_count": 1}, "qwen3moe.expert_shared_count is not supported, got 1"),
        (
            "phi3, half", {"phi3.rope.scaling.type": "yarn", "phi3.rope.scaling.attn_factor": 2.0},
            "attn_factor must be 1 without rope.scaling.factor, got 2.0",
        ),
    ],
)  # fmt: skip
def test_fields_that_would_be_lost(tmp_path, name, fields, message):
    with pytest.raises(ValueError, match=message):
        open_checkpoint(tiny.write_gguf(tmp_path / "m.gguf", tiny.FAMILIES[name], fields=fields))


def test_two_tensors_of_one_weight():
    shapes = {"model.layers.0.self_attn.q_proj.weight": (64, 64), "model.layers.0.self_attn.qkv_proj.weight": (128, 64)}
    with pytest.raises(ValueError, match=r"q_proj.weight and \S+qkv_proj.weight are both \S+q_proj.weight"):
        places_of(tiny.FAMILIES["phi3"], Path("m"), shapes, {})


@pytest.mark.parametrize("name", ["glm4", "phi3, half"])
def test_yarn(name, tmp_path):
    """Only files with factors of both kinds mean LongRoPE by that word. A context is the stretched one."""
    scaling = {"type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64}
    data = tiny.config_json(replace(tiny.FAMILIES[name], rotary=0)) | {"rope_scaling": scaling}
    data |= {"partial_rotary_factor": 0.5}
    config = read_config(Path("config.json"), data, {}, False)
    assert (config.rope_scaling.kind, config.context) == ("yarn", 512)
    scaling = replace(tiny.FAMILIES["yarn"].rope_scaling, factor=8.0)
    path = tiny.write_gguf(tmp_path / "m.gguf", replace(tiny.FAMILIES[name], rope_scaling=scaling))
    checkpoint = open_checkpoint(path)
    assert (checkpoint.config.rope_scaling.kind, checkpoint.config.context) == ("yarn", 512)
    write_directory(checkpoint, tmp_path / "m", np.dtype(np.float32))
    assert open_checkpoint(tmp_path / "m").config == checkpoint.config


GEMMA2, GEMMA3, MIXTRAL, QWEN3_MOE = (tiny.FAMILIES[name] for name in ("gemma2", "gemma3", "mixtral", "qwen3_moe"))


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        (GEMMA2, {"hidden_activation": "gelu"}, "hidden_activation must be gelu_pytorch_tanh, got 'gelu'"),
        (GEMMA2, {"use_bidirectional_attention": True}, "use_bidirectional_attention is not supported, got true"),
        (GEMMA2, {"query_pre_attn_scalar": 0}, "query_pre_attn_scalar must be > 0, got 0.0"),
        (GEMMA2, {"final_logit_softcapping": -1.0}, "logit_cap must be at least 0 and finite, got -1.0"),
        (GEMMA2, {"attn_logit_softcapping": "much"}, "attn_logit_softcapping must be one float, got 'much'"),
        (GEMMA2, {"num_experts": 8}, "the key num_experts is not supported, got 8"),
        (GEMMA3, {"attn_logit_softcapping": 50.0}, "attn_logit_softcapping is not supported in gemma3_text"),
        (GEMMA3, {"sliding_window_pattern": 0}, "sliding_window_pattern must be at least 1, got 0"),
        (GEMMA3, {"rope_local_base_freq": -1}, "local_base must be at least 0 and finite, got -1"),
        (
            GEMMA3, {"rope_parameters": {"sliding_attention": {"rope_type": "yarn"}}},
            "rope_type of sliding_attention must be default, got 'yarn'",
        ),
        (GEMMA3, {"model_type": "gemma3"}, "model_type is 'gemma3'; those that can be read"),
        (MIXTRAL, {"num_local_experts": 0}, "experts of mixtral must be 1 to 1024, got 0"),
        (MIXTRAL, {"num_experts_per_tok": 9}, "experts of a token must be 1 to 8, got 9"),
        (MIXTRAL, {"sliding_window": 8, "layer_types": ["full_attention"]}, "layer_types must be sliding_attention"),
        (QWEN3_MOE, {"decoder_sparse_step": 2}, "decoder_sparse_step must be 1, got 2"),
        (QWEN3_MOE, {"mlp_only_layers": [0]}, r"mlp_only_layers must be empty, got \[0\]"),
        (QWEN3_MOE, {"shared_expert_intermediate_size": 8}, "shared_expert_intermediate_size is not supported, got 8"),
    ],
)  # fmt: skip
def test_keys_that_are_refused(config, changes, message):
    """By their names, before a weight is read."""
    data = tiny.config_json(replace(config, rope_scaling=None)) | changes
    with pytest.raises(ValueError, match=message):
        read_config(Path("config.json"), data, {}, True).check("config.json")


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
