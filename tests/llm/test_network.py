"""The network on the kernels against a decoder in float64 (reference.py)."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from ms_ascend_ops.llm.checkpoints import open_checkpoint
from ms_ascend_ops.llm.checkpoints.quantized import QuantizedMatrix
from ms_ascend_ops.llm.config import RopeScaling
from ms_ascend_ops.llm.executor import BLOCK, Chunk, ProgramExecutor
from ms_ascend_ops.llm.linear import QuantizedLinear
from ms_ascend_ops.llm.network import load_network
from ms_ascend_ops.llm.rope import frequencies
from ms_ascend_ops.quantization import dequantize_weight
from tests.llm import reference, tiny

# Of the largest logit. Two layers; float32 rounds to 6e-8, half precision to 5e-4 and 4e-3, several times a layer.
TOLERANCE = {"float32": 2e-5, "float16": 2e-2, "bfloat16": 1e-1}
DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def executor(tmp_path, config=tiny.CONFIG, dtype="float32", chunk=64, blocks=16, cache_dtype=None):
    weights = tiny.random_weights(config)
    checkpoint = open_checkpoint(tiny.write_directory(tmp_path / "m", config, weights))
    network = load_network(checkpoint, DTYPES[dtype])
    return ProgramExecutor(network, blocks, config.context, chunk, cache_dtype), tiny.doubles(weights)


def close(actual, expected, dtype="float32"):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE[dtype] * np.abs(expected).max())


def ids(count, seed=0):
    return np.random.default_rng(seed).integers(0, tiny.CONFIG.vocabulary, count).tolist()


@pytest.mark.parametrize("architecture", tiny.VARIANTS)
def test_prompt(tmp_path, architecture):
    config = tiny.VARIANTS[architecture]
    runs, weights = executor(tmp_path, config)
    tokens = ids(40)
    expected = reference.logits(config, weights, tokens)
    close(runs.step([Chunk(tokens, 0, [3, 4])], every_row=True), expected)
    close(runs.step([Chunk(tokens, 0, [7, 2])])[0], expected[-1])


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(tmp_path, dtype):
    runs, weights = executor(tmp_path, dtype=dtype)
    tokens = ids(33)
    close(runs.step([Chunk(tokens, 0, [0, 1])], True), reference.logits(tiny.CONFIG, weights, tokens), dtype)


@pytest.mark.parametrize(("dtype", "kept"), [("float32", "float16"), ("float32", "bfloat16"), ("bfloat16", "float16")])
def test_a_cache_of_another_type(tmp_path, dtype, kept):
    """It rounds keys, values, queries and what attention gives, and nothing else."""
    runs, weights = executor(tmp_path, dtype=dtype, cache_dtype=DTYPES[kept])
    assert runs._caches[0][0].dtype == DTYPES[kept]
    tokens = ids(33)
    runs.step([Chunk(tokens[:32], 0, [0, 1])])
    logits = runs.step([Chunk(tokens[32:], 32, [0, 1])])
    worse = max(dtype, kept, key=TOLERANCE.get)
    close(logits, reference.logits(tiny.CONFIG, weights, tokens)[-1:], worse)


@pytest.mark.parametrize("count", [1, 2, 5, 8, 9, 17, 31, 32, 33, 64])  # of programs and blocks, and between them
def test_lengths(tmp_path, count):
    runs, weights = executor(tmp_path)
    tokens = ids(count)
    close(runs.step([Chunk(tokens, 0, [5, 6])], True), reference.logits(tiny.CONFIG, weights, tokens))


@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_token_by_token_equals_prompt(tmp_path, architecture):
    """Also in pieces; across the borders of blocks, which do not follow each other."""
    config = tiny.VARIANTS[architecture]
    runs, weights = executor(tmp_path, config)
    tokens = ids(70)
    expected = reference.logits(config, weights, tokens)
    blocks = [9, 1, 14]
    single = [runs.step([Chunk(tokens[i : i + 1], i, blocks)])[0] for i in range(70)]
    close(single, expected)
    pieces = [runs.step([Chunk(tokens[a:b], a, [2, 0, 11])], True) for a, b in ((0, 30), (30, 33), (33, 64), (64, 70))]
    close(np.concatenate(pieces), expected)


def test_batch_equals_single(tmp_path):
    """Sequences of different lengths, to the bit: products of up to 8 rows calculate a row as if it were alone."""
    runs, weights = executor(tmp_path)
    prompts = [ids(count, seed) for seed, count in enumerate((3, 40, 1, 33, 20))]
    own = [[2 * row, 2 * row + 1] for row in range(5)]
    for prompt, blocks in zip(prompts, own, strict=True):
        runs.step([Chunk(prompt, 0, blocks)])
    following = ids(5, 9)
    chunks = [Chunk([t], len(p), b) for t, p, b in zip(following, prompts, own, strict=True)]
    together = runs.step(chunks)
    for row, (chunk, prompt) in enumerate(zip(chunks, prompts, strict=True)):
        np.testing.assert_array_equal(together[row], runs.step([chunk])[0])
        close(together[row], reference.logits(tiny.CONFIG, weights, [*prompt, *chunk.tokens])[-1])


def test_padding_touches_no_block(tmp_path):
    """Sequences that a batch is padded with write nothing, and what the others have in the cache stays."""
    runs, _ = executor(tmp_path)
    runs.step([Chunk(ids(20), 0, [0])])
    before = [(keys.copy(), values.copy()) for keys, values in runs._caches]
    runs.step([Chunk(ids(5), 0, [3])])
    for (keys, values), (old_keys, old_values) in zip(runs._caches, before, strict=True):
        np.testing.assert_array_equal(np.delete(keys, 3, 0), np.delete(old_keys, 3, 0))
        np.testing.assert_array_equal(np.delete(values, 3, 0), np.delete(old_values, 3, 0))


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_1"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_that_stay_quantized(tmp_path, kind, dtype):
    """Against the matrices as the operator has them: what a file says, with the offset rounded."""
    checkpoint = open_checkpoint(tiny.write_gguf(tmp_path / "m.gguf", kind=kind))
    network = load_network(checkpoint, DTYPES[dtype], quantized=True)
    assert isinstance(network.head, QuantizedLinear)
    weights = tiny.doubles({name: rounded(checkpoint.weight(name)) for name in checkpoint.shapes})
    # Rows of the embedding are read as the file has them.
    weights["model.embed_tokens.weight"] = checkpoint.array("model.embed_tokens.weight").astype(np.float64)
    config = replace(tiny.CONFIG, tied_embedding=False)
    weights["lm_head.weight"] = rounded(checkpoint.weight("model.embed_tokens.weight")).astype(np.float64)
    runs = ProgramExecutor(network, 16, 64)
    tokens = ids(20)
    expected = reference.logits(config, weights, tokens)
    close(runs.step([Chunk(tokens, 0, [0])], True), expected, dtype)
    close(runs.step([Chunk(tokens[-1:], 19, [0])])[0], expected[-1], dtype)


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1"])
def test_rounded_activations(tmp_path, kind):
    """Logits change a little, those of prompts as those of single tokens; of four sequences each has its own."""
    checkpoint = open_checkpoint(tiny.write_gguf(tmp_path / "m.gguf", kind=kind))
    exact, fast = (
        ProgramExecutor(load_network(checkpoint, quantized=True, quantize_x=how), 16, 64) for how in ("none", "int8")
    )
    tokens = ids(20)
    prompt = [Chunk(tokens, 0, [0])]
    for chunk in (prompt, [Chunk(tokens[-1:], 19, [0])]):
        expected, alone = exact.step(chunk, True), fast.step(chunk, True)
        error = np.abs(alone - expected).max()
        # A step is 1/127 of the largest of 32 activations, and errors of some hundred of them add up at random.
        assert 0 < error < 0.03 * np.abs(expected).max()
    for block in range(1, 4):
        fast.step([Chunk(tokens[:19], 0, [block])])
    together = fast.step([Chunk(tokens[-1:], 19, [block]) for block in range(4)])
    np.testing.assert_array_equal(together, np.repeat(alone, 4, axis=0))


def rounded(weight):
    if not isinstance(weight, QuantizedMatrix):
        return weight
    numbers, scale, offset = weight.for_product()
    return dequantize_weight(numbers, scale, offset, weight.shape[1])


SCALINGS = [RopeScaling("linear", 4.0), RopeScaling("llama3", 8.0, 1.0, 4.0, 64)]


@pytest.mark.parametrize("scaling", SCALINGS, ids=lambda scaling: scaling.kind)
def test_scaled_positions(tmp_path, scaling):
    config = replace(tiny.CONFIG, rope_scaling=scaling)
    np.testing.assert_allclose(frequencies(config), reference.frequencies(config), rtol=1e-12)
    runs, weights = executor(tmp_path, config)
    tokens = ids(50)
    close(runs.step([Chunk(tokens, 0, [0, 1])], True), reference.logits(config, weights, tokens))


def test_frequencies_of_a_gguf_file(tmp_path):
    """llama.cpp's converter writes the scaling of Llama 3.1 as divisors."""
    config = replace(tiny.CONFIG, rope_scaling=SCALINGS[1])
    weights = tiny.random_weights(config)
    factors = (reference.frequencies(tiny.CONFIG) / reference.frequencies(config)).astype(np.float32)
    path = tiny.write_gguf(tmp_path / "m.gguf", weights=weights | {"rope_factors": factors})
    runs = ProgramExecutor(load_network(open_checkpoint(path)), 16, 64)
    tokens = ids(50)
    close(runs.step([Chunk(tokens, 0, [0, 1])], True), reference.logits(config, tiny.doubles(weights), tokens))


def test_programs_share_memory(tmp_path):
    """A larger program does not take the smaller one's memory away."""
    runs, weights = executor(tmp_path)
    small, large = ids(4), ids(64)
    first = runs.step([Chunk(small, 0, [0])])
    runs.step([Chunk(large, 0, [1, 2])], True)
    np.testing.assert_array_equal(runs.step([Chunk(small, 0, [0])]), first)
    close(first[0], reference.logits(tiny.CONFIG, weights, small)[-1])


def test_positions_to_the_end_of_the_context(tmp_path):
    config = replace(tiny.CONFIG, context=3 * BLOCK)
    runs, weights = executor(tmp_path, config)
    tokens = ids(3 * BLOCK)
    for first in (0, 64):
        runs.step([Chunk(tokens[first : min(first + 64, 95)], first, [0, 1, 2])])
    last = runs.step([Chunk(tokens[-1:], 95, [0, 1, 2])])
    close(last[0], reference.logits(config, weights, tokens)[-1])
