import ast
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from examples import llama
from ms_ascend_ops import optimize

CONFIG = llama.LlamaConfig(
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=32,
)


@pytest.fixture
def net():
    ms.set_seed(0)
    return llama.LlamaForCausalLM(CONFIG)


@pytest.fixture
def ids():
    return np.random.default_rng(0).integers(0, CONFIG.vocab_size, (2, 12)).astype(np.int32)


def empty_cache(batch):
    shape = (CONFIG.num_hidden_layers, 2, batch, CONFIG.num_key_value_heads, 0, CONFIG.head_dim)
    return Tensor(np.zeros(shape, np.float32))


def test_it_knows_nothing_of_this_library():
    tree = ast.parse(Path(llama.__file__).read_text(encoding="utf-8"))
    imported = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    imported += [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {name.split(".")[0] for name in imported} == {"dataclasses", "mindspore", "numpy"}


def test_the_cache_changes_nothing(net, ids):
    expected, _ = net(Tensor(ids))
    logits, cache = net(Tensor(ids[:, :7]), empty_cache(2))
    np.testing.assert_allclose(logits.asnumpy(), expected.asnumpy()[:, :7], rtol=1e-4, atol=1e-5)
    for step in range(7, 12):
        logits, cache = net(Tensor(ids[:, step : step + 1]), cache)
        np.testing.assert_allclose(logits.asnumpy()[:, 0], expected.asnumpy()[:, step], rtol=1e-4, atol=1e-5)
    assert cache.shape == (2, 2, 2, 2, 12, 8)


def test_a_token_sees_none_after_it(net, ids):
    changed = ids.copy()
    changed[:, 6:] += 1
    before, after = net(Tensor(ids))[0].asnumpy(), net(Tensor(changed % CONFIG.vocab_size))[0].asnumpy()
    np.testing.assert_allclose(after[:, :6], before[:, :6], rtol=1e-5, atol=1e-6)
    assert np.abs(after[:, 6:] - before[:, 6:]).max() > 1e-2


def test_positions_are_relative(net):
    """Rotary embedding: the product of a query and a key depends on their distance only."""
    cos, sin = map(Tensor, llama.rotary_tables(CONFIG))
    query, key = (Tensor(np.random.default_rng(seed).standard_normal(8).astype(np.float32)) for seed in (1, 2))

    def product(position, distance):
        rotated = llama.apply_rotary(query, cos[position], sin[position])
        return float((rotated * llama.apply_rotary(key, cos[position - distance], sin[position - distance])).sum())

    assert product(5, 3) == pytest.approx(product(20, 3), abs=1e-4)
    assert product(5, 3) != pytest.approx(product(5, 2), abs=1e-2)


def test_all_its_norms_and_feed_forward_layers_are_substituted(net, ids):
    report = optimize(net, verify=[Tensor(ids)], gradients=True)
    assert sorted(entry.place for entry in report.replaced) == sorted(
        ["model.norm"]
        + [
            f"model.layers.{layer}.{part}"
            for layer in range(2)
            for part in ("input_layernorm", "post_attention_layernorm", "mlp")
        ]
    )
    # Both stand in an attention between reshapes, which a cell engine leaves alone.
    assert {entry.pattern for entry in report.skipped} <= {"rotary embedding", "scale + mask + softmax"}
    assert report.outputs.relative < 1e-5
    assert report.gradients.relative < 1e-5
