"""The same network by MindSpore."""

import numpy as np
import pytest

from ms_ascend_ops.llm import stock
from ms_ascend_ops.llm.executor import Chunk
from ms_ascend_ops.llm.mindspore_executor import MindSporeExecutor
from tests.llm import reference, tiny
from tests.llm.test_network import DTYPES, close, executor, ids


@pytest.mark.parametrize(("architecture", "dtype"), [("llama", "float32"), ("llama", "bfloat16"), ("qwen3", "float32")])
def test_steps(tmp_path, architecture, dtype):
    config = tiny.VARIANTS[architecture]
    runs, weights = executor(tmp_path, config, dtype)
    runs = MindSporeExecutor(runs.network, 16, 64)
    tokens = ids(40)
    expected = reference.logits(config, weights, tokens)
    close(runs.step([Chunk(tokens[:38], 0, [3, 5])], every_row=True), expected[:38], dtype)
    runs.step([Chunk(tokens[:20], 0, [7])])
    both = runs.step([Chunk(tokens[38:39], 38, [3, 5]), Chunk(tokens[20:21], 20, [7])])
    close(both, expected[[38, 20]], dtype)
    assert both.dtype == np.float32


@pytest.mark.parametrize(("architecture", "piece"), [("qwen2", 0), ("qwen3", 5)])
def test_stock_operators(tmp_path, monkeypatch, architecture, piece):
    """What `llm bench --peers` measures beside: a prompt, also in pieces, and tokens behind it."""
    if piece:
        monkeypatch.setattr(stock, "WHOLE", piece)
        monkeypatch.setattr(stock, "PIECE", piece)
    config = tiny.VARIANTS[architecture]
    runs, weights = executor(tmp_path, config)
    model = stock.StockModel(runs.network, 16)
    tokens = ids(14)
    expected = reference.logits(config, weights, tokens)
    close(model.prompt(tokens[:12]), expected[11:12])
    for place in (12, 13):
        close(model.token(tokens[place], place), expected[place : place + 1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_cache_of_another_type(tmp_path, dtype):
    """The casts around it are MindSpore's here, and the kernel library's there: the same bits."""
    kernels, weights = executor(tmp_path, cache_dtype=DTYPES[dtype])
    runs = MindSporeExecutor(kernels.network, 16, 64, cache_dtype=DTYPES[dtype])
    tokens = ids(40)
    for first, end in ((0, 38), (38, 39), (39, 40)):
        chunk = Chunk(tokens[first:end], first, [3, 5])
        logits = runs.step([chunk])
        np.testing.assert_array_equal(logits, kernels.step([chunk]))
    close(logits, reference.logits(tiny.CONFIG, weights, tokens)[-1:], dtype)
