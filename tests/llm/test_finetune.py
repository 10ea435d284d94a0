"""Fine-tuning: what is learnt from a file, gradients and steps against float64, adapters as files."""

import json
import os
import signal

import numpy as np
import pytest
from mindspore import Parameter, Tensor, float32, value_and_grad
from safetensors.numpy import load_file, save_file

from ms_ascend_ops.llm.checkpoint_text import load_template, load_tokenizer
from ms_ascend_ops.llm.checkpoints import open_checkpoint
from ms_ascend_ops.llm.finetune.adapter import Lora, merged, read_adapter, write_adapter
from ms_ascend_ops.llm.finetune.data import IGNORED, Example, batches, padded, read_examples
from ms_ascend_ops.llm.finetune.kept import Kept
from ms_ascend_ops.llm.finetune.network import TrainedNetwork
from ms_ascend_ops.llm.finetune.training import AdamW, Training, train
from ms_ascend_ops.llm.finetune.writing import write
from tests.acceptance import assert_close
from tests.llm import reference, tiny


def examples(count=4, length=9, seed=0):
    rng = np.random.default_rng(seed)
    made = []
    for index in range(count):
        tokens = rng.integers(0, tiny.CONFIG.vocabulary, length + index % 3).tolist()
        made.append(Example(tokens[:-1], [IGNORED, *tokens[2:]]))
    return made


def loss(config, weights, batch):
    """The mean over all tokens with a label, in float64."""
    total, count = 0.0, 0
    for example in batch:
        logits = reference.logits(config, weights, list(example.tokens))
        most = logits.max(-1, keepdims=True)
        logs = logits - most - np.log(np.exp(logits - most).sum(-1, keepdims=True))
        for row, label in zip(logs, example.labels, strict=True):
            if label != IGNORED:
                total, count = total - row[label], count + 1
    return total / count


def with_factors(weights, factors, scale):
    changed = dict(weights)
    for name, (a, b) in factors.items():
        changed[f"{name}.weight"] = weights[f"{name}.weight"] + scale * b @ a
    return changed


@pytest.mark.parametrize(("architecture", "kind"), [("qwen3", None), ("qwen2", "Q8_0")])
def test_lora_gradient(tmp_path, architecture, kind):
    """The change of the loss along the gradient, by differences of a float64 network."""
    config = tiny.VARIANTS[architecture]
    if kind is None:
        checkpoint = open_checkpoint(tiny.write_directory(tmp_path / "m", config))
    else:
        checkpoint = open_checkpoint(tiny.write_gguf(tmp_path / "m.gguf", config, kind=kind))
    lora = Lora(4, 8.0)
    network = TrainedNetwork(checkpoint, lora, seed=1)
    rng = np.random.default_rng(2)
    for layer in network.adapted.values():  # B is 0 at first, and so the gradient of A
        layer.b.set_data(Tensor(0.1 * rng.standard_normal(layer.b.shape), float32))
    batch = examples(2)
    parameters = network.learning()
    value, gradients = value_and_grad(lambda: network(*network.inputs(*padded(batch))), None, parameters)()
    weights = {name: checkpoint.array(name).astype(np.float64) for name in checkpoint.shapes}
    factors = {name: tuple(part.astype(np.float64) for part in pair) for name, pair in network.factors().items()}
    tokens = sum(example.predicted for example in batch)

    def at(moved):
        return loss(config, with_factors(weights, moved, lora.scale), batch) * tokens

    tolerance = 2e-5 if kind is None else 2e-3  # scales of the product are float16
    np.testing.assert_allclose(float(value), at(factors), rtol=tolerance)
    given = {name: gradient.asnumpy() for name, gradient in zip(network.weights(), gradients, strict=True)}
    names = rng.choice(sorted(factors), 4, replace=False)
    for name in names:
        pieces = tuple(given[f"{name}.lora_{kind}"] for kind in "AB")
        step = 1e-4 / np.sqrt(sum((piece.astype(np.float64) ** 2).sum() for piece in pieces))
        plus, minus = (
            at(factors | {name: tuple(f + sign * step * g for f, g in zip(factors[name], pieces, strict=True))})
            for sign in (1, -1)
        )
        along = sum((piece.astype(np.float64) ** 2).sum() for piece in pieces)
        # The change of the loss is 2e-4 of it, of which float32 gradients leave three digits; with Q8_0 the network
        # has another function than its weights in float64, whose scales are not rounded again.
        np.testing.assert_allclose((plus - minus) / (2 * step), along, rtol=1e-3 if kind is None else 2e-2)


