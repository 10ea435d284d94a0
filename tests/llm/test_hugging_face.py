"""Directories with config.json and safetensors, written by the safetensors package."""

import math
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open

from ms_ascend_ops.llm.checkpoints import open_checkpoint
from ms_ascend_ops.llm.checkpoints.quantized import QuantizedMatrix
from ms_ascend_ops.llm.checkpoints.safetensors_file import SafetensorsFile, write_safetensors
from ms_ascend_ops.llm.checkpoints.writer import write_directory
from ms_ascend_ops.llm.config import RopeScaling
from tests.llm import tiny

YARN = RopeScaling("yarn", 2.0, original_context=256, attention_factor=1 + 0.1 * math.log(2))


@pytest.mark.parametrize("architecture", tiny.VARIANTS)
@pytest.mark.parametrize("files", [1, 3])
def test_weights(tmp_path, architecture, files):
    config = tiny.VARIANTS[architecture]
    weights = tiny.random_weights(config)
    checkpoint = open_checkpoint(tiny.write_directory(tmp_path / "m", config, weights, files))
    assert checkpoint.config == config
    for name, value in weights.items():
        np.testing.assert_array_equal(checkpoint.array(name), value, err_msg=name)


def test_bfloat16(tmp_path):
    values = np.arange(6, dtype=np.float32).reshape(2, 3).astype(ml_dtypes.bfloat16)
    write_safetensors(tmp_path / "a.safetensors", {"x": (values.dtype, (2, 3))}, {"x": values}.get, {"format": "pt"})
    np.testing.assert_array_equal(SafetensorsFile(tmp_path / "a.safetensors").read("x"), values)
    with safe_open(tmp_path / "a.safetensors", "numpy") as file:
        assert file.get_slice("x").get_dtype() == "BF16"
        assert file.get_slice("x").get_shape() == [2, 3]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, {"rope_base": 5e5}),
        ({"rope_scaling": {"type": "linear", "factor": 4}}, {"rope_scaling": RopeScaling("linear", 4.0)}),
        ({"rope_scaling": None}, {}),
        ({"model_type": "mistral", "sliding_window": 128}, {"architecture": "mistral", "windows": (128, 128)}),
        ({"model_type": "mistral"}, {"architecture": "mistral"}),  # 4096, which is more than the context
        (
            {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1},
            {"architecture": "qwen2", "windows": (0, 9)},
        ),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2}}, {"rope_scaling": YARN, "context": 512}),
        ({"model_type": "mistral", "sliding_window": None}, {"architecture": "mistral"}),
        ({"sliding_window": 128, "use_sliding_window": False}, {}),
        ({"eos_token_id": 5}, {"end_tokens": (5,)}),
        ({"eos_token_id": None, "bos_token_id": 3}, {"end_tokens": (), "begin_token": 3}),
        ({"head_dim": None}, {}),
        ({"mlp_bias": False, "pretraining_tp": 1, "rope_interleaved": False, "logits_scaling": 1.0}, {}),
        ({"partial_rotary_factor": 1.0, "hidden_act": "swish"}, {}),
        (
            {"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4}},
            {"rope_scaling": RopeScaling("llama3", 8.0, 1.0, 4.0, 256)},
        ),
    ],
)
def test_configuration(tmp_path, changes, expected):
    checkpoint = open_checkpoint(tiny.write_directory(tmp_path / "m", **changes))
    assert checkpoint.config == replace(tiny.CONFIG, **expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "bert"}, r"config\.json: model_type is 'bert'; those that can be read"),
        ({"hidden_act": "gelu"}, "hidden_act must be silu, got 'gelu'"),
        (
            {"quantization_config": {"quant_method": "bitsandbytes"}},
            "quant_method of quantization_config is 'bitsandbytes', weights that cannot be read; those that can be",
        ),
        ({"quantization_config": "awq"}, "quant_method of quantization_config is 'awq', weights"),
        (
            {"rope_scaling": {"rope_type": "dynamic", "factor": 2}},
            "one of default, linear, llama3, yarn, longrope, got 'dynamic'",
        ),
        ({"rope_scaling": {"rope_type": "yarn"}, "max_position_embeddings": 0}, "division by zero"),
        ({"rope_scaling": {"rope_type": "yarn", "bent": 2}}, "the rotary embedding's key bent is not supported"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor must be 1, got 0.5"),
        (
            {"model_type": "mistral", "sliding_window": 9, "layer_types": ["full_attention"]},
            "layer_types must be sliding_attention in all layers, got",
        ),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 2}}, "cannot be read: 'low_freq_factor'"),
        ({"num_hidden_layers": None}, "the key num_hidden_layers is missing"),
        ({"num_hidden_layers": "2"}, "num_hidden_layers must be one int, got '2'"),
        ({"num_hidden_layers": 3}, r"tensor model\.layers\.2\.self_attn\.q_proj\.weight is missing"),
        ({"num_attention_heads": 0}, "heads must be at least 1, got 0"),
        ({"vocab_size": 999}, r"embed_tokens\.weight must have shape \(999, 64\), got"),
        ({"vocab_size": 7}, "tokens of begin and end must be >= 0 and < 7, got 263"),
        ({"rms_norm_eps": -1.0}, "epsilon must be > 0"),
        ({"embedding_multiplier": 12.0}, "the key embedding_multiplier is not supported, got 12.0"),
        ({"attn_logit_softcapping": 50.0}, "attn_logit_softcapping is not supported"),
        ({"num_local_experts": 8}, "num_local_experts is not supported"),
        ({"no_rope_layers": [1, 0]}, "no_rope_layers is not supported"),
        ({"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.25}}, "partial_rotary_factor must be 1"),
        ({"rope_scaling": {"type": "linear", "factor": 2, "mscale": 2}}, "the rotary embedding's key mscale"),
        ({"rope_scaling": {"type": "linear", "factor": 0}}, "factor of rope_scaling must be > 0 and finite, got 0"),
        ({"rope_theta": float("inf")}, "rope_base must be > 0 and finite, got inf"),
        ({"eos_token_id": {"a": 1}}, "eos_token_id must be a number or a list of numbers"),
        ({"num_hidden_layers": 1}, r"the tensor model\.layers\.1\..* is not known; it is no part of a network of 1"),
    ],
)
def test_unsupported_networks(tmp_path, changes, message):
    path = tiny.write_directory(tmp_path / "m", **changes)
    with pytest.raises(ValueError, match=message) as raised:
        open_checkpoint(path)
    assert str(path) in str(raised.value)


