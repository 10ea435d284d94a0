"""Every type of weights that GGUF files have, against the numbers that llama.cpp's own package makes of it."""

from dataclasses import replace

import gguf
import numpy as np
import pytest
from gguf.quants import dequantize

from ms_ascend_ops.llm.checkpoints import open_checkpoint
from ms_ascend_ops.llm.checkpoints.gguf_types import floats_of, matrix_of, readable, stays_quantized
from ms_ascend_ops.llm.checkpoints.quantized import QuantizedMatrix
from ms_ascend_ops.llm.executor import Chunk, ProgramExecutor
from ms_ascend_ops.llm.linear import QuantizedLinear
from ms_ascend_ops.llm.network import load_network
from tests.llm import reference, tiny

# Where a block has its scale of float16, where a minimum, and how large that is beside the scale so that elements are
# around 0. What the others of its bytes mean does not matter: any are allowed.
SCALES = {
    "Q8_0": {0: 1}, "Q4_0": {0: 1}, "Q4_1": {0: 1, 2: -7.5}, "Q5_0": {0: 1}, "Q5_1": {0: 1, 2: -15.5},
    "Q2_K": {80: 1, 82: 1.5}, "Q3_K": {108: 1}, "Q4_K": {0: 1, 2: 7.5}, "Q5_K": {0: 1, 2: 15.5}, "Q6_K": {208: 1},
    "IQ4_NL": {0: 1}, "IQ4_XS": {0: 1}, "IQ3_S": {0: 1}, "TQ2_0": {64: 1},
}  # fmt: skip
BITS_AND_GROUP = {
    "Q8_0": (8, 32), "Q4_0": (4, 32), "Q4_1": (4, 32), "Q5_0": (8, 32), "Q5_1": (8, 32), "Q2_K": (4, 16),
    "Q3_K": (4, 16), "Q4_K": (4, 32), "Q5_K": (8, 32), "Q6_K": (8, 16), "IQ4_NL": (8, 32), "IQ4_XS": (8, 32),
}  # fmt: skip
WIDE = replace(tiny.CONFIG, layers=1, hidden=256, feed_forward=256, head_size=64)
# As llama.cpp's Q4_K_M has them.
MIXED = {"v_proj": "Q6_K", "down_proj": "Q6_K", "embed_tokens": "Q6_K"}


