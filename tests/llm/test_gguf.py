"""GGUF files, written and quantized by llama.cpp's own package."""

from dataclasses import replace

import gguf
import numpy as np
import pytest
from gguf.quants import dequantize

from ms_ascend_ops.llm.checkpoints import open_checkpoint
from ms_ascend_ops.llm.checkpoints.quantized import QuantizedMatrix
from ms_ascend_ops.quantization import unpack_int4
from tests.llm import tiny


def same_config(config, expected):
    """The file has epsilon as float32."""
    assert replace(config, epsilon=expected.epsilon) == expected
    assert config.epsilon == np.float32(expected.epsilon)


KINDS = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]


@pytest.mark.parametrize("kind", KINDS)
def test_weights(tmp_path, kind):
    weights = tiny.random_weights(tiny.CONFIG)
    checkpoint = open_checkpoint(tiny.write_gguf(tmp_path / "m.gguf", weights=weights, kind=kind))
    same_config(checkpoint.config, tiny.CONFIG)
    for name, value in weights.items():
        expected = value
        if value.ndim == 2 and kind != "F32":
            its = gguf.GGMLQuantizationType[kind]
            expected = dequantize(gguf.quants.quantize(value, its), its)
        np.testing.assert_array_equal(checkpoint.array(name), expected, err_msg=name)
        if value.ndim == 2 and kind.startswith("Q"):
            assert isinstance(checkpoint.weight(name), QuantizedMatrix)


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3"])
def test_architectures(tmp_path, architecture):
    config = tiny.VARIANTS[architecture]
    weights = tiny.random_weights(config)
    checkpoint = open_checkpoint(tiny.write_gguf(tmp_path / "m.gguf", config, weights))
    same_config(checkpoint.config, config)
    for name, value in weights.items():
        np.testing.assert_array_equal(checkpoint.array(name), value, err_msg=name)


def test_untied(tmp_path):
    weights = tiny.random_weights(tiny.CONFIG) | {"lm_head.weight": np.ones((len(tiny.TOKENS), 64), np.float32)}
    checkpoint = open_checkpoint(tiny.write_gguf(tmp_path / "m.gguf", weights=weights))
    assert not checkpoint.config.tied_embedding


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_1"])
def test_form_with_offset(tmp_path, kind):
    """(q + offset) * scale is the same matrix up to the rounding of the offset; a group of one value stays exact."""
    weights = tiny.random_weights(tiny.CONFIG)
    name = "model.layers.0.mlp.up_proj.weight"
    weights[name][3, 32:] = 0.25
    weights[name][4] = 0
    matrix = open_checkpoint(tiny.write_gguf(tmp_path / "m.gguf", weights=weights, kind=kind)).weight(name)
    codes, scale, offset = matrix.for_product()
    assert (offset is None) == (kind == "Q8_0")  # a row of zeros has the offset 1
    integers = codes if kind == "Q8_0" else unpack_int4(codes)
    groups = integers.astype(np.float64).reshape(len(codes), -1, 32)
    if offset is not None:
        groups = groups + offset.astype(np.float64)[..., None]
    values = (groups * scale.astype(np.float64)[..., None]).reshape(matrix.shape)
    exact = matrix.dequantized(np.float64)
    assert np.isfinite(values).all()
    np.testing.assert_allclose(values, exact, atol=2**-11 * 8 * np.abs(scale.astype(np.float64)).max())
    np.testing.assert_array_equal(values[4], 0)
    if kind == "Q4_1":
        np.testing.assert_array_equal(values[3, 32:], 0.25)


