"""Checkpoints that other tools quantized: what is read, and the logits, against the matrices that the layouts mean."""

import json
from functools import partial

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from ms_ascend_ops.llm.checkpoints import open_checkpoint
from ms_ascend_ops.llm.checkpoints.quantized import QuantizedMatrix
from ms_ascend_ops.llm.checkpoints.safetensors_file import write_safetensors
from ms_ascend_ops.llm.checkpoints.writer import write_directory
from ms_ascend_ops.llm.executor import Chunk, ProgramExecutor
from ms_ascend_ops.llm.linear import FloatLinear, QuantizedLinear
from ms_ascend_ops.llm.network import load_network
from tests.acceptance import assert_close
from tests.llm import packed, reference, tiny
from tests.llm.test_network import DTYPES, close, ids

DOWN = "model.layers.0.mlp.down_proj"


def order(columns):
    return np.random.default_rng(columns).permutation(columns)


def ordered(pack, **settings):
    return lambda name, weight: pack(name, weight, order=order(weight.shape[1]), **settings)


def groups_of(bits, strategy="group"):
    return {"config_groups": {"group_0": {"targets": ["Linear"], "weights": {
        "num_bits": bits, "type": "int", "strategy": strategy}}}}  # fmt: skip


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm", "zero_point": True}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False}
PACKED = {"quant_method": "compressed-tensors", "format": "pack-quantized"}
# name: settings of the file, the layout, whether the matrices stay quantized
LAYOUTS = {
    "awq": (AWQ, packed.awq, True),
    "awq, groups of 16": (AWQ | {"group_size": 16}, partial(packed.awq, group=16), True),
    "awq, groups of 8": (AWQ | {"group_size": 8}, partial(packed.awq, group=8), False),  # no groups of the product
    "awq, whole rows": (AWQ | {"group_size": -1}, partial(packed.awq, group=-1), True),
    "gptq": (GPTQ, packed.gptq, True),
    "gptq, symmetric, no g_idx": (GPTQ, partial(packed.gptq, symmetric=True, index=False), True),
    "gptq, version 2": (GPTQ | {"checkpoint_format": "gptq_v2"}, partial(packed.gptq, version=2), True),
    "gptq, 8 bits": (GPTQ | {"bits": 8}, partial(packed.gptq, bits=8), True),
    "gptq, act-order": (GPTQ | {"desc_act": True}, ordered(packed.gptq, group=32), False),
    "gptq, act-order, 8 bits": (GPTQ | {"bits": 8}, ordered(packed.gptq, group=32, bits=8), False),
    "compressed, 4 bits": (PACKED | groups_of(4), packed.compressed, True),
    "compressed, zero points": (PACKED | groups_of(4), partial(packed.compressed, symmetric=False), True),
    "compressed, old zero points": (PACKED | groups_of(4), partial(packed.compressed, symmetric=False, old=True), True),
    "compressed, 8 bits": (PACKED | groups_of(8), partial(packed.compressed, bits=8, symmetric=False), True),
    "compressed, 8 bits a row": (
        PACKED | groups_of(8, "channel"), partial(packed.compressed, bits=8, group=-1, dtype=np.float16), True,
    ),
    "compressed, act-order": (PACKED | groups_of(4), ordered(packed.compressed, group=32, symmetric=False), False),
    "integers": (PACKED | groups_of(8, "channel") | {"format": "int-quantized"}, packed.integers, True),
    "integers, zero points": (PACKED | {"format": "int-quantized"}, partial(packed.integers, symmetric=False), True),
}  # fmt: skip


def write(path, settings, pack, config=tiny.CONFIG, change=None):
    """A directory in a layout, and its weights in float64."""
    tensors, matrices = packed.model(tiny.random_weights(config), pack)
    tiny.write_directory(path, config, {}, quantization_config=settings)
    if change is not None:
        change(tensors)
    write_safetensors(
        path / "model.safetensors", {name: (value.dtype, value.shape) for name, value in tensors.items()},
        tensors.__getitem__, {"format": "pt"},
    )  # fmt: skip
    return path, matrices