def random_rows(kind, rows, columns, seed=0):
    """Rows of bytes of matrices whose elements are about columns^-0.5 large."""
    rng = np.random.default_rng(seed)
    its = gguf.GGMLQuantizationType[kind]
    elements, size = gguf.GGML_QUANT_SIZES[its]
    blocks = rng.integers(0, 256, (rows * columns // elements, size), dtype=np.uint8)

    def scaled(scale):
        for at, factor in SCALES[kind].items():
            values = scale * factor * rng.uniform(0.5, 1, (len(blocks), 1))
            blocks[:, at : at + 2] = values.astype("<f2").view(np.uint8)
        return blocks.reshape(rows, -1)

    size = np.sqrt(np.square(dequantize(scaled(1), its)).mean())
    return scaled(columns**-0.5 / size)


@pytest.mark.parametrize("kind", SCALES)
def test_numbers(kind):
    """To the bit, as floats and as integers with scales."""
    data = random_rows(kind, 5, 768)
    expected = dequantize(data, gguf.GGMLQuantizationType[kind])
    np.testing.assert_array_equal(floats_of(kind, data), expected)
    assert stays_quantized(kind) == (kind in BITS_AND_GROUP)
    if stays_quantized(kind):
        matrix = matrix_of(kind, data)
        assert (matrix.bits, matrix.group) == BITS_AND_GROUP[kind]
        np.testing.assert_array_equal(matrix.dequantized(), expected)


def test_which_are_read():
    assert {"F32", "BF16", "IQ1_S", "IQ2_XXS", "MXFP4", *SCALES} <= set(readable())
    assert not {"Q8_K", "I32"} & set(readable())


def write(path, kinds, config=WIDE):
    """A file whose matrices have types by the last part of their names; returns their numbers, too."""
    weights = tiny.random_weights(config)
    numbers = dict(weights)
    for seed, (name, value) in enumerate(weights.items()):
        if value.ndim == 2:
            kind = kinds.get(name.split(".")[-2], kinds["others"])
            data = random_rows(kind, *value.shape, seed)
            numbers[name] = dequantize(data, gguf.GGMLQuantizationType[kind])
            weights[name] = (data, gguf.GGMLQuantizationType[kind])
    return tiny.write_gguf(path, config, weights), tiny.doubles(numbers)


@pytest.mark.parametrize("kind", ["Q4_K", "Q5_K", "Q2_K", "Q3_K", "IQ4_XS"])
def test_networks(tmp_path, kind):
    """Prompts and single tokens, with float activations and rounded ones, whose matrices have two types."""
    path, weights = write(tmp_path / "m.gguf", MIXED | {"others": kind})
    checkpoint = open_checkpoint(path)
    for name, value in weights.items():
        np.testing.assert_array_equal(checkpoint.array(name), value, err_msg=name)
    tokens = np.random.default_rng(1).integers(0, WIDE.vocabulary, 12).tolist()
    expected = reference.logits(WIDE, weights, tokens)
    for rounding, tolerance in (("none", 1e-4), ("int8", 0.03)):
        network = load_network(checkpoint, quantized=True, quantize_x=rounding)
        layer = network.layers[0]
        assert all(isinstance(one, QuantizedLinear) for one in (*layer.products, layer.gate_up, layer.down))
        runs = ProgramExecutor(network, 2, 64)
        prompt = runs.step([Chunk(tokens[:-1], 0, [0])], True)
        token = runs.step([Chunk(tokens[-1:], 11, [0])])
        largest = np.abs(expected).max()
        np.testing.assert_allclose(prompt, expected[:-1], rtol=0, atol=tolerance * largest)
        np.testing.assert_allclose(token[0], expected[-1], rtol=0, atol=tolerance * largest)


def test_types_that_become_floats(tmp_path):
    path, weights = write(tmp_path / "m.gguf", {"others": "Q6_K", "down_proj": "IQ3_S"})
    checkpoint = open_checkpoint(path)
    assert isinstance(checkpoint.weight("model.layers.0.mlp.down_proj.weight"), np.ndarray)
    assert isinstance(checkpoint.weight("model.layers.0.mlp.up_proj.weight"), QuantizedMatrix)
    assert checkpoint.note == f"{path}: IQ3_S (0.0 MiB) become floats, which take 0.2 MiB as float32"
    tokens = [1, 2, 3]
    logits = ProgramExecutor(load_network(checkpoint, quantized=True), 2, 64).step([Chunk(tokens, 0, [0])], True)
    expected = reference.logits(WIDE, weights, tokens)
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


def test_a_part_of_a_matrix(tmp_path):
    """Of rows any, of columns whole groups."""
    path, weights = write(tmp_path / "m.gguf", {"others": "Q6_K"})
    checkpoint, name = open_checkpoint(path), "model.layers.0.mlp.down_proj.weight"
    part = checkpoint.weight(name, slice(3, 9), slice(48, 80))
    np.testing.assert_array_equal(part.dequantized(np.float64), weights[name][3:9, 48:80])
    with pytest.raises(ValueError, match=r"blk\.0\.ffn_down\.weight: columns 8 to 80 would cut a group of 16"):
        checkpoint.weight(name, slice(3, 9), slice(8, 80))


def test_rows_that_are_no_blocks(tmp_path):
    weights = tiny.random_weights(tiny.CONFIG)
    weights["model.layers.0.mlp.up_proj.weight"] = random_rows("Q4_K", 96, 256), gguf.GGMLQuantizationType.Q4_K
    path = tiny.write_gguf(tmp_path / "m.gguf", weights=weights)
    with pytest.raises(ValueError, match=r"blk\.0\.ffn_up\.weight must have shape \(96, 64\), got \(96, 256\)"):
        open_checkpoint(path)


def test_files_in_parts(tmp_path):
    """gguf-split cuts a model; the first part names the others."""
    weights = tiny.random_weights(tiny.CONFIG)
    tiny.write_gguf(tmp_path / "m.gguf", weights=weights)
    paths = [tmp_path / f"m-{part:05}-of-00003.gguf" for part in (1, 2, 3)]
    for index, path in enumerate(paths):
        held = list(weights)[index::3]
        split = {"split.no": index, "split.count": 3, "split.tensors.count": len(weights)}
        tiny.write_gguf(path, weights={name: weights[name] for name in held}, fields=split)
    checkpoint, whole = open_checkpoint(paths[0]), open_checkpoint(tmp_path / "m.gguf")
    assert checkpoint.config == whole.config
    for name in weights:
        np.testing.assert_array_equal(checkpoint.array(name), whole.array(name), err_msg=name)
    # Later parts may have nothing of the network, as gguf-split writes them.
    writer = gguf.GGUFWriter(str(tmp_path / "n-00002-of-00003.gguf"), "")
    for key, value in (("split.no", 1), ("split.count", 3)):
        writer.add_uint16(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    for path in (paths[1], tmp_path / "n-00002-of-00003.gguf"):
        with pytest.raises(ValueError, match=r"split\.no is 1: this is part 2 of 3; open .-00001-of-00003\.gguf"):
            open_checkpoint(path)
    paths[1].rename(tmp_path / "elsewhere.gguf")
    with pytest.raises(ValueError, match=r"m-00002-of-00003\.gguf: the file is missing"):
        open_checkpoint(paths[0])
    paths[0].rename(tmp_path / "renamed.gguf")
    with pytest.raises(ValueError, match=r"split\.count is 3, but the name does not end with -00001-of-00003\.gguf"):
        open_checkpoint(tmp_path / "renamed.gguf")