def test_full_training(tmp_path):
    """The loss of the next step is that of the weights after this one; the directory that is written has them."""
    checkpoint = open_checkpoint(tiny.write_directory(tmp_path / "m"))
    network = TrainedNetwork(checkpoint)
    data = examples()
    settings = Training(3, batch=4, micro_batch=3, rate=1e-2, decay=0.1, clip=0.5, seed=3)
    steps = train(network, data, settings)
    write(network, checkpoint, tmp_path / "trained", None)
    trained = open_checkpoint(tmp_path / "trained")
    weights = {name: trained.array(name).astype(np.float64) for name in trained.shapes}
    assert set(network.weights()) == set(checkpoint.shapes)
    after = loss(tiny.CONFIG, weights, data)
    assert after < steps[0].loss - 0.1
    order = batches(data, 4, 3)
    first = next(order)
    before = loss(tiny.CONFIG, tiny.doubles(tiny.random_weights(tiny.CONFIG)), first)
    np.testing.assert_allclose(steps[0].loss, before, rtol=1e-5)  # sums of some 60 float32, twice a layer


def test_an_interrupted_run_goes_on_to_the_same_bits(tmp_path):
    checkpoint = open_checkpoint(tiny.write_directory(tmp_path / "m"))
    data, settings = examples(), Training(3, batch=2, micro_batch=2, rate=1e-2, seed=3)

    def trained(kept=None, on_step=None):
        network = TrainedNetwork(checkpoint, Lora(2, 4.0, ["q_proj"]))
        train(network, data, settings, None, on_step, kept)
        return [parameter.asnumpy() for parameter in network.learning()]

    def kept():
        return Kept(tmp_path / "out.kept", [settings])

    first = kept()

    def stop(number, step):
        if number == 1:
            with first.listening():
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match=r"2 of 3 steps are kept in .*out\.kept"):
        trained(first, stop)
    assert [file.name for file in tmp_path.iterdir() if "out" in file.name] == ["out.kept"]
    numbers = []
    after = trained(kept(), lambda number, step: numbers.append(number))
    assert numbers == [2]
    for one, other in zip(after, trained(), strict=True):
        assert one.tobytes() == other.tobytes()
    with pytest.raises(ValueError, match="with other data or options"):
        Kept(tmp_path / "out.kept", [Training(4)]).read()
    (tmp_path / "out.kept").write_bytes(b"PK")
    with pytest.raises(ValueError, match="it is damaged"):
        kept().read()


def test_adamw():
    rng = np.random.default_rng(0)
    start = rng.standard_normal((3, 2)).astype(np.float32)
    parameter = Parameter(Tensor(start), name="w")
    optimizer = AdamW([parameter], decay=0.1)
    expected, mean, square = start.astype(np.float64), 0.0, 0.0
    for step in range(1, 4):
        gradient = rng.standard_normal((3, 2)).astype(np.float32)
        optimizer.step([Tensor(gradient)], 0.01, 0.5)
        given = 0.5 * gradient.astype(np.float64)
        mean, square = 0.9 * mean + 0.1 * given, 0.999 * square + 0.001 * given**2
        expected *= 1 - 0.01 * 0.1
        expected -= 0.01 * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    np.testing.assert_allclose(parameter.asnumpy(), expected, rtol=1e-5)  # three steps of ten float32 operations


def test_examples(tmp_path):
    checkpoint = open_checkpoint(tiny.write_directory(tmp_path / "m"))
    tokenizer = load_tokenizer(checkpoint)
    template = load_template(checkpoint, tokenizer)
    file = tmp_path / "data.jsonl"
    messages = [
        {"role": "user", "content": "hello"}, {"role": "assistant", "content": "world"},
        {"role": "user", "content": "or"}, {"role": "assistant", "content": "low"},
    ]  # fmt: skip
    rows = [{"messages": messages}, {"prompt": "hello", "completion": " world"}, {"text": "hell"}]
    file.write_text("\n".join(json.dumps(row) for row in rows))
    talk, pair, text = read_examples(file, tokenizer, template, 100, tiny.END)

    def learnt(example):
        return tokenizer.decode([label for label in example.labels if label != IGNORED], control=True)

    assert learnt(talk) == "world<|im_end|>\nlow<|im_end|>\n"
    assert learnt(pair) == " world<|im_end|>"
    assert len(text.tokens) == text.predicted  # all but the first, and the end
    for example in (talk, pair, text):
        ids = [*example.tokens, example.labels[-1]]
        assert all(label in (IGNORED, following) for label, following in zip(example.labels, ids[1:], strict=True))
    plain = tmp_path / "data.txt"
    plain.write_text("hello world " * 9)
    pieces = read_examples(plain, tokenizer, None, 8)
    assert [piece.tokens[0] for piece in pieces[1:]] == [piece.labels[-1] for piece in pieces[:-1]]
    for line, message in (("{", "this is no JSON"), ("{}", "it must have messages"), ('{"text": ""}', "nothing to")):
        file.write_text(line)
        with pytest.raises(ValueError, match=message):
            read_examples(file, tokenizer, template, 100)


def _json(adapter):
    return json.loads((adapter / "adapter_config.json").read_text())


