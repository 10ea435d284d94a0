"""GGUF files of every family that llama.cpp runs as they say, against it: logits, and 64 greedy tokens."""

import numpy as np
import pytest

from ms_ascend_ops.llm.checkpoints import open_checkpoint
from ms_ascend_ops.llm.executor import Chunk, ProgramExecutor
from ms_ascend_ops.llm.network import load_network
from tests.llm import tiny

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