def test_a_network_is_refused_before_a_weight_is_read(tmp_path, monkeypatch):
    weights = tiny.random_weights(tiny.CONFIG)
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    path = tiny.write_directory(tmp_path / "m", weights=weights)
    reads = []
    read = SafetensorsFile.read
    monkeypatch.setattr(SafetensorsFile, "read", lambda file, name: reads.append(name) or read(file, name))
    open_checkpoint(path)  # compares the last product with the embedding
    assert "lm_head.weight" in reads
    reads.clear()
    tiny.write_directory(path, weights=weights, rope_scaling={"rope_type": "dynamic", "factor": 2})
    with pytest.raises(ValueError, match="got 'dynamic'"):
        open_checkpoint(path)
    assert not reads


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("config.json", lambda data: b"{", r"config\.json: this is no JSON"),
        ("config.json", lambda data: b"[]", "must be a JSON object"),
        ("config.json", lambda data: None, r"config\.json: the file is missing"),
        ("model-00002-of-00002.safetensors", lambda data: None, r"the file is missing; model\.safetensors\.index"),
        ("model-00002-of-00002.safetensors", lambda data: b"", "no safetensors file, or it is truncated: it has 0"),
        ("model-00002-of-00002.safetensors", lambda data: data[:100], "no safetensors file, or it is truncated"),
        ("model-00002-of-00002.safetensors", lambda data: data[:-1], "truncated: tensor .* ends at byte"),
        ("model-00002-of-00002.safetensors", lambda data: bytes(len(data)), "header cannot be read"),
        ("model.safetensors.index.json", lambda data: b'{"weight_map": {"x": "../x"}}', "must lie beside it"),
        ("model.safetensors.index.json", lambda data: b"{}", "weight_map must name the file"),
        (
            "model.safetensors.index.json",
            lambda data: b'{"weight_map": {"x": "model-00001-of-00002.safetensors"}}',
            "the tensor x is missing; model.safetensors.index.json says",
        ),
    ],
)
def test_bad_files(tmp_path, file, change, message):
    path = tiny.write_directory(tmp_path / "m", files=2)
    data = change((path / file).read_bytes())
    (path / file).unlink()
    if data is not None:
        (path / file).write_bytes(data)
    with pytest.raises(ValueError, match=message):
        open_checkpoint(path)


def test_no_weights(tmp_path):
    path = tiny.write_directory(tmp_path / "m")
    (path / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"neither model\.safetensors nor model\.safetensors\.index\.json"):
        open_checkpoint(path)


def test_nothing_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no such file or directory"):
        open_checkpoint(tmp_path / "m")


@pytest.mark.parametrize("dtype", [None, np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("kind", ["Q4_1", "Q8_0", "F16"])
def test_conversion(tmp_path, kind, dtype):
    """What is written can be read again: as it was, or in another float type."""
    source = open_checkpoint(tiny.write_gguf(tmp_path / "m.gguf", kind=kind))
    write_directory(source, tmp_path / "m", None if dtype is None else np.dtype(dtype))
    target = open_checkpoint(tmp_path / "m")
    assert target.config == source.config
    assert target.chat_template == source.chat_template
    for name in tiny.random_weights(tiny.CONFIG):
        expected = source.array(name)
        if dtype is not None:
            expected = expected.astype(dtype).astype(np.float32)
        np.testing.assert_array_equal(target.array(name), expected, err_msg=name)
        assert isinstance(target.weight(name), type(source.weight(name)) if dtype is None else np.ndarray)
    if dtype is None and kind != "F16":
        assert isinstance(target.weight("model.layers.0.mlp.up_proj.weight"), QuantizedMatrix)
    text = "hello world <|im_start|> ä"
    assert target.make_tokenizer().encode(text) == source.make_tokenizer().encode(text)


def test_conversion_leaves_nothing_behind(tmp_path):
    """A tensor that cannot be read: neither the directory nor a piece of it is there."""
    source = open_checkpoint(tiny.write_gguf(tmp_path / "m.gguf"))
    read = source.read

    def fails(name):
        if "down_proj" in name:
            raise ValueError("unreadable")
        return read(name)

    source.read = fails
    with pytest.raises(ValueError, match="unreadable"):
        write_directory(source, tmp_path / "m", np.dtype(np.float32))
    assert [file.name for file in tmp_path.iterdir()] == ["m.gguf"]


def test_conversion_overwrites_nothing(tmp_path):
    source = open_checkpoint(tiny.write_gguf(tmp_path / "m.gguf"))
    (tmp_path / "m").mkdir()
    with pytest.raises(FileExistsError, match="it is there already"):
        write_directory(source, tmp_path / "m", None)
    assert not list((tmp_path / "m").iterdir())
