import ast
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from examples import llama
from ms_ascend_ops import optimize
from tests.acceptance import assert_close
from tests.small_llama import CONFIG


@pytest.fixture
def net():
    ms.set_seed(0)
    return llama.LlamaForCausalLM(CONFIG)


@pytest.fixture
def ids():
    return np.random.default_rng(0).integers(0, CONFIG.vocab_size, (2, 8)).astype(np.int32)


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
    # Measured 1.0e-6, of scores up to 3.5: products of other numbers of rows, and sums over other lengths.
    logits, cache = net(Tensor(ids[:, :5]), empty_cache(2))
    assert_close(logits.asnumpy(), expected.asnumpy()[:, :5], rtol=1e-4, atol=1e-5)
    for step in range(5, 8):
        logits, cache = net(Tensor(ids[:, step : step + 1]), cache)
        assert_close(logits.asnumpy()[:, 0], expected.asnumpy()[:, step], rtol=1e-4, atol=1e-5)
    assert cache.shape == (2, 2, 2, 2, 8, 8)


def with_room(net, ids):
    """The scores of all tokens, by decoding with a cache of fixed size that is full of something else at first."""
    shape = (CONFIG.num_hidden_layers, 2, ids.shape[0], CONFIG.num_key_value_heads, 10, CONFIG.head_dim)
    cache = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    scores = []
    for step in range(ids.shape[1]):
        logits, new = net(Tensor(ids[:, step : step + 1]), Tensor(cache), Tensor([step], ms.int32))
        cache[:, :, :, :, step] = new.asnumpy()[:, :, :, :, 0]
        scores.append(logits.asnumpy())
    return np.concatenate(scores, axis=1)


def test_a_cache_with_room_changes_nothing(net, ids):
    expected, _ = net(Tensor(ids))
    # Measured 1.4e-6, of scores up to 3.8: sums over the cache are longer by its masked places.
    assert_close(with_room(net, ids), expected.asnumpy(), rtol=1e-5, atol=1e-5)


def test_a_token_sees_none_after_it(net, ids):
    changed = ids.copy()
    changed[:, 5:] += 1
    before, after = net(Tensor(ids))[0].asnumpy(), net(Tensor(changed % CONFIG.vocab_size))[0].asnumpy()
    # Measured 0. Nothing says that a product gives a row the same bits whatever the others are: some ULP.
    assert_close(after[:, :5], before[:, :5], rtol=1e-5, atol=1e-6)
    assert np.abs(after[:, 5:] - before[:, 5:]).max() > 1e-2


def test_positions_are_relative(net):
    """Rotary embedding: the product of a query and a key depends on their distance only."""
    cos, sin = map(Tensor, llama.rotary_tables(CONFIG))
    query, key = (Tensor(np.random.default_rng(seed).standard_normal(8).astype(np.float32)) for seed in (1, 2))

    def product(position, distance):
        rotated = llama.apply_rotary(query, cos[position], sin[position])
        return float((rotated * llama.apply_rotary(key, cos[position - distance], sin[position - distance])).sum())

    assert product(5, 3) == pytest.approx(product(20, 3), abs=1e-4)
    assert product(5, 3) != pytest.approx(product(5, 2), abs=1e-2)


LAYERS = [f"model.layers.{layer}" for layer in range(CONFIG.num_hidden_layers)]
IN_AN_ATTENTION = ["attention", "rotary embedding", "rotary embedding"]


@pytest.fixture
def calls(ids):
    """Prefill, decoding with a growing cache and with one of fixed size."""
    draw = np.random.default_rng(1).standard_normal
    cache = draw((CONFIG.num_hidden_layers, 2, 2, CONFIG.num_key_value_heads, 5, CONFIG.head_dim)).astype(np.float32)
    step = [Tensor(ids[:, :1]), Tensor(cache)]
    return [[Tensor(ids)], step, [*step, Tensor([3], ms.int32)]]


def test_all_its_parts_are_substituted(net, ids, calls):
    """Residual sums go into the norms behind them."""
    expected = net(Tensor(ids))[0].asnumpy()
    report = optimize(net, verify=calls, gradients=True, level="O3")
    assert sorted((entry.place, entry.pattern) for entry in report.replaced) == sorted(
        [("model.norm", "RMSNorm")]
        + [
            (f"{layer}.{part}", "RMSNorm")
            for layer in LAYERS
            for part in ("input_layernorm", "post_attention_layernorm")
        ]
        + [(layer, "add + RMSNorm") for layer in LAYERS]
        + [(f"{layer}.mlp", "SwiGLU") for layer in LAYERS]
        + [(f"{layer}.self_attn", pattern) for layer in LAYERS for pattern in IN_AN_ATTENTION]
    )
    assert report.skipped == []
    assert report.outputs.relative < 1e-5
    assert report.gradients.relative < 1e-5
    assert_close(decoded(net, ids), expected, rtol=1e-4, atol=1e-5)
    assert_close(with_room(net, ids), expected, rtol=1e-5, atol=1e-5)  # as above; measured 1.6e-6


def test_decoding_was_not_shown_and_stays_as_it_is(net, ids):
    """What was watched without a cache says nothing of a call with one: that goes to the stock construct."""
    expected = decoded(net, ids)
    report = optimize(net, verify=[Tensor(ids)])
    assert {entry.place for entry in report.replaced} >= {f"{layer}.self_attn" for layer in LAYERS}
    assert_close(decoded(net, ids), expected, rtol=1e-4, atol=1e-5)


def decoded(net, ids):
    """The logits of six tokens at once, and of the others one by one."""
    logits, cache = net(Tensor(ids[:, :6]), empty_cache(2))
    parts = [logits.asnumpy()]
    for step in range(6, ids.shape[1]):
        logits, cache = net(Tensor(ids[:, step : step + 1]), cache)
        parts.append(logits.asnumpy())
    return np.concatenate(parts, axis=1)