def bad(tmp_path, change):
    path = tiny.write_gguf(tmp_path / "m.gguf")
    data = bytearray(path.read_bytes())
    path.write_bytes(change(data))
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"", "no GGUF file"),
        (lambda data: b"PK\3\4" + bytes(100), "no GGUF file"),
        (lambda data: data[:10], "truncated"),
        (lambda data: data[:3000], "truncated: it ends in its head"),
        (lambda data: data[:-1], "truncated: tensor .* ends at byte"),
        (lambda data: data[:4] + b"\x09" + data[5:], "version must be 2 or 3, little endian, got 9"),
        # A string that claims to be longer than memory.
        (lambda data: data[:24] + b"\xff" * 8 + data[32:], "truncated: it ends in its head"),
        (lambda data: data[:8] + b"\xff" * 8 + data[16:], "truncated|m.gguf"),
    ],
)
def test_foreign_and_truncated_files(tmp_path, change, message):
    path = bad(tmp_path, change)
    with pytest.raises(ValueError, match=message) as raised:
        open_checkpoint(path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_every_length_is_refused(tmp_path):
    """Whatever is missing at the end, the message is one of ours."""
    path = tiny.write_gguf(tmp_path / "m.gguf")
    data = path.read_bytes()
    for size in [*range(0, 600, 7), *range(600, len(data), 9973)]:
        path.write_bytes(data[:size])
        with pytest.raises(ValueError, match=r"m\.gguf: "):
            open_checkpoint(path)


UP, DOWN, EMBEDDING = (
    "model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.down_proj.weight", "model.embed_tokens.weight"
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("model.layers.1.self_attn.q_proj.weight", None, r"the tensor blk\.1\.attn_q\.weight is missing"),
        ("model.layers.1.self_attn.o_proj.weight", None, r"the tensor blk\.1\.attn_output\.weight is missing"),
        (EMBEDDING, None, r"token_embd\.weight is missing"),
        (EMBEDDING, lambda weight: weight[:-1], rf"has {len(tiny.TOKENS)} tokens, but token_embd.weight"),
        (DOWN, lambda weight: weight[:, :64], r"blk\.0\.ffn_down\.weight must have shape \(64, 96\), got \(64, 64\)"),
        (
            UP,
            lambda weight: (weight.astype(np.int32), gguf.GGMLQuantizationType.I32),
            r"tensor blk\.0\.ffn_up\.weight has the type I32; F32, F16, BF16, Q4_0.* can be",
        ),
    ],
)
def test_tensors_that_do_not_fit(tmp_path, name, change, message):
    weights, left_out = tiny.random_weights(tiny.CONFIG), [] if change else [name]
    if change:
        weights[name] = change(weights[name])
    path = tiny.write_gguf(tmp_path / "m.gguf", weights=weights, leave_out=left_out)
    with pytest.raises(ValueError, match=message):
        open_checkpoint(path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"general.architecture": "mamba"}, "general.architecture, the architecture, is 'mamba'; those that can be"),
        ({"llama.leading_dense_block_count": 1}, "the key llama.leading_dense_block_count is not supported, got 1"),
        ({"llama.expert_count": 8}, "llama.expert_used_count is missing"),
        ({"llama.expert_count": 8, "llama.expert_used_count": 2}, r"tensor blk\.0\.ffn_gate_inp\.weight is miss"),
        ({"llama.rope.dimension_count": 8}, "rope.dimension_count must be the size of a head"),
        ({"llama.rope.scaling.type": "su"}, "must be none, linear, yarn, or, with factors, longrope, got 'su'"),
        (
            {"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 4.0},
            "the key llama.rope.scaling.original_context_length is missing",
        ),
        ({"llama.attention.head_count": "four"}, "attention.head_count must be one int"),
        ({"llama.attention.head_count_kv": 3}, "multiple of that of key heads"),
        ({"llama.logit_scale": 2.0}, "the key llama.logit_scale is not supported, got 2.0"),
        ({"llama.attention.max_alibi_bias": 8.0}, "attention.max_alibi_bias is not supported"),
        ({"llama.attn_logit_softcapping": 50.0}, "attn_logit_softcapping is not supported"),
        ({"llama.rope.scaling.attn_factor": 0.5}, "rope.scaling.attn_factor is not supported"),
        ({"llama.use_parallel_residual": True}, "use_parallel_residual is not supported"),
        ({"llama.attention.causal": False}, "attention.causal must be true"),
        ({"split.count": 2}, "split.count is 2, but the name does not end with -00001-of-00002.gguf"),
    ],
)
def test_unsupported_networks(tmp_path, fields, message):
    path = tmp_path / "m.gguf"
    tiny.write_gguf(path, fields=fields)
    with pytest.raises(ValueError, match=message):
        open_checkpoint(path)


def test_keys_that_change_nothing(tmp_path):
    fields = {"llama.logit_scale": 1.0, "llama.expert_group_count": 1, "llama.leading_dense_block_count": 0}
    plain, other = (tiny.write_gguf(tmp_path / f"{len(some)}.gguf", fields=some) for some in ({}, fields))
    assert open_checkpoint(other).config == open_checkpoint(plain).config