@pytest.mark.parametrize("layout", LAYOUTS)
def test_weights(tmp_path, layout):
    settings, pack, stays = LAYOUTS[layout]
    path, matrices = write(tmp_path / "m", settings, pack)
    checkpoint = open_checkpoint(path)
    for name, matrix in matrices.items():
        np.testing.assert_allclose(checkpoint.array(name), matrix, rtol=1e-6, atol=1e-7, err_msg=name)
        if name.endswith("proj.weight"):
            assert checkpoint.shapes[name] == matrix.shape
            assert checkpoint.weight(name).shape == matrix.shape
            if "groups of 8" not in layout:
                assert isinstance(checkpoint.weight(name), QuantizedMatrix) == stays


@pytest.mark.parametrize("layout", LAYOUTS)
def test_logits(tmp_path, layout):
    """Zero points are exact in the product, so all of the difference is that of float32."""
    settings, pack, stays = LAYOUTS[layout]
    path, matrices = write(tmp_path / "m", settings, pack)
    network = load_network(open_checkpoint(path), quantized=True)
    layer = network.layers[1]
    for linear in (layer.products[0], layer.output, layer.gate_up, layer.down):
        assert isinstance(linear, QuantizedLinear if stays else FloatLinear)
    runs = ProgramExecutor(network, 16, 64)
    tokens = ids(20)
    expected = reference.logits(tiny.CONFIG, matrices, tokens)
    close(runs.step([Chunk(tokens, 0, [0])], True), expected)
    close(runs.step([Chunk(tokens[-1:], 19, [0])])[0], expected[-1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("layout", ["awq", "compressed, zero points"])
def test_half_precision(tmp_path, layout, dtype):
    settings, pack, _ = LAYOUTS[layout]
    path, matrices = write(tmp_path / "m", settings, pack)
    runs = ProgramExecutor(load_network(open_checkpoint(path), DTYPES[dtype], quantized=True), 16, 64)
    tokens = ids(20)
    close(runs.step([Chunk(tokens, 0, [0])], True), reference.logits(tiny.CONFIG, matrices, tokens), dtype)


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3", "mistral"])
@pytest.mark.parametrize("layout", ["awq", "gptq, act-order"])
def test_architectures(tmp_path, architecture, layout):
    """Biases, norms of heads, and a head of its own, which stays as floats."""
    config = tiny.VARIANTS[architecture]
    settings, pack, _ = LAYOUTS[layout]
    path, matrices = write(tmp_path / "m", settings, pack, config)
    runs = ProgramExecutor(load_network(open_checkpoint(path), quantized=True), 16, 64)
    tokens = ids(20)
    close(runs.step([Chunk(tokens, 0, [0])], True), reference.logits(config, matrices, tokens))


@pytest.mark.parametrize("layout", ["awq", "gptq, act-order", "compressed, 8 bits", "integers"])
@pytest.mark.parametrize("dtype", [None, np.float16])
def test_conversion(tmp_path, layout, dtype):
    settings, pack, _ = LAYOUTS[layout]
    source = open_checkpoint(write(tmp_path / "m", settings, pack)[0])
    write_directory(source, tmp_path / "out", None if dtype is None else np.dtype(dtype))
    target = open_checkpoint(tmp_path / "out")
    for name in tiny.random_weights(tiny.CONFIG):
        expected = source.array(name) if dtype is None else source.array(name, dtype).astype(np.float32)
        np.testing.assert_array_equal(target.array(name), expected, err_msg=name)
        if dtype is None:
            assert isinstance(target.weight(name), type(source.weight(name)))


@pytest.mark.parametrize(
    ("file", "settings", "pack"),
    [
        ("quant_config.json", {"w_bit": 4, "q_group_size": 32, "zero_point": True, "version": "GEMM"}, packed.awq),
        ("quantize_config.json", {"bits": 4, "group_size": 32, "desc_act": False}, packed.gptq),
    ],
)
def test_settings_in_a_file_of_their_own(tmp_path, file, settings, pack):
    path, matrices = write(tmp_path / "m", None, pack)
    (path / file).write_text(json.dumps(settings))
    assert_close(open_checkpoint(path).array(f"{DOWN}.weight"), matrices[f"{DOWN}.weight"], atol=1e-6)
    (path / file).write_text(json.dumps(settings | {"bits": 3, "w_bit": 3}))
    with pytest.raises(ValueError, match=rf"{file}: quantization_config\.bits must be 4"):
        open_checkpoint(path)


def test_large_groups():
    """Groups of more than 1024 columns are several of the product's."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (4, 3 * 1056), np.uint8)  # 33 x 32 columns twice: pieces of 11 x 32 and 3 x 32
    scale = rng.random((4, 3)).astype(ml_dtypes.bfloat16)
    matrix = QuantizedMatrix(codes, scale, zero=rng.integers(0, 16, (4, 3)).astype(np.int16))
    numbers, products, offset = matrix.for_product()
    group = matrix.shape[1] // products.shape[1]
    assert group % 32 == 0
    assert group <= 1024
    values = np.stack([numbers << 4 >> 4, numbers >> 4], -1).reshape(4, -1).astype(np.float64)
    result = (values + np.repeat(offset, group, 1)) * np.repeat(products.astype(np.float64), group, 1)
    np.testing.assert_array_equal(result, matrix.dequantized(np.float64))


def test_biases_that_are_zero(tmp_path):
    """As AutoGPTQ adds them to layers that have none; others are refused as ever."""

    def change(tensors, value=0):
        for part in ("mlp.down_proj", "mlp.gate_proj", "self_attn.o_proj"):
            name = f"model.layers.0.{part}"
            tensors[f"{name}.bias"] = np.full(tensors[f"{name}.scales"].shape[1], value, np.float16)

    path, matrices = write(tmp_path / "m", GPTQ, packed.gptq, change=change)
    checkpoint = open_checkpoint(path)
    assert checkpoint.config == tiny.CONFIG
    runs = ProgramExecutor(load_network(checkpoint, quantized=True), 16, 64)
    close(runs.step([Chunk(ids(9), 0, [0])], True), reference.logits(tiny.CONFIG, matrices, ids(9)))
    path, _ = write(tmp_path / "n", GPTQ, packed.gptq, change=partial(change, value=1))
    with pytest.raises(ValueError, match="biases in the feed-forward layer are not supported"):
        open_checkpoint(path)


def without(name):
    return lambda tensors: tensors.pop(f"{DOWN}.{name}")


def cut(name, *sizes):
    def change(tensors):
        part = tensors[f"{DOWN}.{name}"]
        tensors[f"{DOWN}.{name}"] = part[tuple(slice(size) for size in sizes)].copy()

    return change


def put(name, value):
    return lambda tensors: tensors.update({f"{DOWN}.{name}": value})


C4 = PACKED | groups_of(4)
BAD = [
    (AWQ | {"version": "gemv"}, packed.awq, None, r"config\.json: .*\.version must be gemm, got 'gemv'"),
    (AWQ | {"bits": 8}, packed.awq, None, r"\.bits must be 4, got 8"),
    (AWQ | {"group_size": 0}, packed.awq, None, r"\.group_size must be -1 or at least 1, got 0"),
    (AWQ | {"group_size": True}, packed.awq, None, r"\.group_size must be -1 or at least 1, got True"),
    (AWQ | {"group_size": 40}, packed.awq, None, "group_size must divide the columns of the matrix, got 40 and 64"),
    (AWQ | {"group_size": 16}, packed.awq, None, r"qzeros must be int32 of shape \(4, 8\), got .* \(2, 8\)"),
    (AWQ, packed.awq, cut("qweight", None, 7), r"down_proj\.qzeros must be int32 of shape \(3, 7\), got .* \(3, 8\)"),
    (AWQ, packed.awq, cut("qweight", 64), r"down_proj\.qzeros must be int32 of shape \(2, 8\)"),
    (AWQ, packed.awq, cut("scales", 2), r"scales must be float16 or bfloat16 or float32 of shape \(3, 64\)"),
    (AWQ, packed.awq, without("qzeros"), r"the tensor model\.layers\.0\.mlp\.down_proj\.qzeros is missing"),
    (AWQ, packed.awq, without("qweight"), r"the tensor model\.layers\.0\.mlp\.down_proj\.weight is missing"),
    (AWQ, packed.awq, put("qweight", np.zeros((96, 8), np.float32)), r"qweight must be a matrix of int32, got float32"),
    (GPTQ | {"bits": 3}, packed.gptq, None, r"\.bits must be 4 or 8, got 3"),
    (GPTQ | {"bits": None}, packed.gptq, None, r"\.bits must be 4 or 8, got None"),
    (GPTQ | {"bits": 8}, packed.gptq, None, r"qzeros must be int32 of shape \(1, 16\), got"),
    (GPTQ | {"checkpoint_format": "marlin"}, packed.gptq, None, "checkpoint_format must be gptq or gptq_v2, got 'm"),
    (GPTQ | {"is_marlin_format": True}, packed.gptq, None, "is_marlin_format must be False, got True"),
    (GPTQ | {"dynamic": {"+:.*": {"bits": 8}}}, packed.gptq, None, "settings of single modules are not supported"),
    (GPTQ, packed.gptq, cut("g_idx", 95), r"down_proj\.g_idx must be int32 of shape \(96,\), got .* \(95,\)"),
    (GPTQ, packed.gptq, cut("qweight", 8), r"down_proj\.qzeros must be int32 of shape \(2, 8\)"),
    (C4 | {"format": "marlin-24"}, packed.compressed, None, "format must be pack-quantized or int-quantized, got 'm"),
    (PACKED | groups_of(3), packed.compressed, None, r"group_0\.weights\.num_bits must be 4 or 8, got 3"),
    (PACKED | groups_of(4, "block"), packed.compressed, None, r"strategy must be group or channel or None, got"),
    (PACKED | {"config_groups": {"a": 3}}, packed.compressed, None, r"config_groups\.a\.weights must be an object"),
    (PACKED | {"config_groups": [1]}, packed.compressed, None, r"config_groups must be an object, got \[1\]"),
    (C4, packed.compressed, cut("weight_packed", None, 11), r"packed of shape \(64, 11\) does not fit .* \(64, 96\)"),
    (C4, packed.compressed, cut("weight_packed", 63), r"weight_packed of shape \(63, 12\) does not fit"),
    (C4, packed.compressed, without("weight_shape"), r"down_proj\.weight_shape is missing"),
    (C4, packed.compressed, without("weight_scale"), r"down_proj\.weight_scale is missing"),
    (C4, packed.compressed, cut("weight_scale", 7), r"weight_scale must be .* of shape \(64, groups\), where"),
    (C4, packed.compressed, put("weight_zero_point", np.zeros((7, 3), np.int32)), r"must be int32 of shape \(8, 3\)"),
    (C4, packed.compressed, put("weight_g_idx", np.zeros(5, np.int32)), r"weight_g_idx must be int32 or int64"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "pack", "change", "message"), BAD)
def test_refused(tmp_path, settings, pack, change, message):
    path, _ = write(tmp_path / "m", settings, pack, change=change)
    with pytest.raises(ValueError, match=message) as raised:
        open_checkpoint(path)
    assert str(raised.value).startswith(str(path))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("layout", "part"), [("gptq, act-order", "g_idx"), ("compressed, act-order", "weight_g_idx")])
@pytest.mark.parametrize("bad", [-1, 3])
def test_groups_that_are_not_there(tmp_path, layout, part, bad):
    settings, pack, _ = LAYOUTS[layout]

    def change(tensors):
        tensors[f"{DOWN}.{part}"][5] = bad

    checkpoint = open_checkpoint(write(tmp_path / "m", settings, pack, change=change)[0])
    with pytest.raises(ValueError, match=rf"down_proj\.{part} must be from 0 to 2, got"):
        load_network(checkpoint)


def test_files_of_the_package(tmp_path):
    """What the package of safetensors writes, integers among it, is read alike."""
    tensors, matrices = packed.model(tiny.random_weights(tiny.CONFIG), packed.awq)
    path = tiny.write_directory(tmp_path / "m", tiny.CONFIG, {}, quantization_config=AWQ)
    save_file(tensors, path / "model.safetensors")
    assert_close(open_checkpoint(path).array(f"{DOWN}.weight"), matrices[f"{DOWN}.weight"], atol=1e-6)