@pytest.mark.parametrize("targets", [("q_proj", "k_proj", "v_proj", "up_proj"), ("v_proj", "o_proj", "down_proj")])
def test_adapter_of_fused_matrices(tmp_path, targets):
    """Its files have the modules of transformers' class; read again, each part has its own change."""
    checkpoint = open_checkpoint(tiny.write_gguf(tmp_path / "m.gguf", tiny.FAMILIES["phi3, half"]))
    rng, lora = np.random.default_rng(0), Lora(2, 3.0, targets)
    names = [
        name.removesuffix(".weight")
        for name in checkpoint.shapes
        if name.endswith(tuple(f"{t}.weight" for t in targets))
    ]
    factors = {
        name: (rng.standard_normal((2, columns)), rng.standard_normal((rows, 2)))
        for name in names
        for rows, columns in [checkpoint.shapes[f"{name}.weight"]]
    }
    write_adapter(tmp_path / "adapter", lora, factors, checkpoint)
    tensors, config = load_file(tmp_path / "adapter" / "adapter_model.safetensors"), _json(tmp_path / "adapter")
    fused = "base_model.model.model.layers.1.self_attn.qkv_proj.lora_"
    parts = sum(one in targets for one in ("q_proj", "k_proj", "v_proj"))
    assert (tensors[f"{fused}A.weight"].shape, tensors[f"{fused}B.weight"].shape) == ((2 * parts, 64), (128, 2 * parts))
    assert (config["rank_pattern"]["qkv_proj"], config["alpha_pattern"]["qkv_proj"]) == (2 * parts, 3 * parts)
    stored = {name.rpartition(".lora_")[0].rpartition(".")[2] for name in tensors}
    assert (
        set(config["target_modules"])
        == stored
        == ({"qkv_proj", "gate_up_proj"} if parts == 3 else {"qkv_proj", "o_proj", "down_proj"})
    )
    whole = merged(checkpoint, tmp_path / "adapter")
    for name in checkpoint.shapes:
        expected = checkpoint.array(name).astype(np.float64)
        if (layer := name.removesuffix(".weight")) in factors:
            a, b = (one.astype(np.float32).astype(np.float64) for one in factors[layer])
            expected = expected + 1.5 * b @ a
        assert_close(whole.array(name), expected)  # a product of float32 beside one of float64


def test_adapter(tmp_path):
    checkpoint = open_checkpoint(tiny.write_gguf(tmp_path / "m.gguf", kind="Q8_0"))
    rng = np.random.default_rng(0)
    name = "model.layers.1.self_attn.o_proj"
    a, b = rng.standard_normal((2, 64)).astype(np.float32), rng.standard_normal((64, 2)).astype(np.float32)
    path = tmp_path / "adapter"
    write_adapter(path, Lora(2, 3.0, ["o_proj"]), {name: (a, b)}, checkpoint)
    tensors = load_file(path / "adapter_model.safetensors")
    assert set(tensors) == {f"base_model.model.{name}.lora_{kind}.weight" for kind in "AB"}
    np.testing.assert_array_equal(read_adapter(path)[name][1], np.float32(1.5) * b)
    whole = merged(checkpoint, path)
    weight = f"{name}.weight"
    expected = checkpoint.array(weight).astype(np.float64) + 1.5 * b.astype(np.float64) @ a
    assert_close(whole.array(weight), expected, atol=1e-5)
    part = whole.array(weight, np.float32, slice(3, 9), slice(32, 64))
    assert_close(part, expected[3:9, 32:64], atol=1e-5)
    np.testing.assert_array_equal(
        whole.weight("model.layers.0.mlp.up_proj.weight").codes,
        checkpoint.weight("model.layers.0.mlp.up_proj.weight").codes,
    )
    config = _json(path)
    for change, message in (
        ({"use_dora": True}, "use_dora must be False"),
        ({"peft_type": "IA3"}, "must be LORA"),
        ({"rank_pattern": {"o_proj": 0}}, "r must be at least 1, got 0"),
        ({"alpha_pattern": {"model.layers.1": 2}}, "must be of q_proj, .*, got 'model.layers.1'"),
        ({"rank_pattern": [1]}, "it cannot be read"),
    ):
        (path / "adapter_config.json").write_text(json.dumps(config | change))
        with pytest.raises(ValueError, match=message):
            read_adapter(path)
    (path / "adapter_config.json").write_text(json.dumps(config))
    save_file(
        {
            f"base_model.model.{name}.lora_{k}.weight": np.ones(s, np.float32)
            for k, s in (("A", (2, 32)), ("B", (64, 2)))
        },
        path / "adapter_model.safetensors",
    )
    with pytest.raises(ValueError, match=r"make a matrix of \(64, 32\), but in .* it is \(64, 64\)"):
        merged(checkpoint, path)


def test_arguments():
    with pytest.raises(ValueError, match=r"targets must be of q_proj, .*, got lm_head"):
        Lora(targets=["lm_head"])
    with pytest.raises(ValueError, match="rank must be at least 1, got 0"):
        Lora(rank=0)
    with pytest.raises(ValueError, match="micro_batch must be at least 1, got 0"):
        Training(1, micro_batch=0)
