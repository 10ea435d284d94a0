"""Files with errors of any kind: they load, or one message of ours says why not."""

import json
import random

import pytest

from ms_ascend_ops.llm import checkpoint_text
from ms_ascend_ops.llm.chat_template import ChatTemplate
from ms_ascend_ops.llm.checkpoint_text import load_template, load_tokenizer
from ms_ascend_ops.llm.checkpoints import open_checkpoint
from ms_ascend_ops.llm.finetune.adapter import read_adapter
from ms_ascend_ops.llm.network import load_network
from tests.llm import tiny
from tests.llm.test_packed import LAYOUTS, write

VALUES = [None, 0, -1, 1e99, 2**70, "x", [], {}, [1], {"a": 1}, True, False, float("nan"), "silu"]
ROPE = {
    "rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
    "original_max_position_embeddings": 64,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _each_template_once(monkeypatch):
    """A template takes a process, and most files have the same one."""
    made = {}

    def template(text, source, named):
        key = text, tuple(sorted(named.items()))
        if key not in made:
            made[key] = ChatTemplate(text, source, named)
        return made[key]

    monkeypatch.setattr(checkpoint_text, "ChatTemplate", template)


def loads_or_says_why(path, weights=False):
    try:
        checkpoint = open_checkpoint(path)
        load_template(checkpoint, load_tokenizer(checkpoint))
        if weights:
            load_network(checkpoint, quantized=True)
    except ValueError as error:
        assert str(error).startswith(str(path)), error  # noqa: PT017 - any other exception fails
        assert "\n" not in str(error)  # noqa: PT017
        return False
    return True


def test_gguf(tmp_path):
    path = tiny.write_gguf(tmp_path / "m.gguf")
    data = path.read_bytes()
    head = data.index(b"token_embd") + 3000
    results = set()
    for seed in range(300):
        rng, damaged = random.Random(seed), bytearray(data)
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(4, head if rng.random() < 0.5 else 700)
            damaged[place] = rng.choice([0, 255, rng.randrange(256), damaged[place] ^ (1 << rng.randrange(8))])
        path.write_bytes(damaged)
        results.add(loads_or_says_why(path))
    assert results == {True, False}


def test_header_of_safetensors(tmp_path):
    path = tiny.write_directory(tmp_path / "m")
    data = (path / "model.safetensors").read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    for seed in range(200):
        rng, damaged = random.Random(seed), bytearray(data)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(8, end)] = rng.choice([48 + rng.randrange(10), rng.randrange(256), 34, 125])
        (path / "model.safetensors").write_bytes(damaged)
        loads_or_says_why(path)


@pytest.mark.parametrize("layout", ["awq", "gptq, act-order", "compressed, zero points", "integers, zero points"])
def test_tensors_of_other_tools(tmp_path, layout):
    """Names, dtypes, shapes and places of packed matrices; weights that a header can be read of are read, too."""
    settings, pack, _ = LAYOUTS[layout]
    path, _ = write(tmp_path / "m", settings, pack)
    data = (path / "model.safetensors").read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    head = json.loads(data[8:end])
    for seed in range(150):
        rng, changed = random.Random(seed), json.loads(data[8:end])
        for _ in range(rng.randint(1, 3)):
            name = rng.choice([name for name in head if ".layers.0." in name])
            entry = changed.get(name)
            if entry is None:
                continue
            what = rng.choice(["name", "dtype", "shape", "offsets"])
            if what == "name":
                changed[f"{name}x"] = changed.pop(name)
            elif what == "dtype":
                entry["dtype"] = rng.choice(["F16", "F32", "I32", "I64", "I8", "U8", "BF16"])
            elif what == "shape":
                shape = entry["shape"]
                entry["shape"] = rng.choice([[], shape[::-1], [*shape, 1], [2, *shape], [0, 4]])
            else:
                entry["data_offsets"] = head[rng.choice(list(head)[1:])]["data_offsets"]
        text = json.dumps(changed).encode()
        (path / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data[end:])
        loads_or_says_why(path, weights=True)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_settings_of_other_tools(tmp_path, value):
    for layout in ("awq", "gptq", "compressed, zero points"):
        settings, pack, _ = LAYOUTS[layout]
        path, _ = write(tmp_path / layout, settings, pack)
        config = json.loads((path / "config.json").read_text())
        changed = [settings | {key: value} for key in [*settings, "checkpoint_format", "dynamic", "format"]]
        if "config_groups" in settings:
            group = settings["config_groups"]["group_0"]
            weights = [group["weights"] | {key: value} for key in group["weights"]]
            changed += [settings | {"config_groups": {"group_0": {"weights": one}}} for one in [*weights, value]]
            changed.append(settings | {"config_groups": {"group_0": value}})
        for one in changed:
            (path / "config.json").write_text(json.dumps(config | {"quantization_config": one}))
            loads_or_says_why(path)


@pytest.mark.parametrize("value", ["1e400", "-1e400", "NaN", "1" + "0" * 400, "[]", "null", "9" * 5000, "[" * 3000])
@pytest.mark.parametrize("key", ["r", "lora_alpha"])
def test_numbers_of_an_adapter(tmp_path, key, value):
    config = {"peft_type": '"LORA"', "r": "4", "lora_alpha": "8"} | {key: value}
    text = ", ".join(f'"{name}": {one}' for name, one in config.items())
    (tmp_path / "adapter_config.json").write_text(f"{{{text}}}")
    with pytest.raises(ValueError, match="adapter_") as raised:
        read_adapter(tmp_path)
    assert str(raised.value).startswith(str(tmp_path))


def test_halves_of_characters(tmp_path):
    path = tiny.write_directory(tmp_path / "m")
    (path / "special_tokens_map.json").write_text(r'{"bos_token": "\ud83d\ude00"}')
    loads_or_says_why(path)
    (path / "special_tokens_map.json").write_text(r'{"bos_token": "\ud800"}')
    assert not loads_or_says_why(path)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_of_the_configuration(tmp_path, value):
    path = tiny.write_directory(tmp_path / "m", rope_scaling=ROPE)
    config = json.loads((path / "config.json").read_text())
    others = ["sliding_window", "quantization_config", "rope_parameters", "bos_token_id"]
    changed = [config | {key: value} for key in [*config, *others]]
    changed += [config | {"rope_scaling": ROPE | {key: value}} for key in ROPE]
    for data in changed:
        (path / "config.json").write_text(json.dumps(data))
        loads_or_says_why(path)
    (path / "config.json").write_text(json.dumps(config))
    for data in (value, {"chat_template": value}, {"chat_template": [value]}):
        (path / "tokenizer_config.json").write_text(json.dumps(data))
        loads_or_says_why(path)
