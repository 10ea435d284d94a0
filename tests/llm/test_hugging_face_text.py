"""Tokenizer, chat template and configuration of a directory, beside transformers where it is installed."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tokenizers import AddedToken, processors

from ms_ascend_ops.llm import LanguageModel
from ms_ascend_ops.llm.checkpoints import open_checkpoint
from tests.llm import tiny

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}{{ pad_token }}"
)
MESSAGES = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
FAST = {"tokenizer_class": "PreTrainedTokenizerFast"}
START, END = tiny.CONTROL


def directory(tmp_path, config=None, tokenizer=None, post=None, special_map=None, **changes):
    """A directory with this tokenizer_config.json."""
    path = tiny.write_directory(tmp_path / "m", **changes)
    (path / "tokenizer_config.json").write_text(json.dumps(config or {}))
    (path / "chat_template.jinja").write_text(TEMPLATE)
    backend = tokenizer or tiny.backend()
    if post is not None:
        backend.post_processor = post
    backend.save(str(path / "tokenizer.json"))
    if special_map is not None:
        (path / "special_tokens_map.json").write_text(json.dumps(special_map))
    return path


def begins_with(token):
    return processors.TemplateProcessing(
        single=["x:0", "$A:0"], special_tokens=[{"id": "x", "ids": [tiny.TOKENS.index(token)], "tokens": [token]}]
    )


CASES = {
    "named": {"config": {**FAST, "bos_token": START, "eos_token": END}},
    "as objects": {"config": {**FAST, "bos_token": {"__type": "AddedToken", "content": START, "special": True}}},
    "none": {"config": {**FAST, "bos_token": None, "eos_token": END}},
    "other than config.json's": {"config": {**FAST, "eos_token": START}, "eos_token_id": [5], "bos_token_id": 6},
    "an older map": {
        "config": {**FAST, "bos_token": END},
        "special_map": {"bos_token": START, "pad_token": {"content": END}},
    },
    "said to be added at the begin": {"config": {**FAST, "bos_token": START, "eos_token": END, "add_bos_token": True}},
    "said to be added at both ends": {
        "config": {**FAST, "bos_token": START, "eos_token": END, "add_bos_token": True, "add_eos_token": True}
    },
    "said not to be added": {
        "config": {**FAST, "bos_token": START, "add_bos_token": False},
        "post": begins_with(START),
    },
    "by the post-processor": {"config": {**FAST, "bos_token": END}, "post": begins_with(START)},
    "a name for a token that was text": {"config": {**FAST, "eos_token": "hello"}},
    "LlamaTokenizer with bytes": {"config": {"tokenizer_class": "LlamaTokenizer", "eos_token": END}},
}


@pytest.mark.parametrize("name", CASES)
def test_beside_transformers(tmp_path, name):
    transformers = pytest.importorskip("transformers")
    path = directory(tmp_path, **CASES[name])
    ours, theirs = LanguageModel.from_file(path), transformers.AutoTokenizer.from_pretrained(path)
    assert ours.template.render(MESSAGES, generate=False) == theirs.apply_chat_template(MESSAGES, tokenize=False)
    assert ours.chat_tokens(MESSAGES) == theirs.encode(
        theirs.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=True), add_special_tokens=False
    )
    for text in ("hello world", "", f"{START}or{END}", "  wor "):
        assert ours.tokenizer.encode(text) == theirs.encode(text), text
        assert ours.tokenizer.encode(text, begin=False) == theirs.encode(text, add_special_tokens=False), text
        ids = theirs.encode(text)
        assert ours.tokenizer.decode(ids) == theirs.decode(ids, skip_special_tokens=True), text


def test_template_of_named_tokens(tmp_path):
    """The values without transformers."""
    path = directory(tmp_path, {**FAST, "bos_token": START, "eos_token": None}, eos_token_id=[5])
    assert LanguageModel.from_file(path).template.render(MESSAGES, generate=False) == f"{START}user: aassistant: b"


def test_texts_are_not_cut(tmp_path):
    """The file may say how long texts were in training; a prompt stays whole."""
    backend = tiny.backend()
    backend.enable_truncation(4)
    backend.enable_padding(length=50)
    model = LanguageModel.from_file(directory(tmp_path, tokenizer=backend))
    assert model.tokenizer.encode("hello world or") == tiny.backend().encode("hello world or").ids


def test_tokens_beyond_the_embedding(tmp_path):
    """Numbers may have gaps between them: the largest counts."""
    data = json.loads(tiny.backend().to_str())
    data["model"]["vocab"]["zz"] = 10**6
    path = directory(tmp_path)
    (path / "tokenizer.json").write_text(json.dumps(data))
    with pytest.raises(ValueError, match="the tokenizer has 1000001 tokens, but the embedding only 264 rows"):
        LanguageModel.from_file(path)


def test_added_tokens(tmp_path):
    backend = tiny.backend()
    backend.add_tokens([AddedToken("hello", special=False, normalized=False)])
    special = {"262": {"content": START, "special": True}, "250": {"content": "hello", "special": True}}
    path = directory(tmp_path, {**FAST, "added_tokens_decoder": special}, tokenizer=backend)
    tokenizer = LanguageModel.from_file(path).tokenizer
    assert tokenizer.decode(tokenizer.encode("or hello or")) == "or  or"


@pytest.mark.parametrize(
    ("kind", "changes", "windows"),
    [
        ("mistral", {"sliding_window": 32}, (32, 32)),
        ("mistral", {"sliding_window": 32, "use_sliding_window": False}, (32, 32)),  # which is no key of Mistral
        ("mistral", {"sliding_window": None}, ()),
        ("mistral", {}, (4096, 4096)),  # the default of its class
        ("qwen2", {"sliding_window": 32}, ()),
        ("qwen2", {"sliding_window": 32, "use_sliding_window": True}, ()),  # from layer 28 on
        ("qwen2", {"sliding_window": 32, "use_sliding_window": True, "max_window_layers": 1}, (0, 32)),
        ("qwen3", {"sliding_window": 32, "use_sliding_window": True, "layer_types": ["full_attention"] * 2}, ()),
        (
            "qwen3",
            {"sliding_window": 9, "use_sliding_window": True, "layer_types": ["full_attention", "sliding_attention"]},
            (0, 9),
        ),
    ],
)
def test_windows(tmp_path, kind, changes, windows):
    path = tiny.write_directory(
        tmp_path / "m", replace(tiny.VARIANTS[kind], context=8192), tiny.random_weights(tiny.VARIANTS[kind]), **changes
    )
    config = open_checkpoint(path).config
    assert (config.context, config.windows) == (8192, windows)


def test_ends_of_the_generation(tmp_path):
    """generation_config.json goes before config.json, and no other token ends a text."""
    path = tiny.write_directory(tmp_path / "m", eos_token_id=3)
    assert LanguageModel.from_file(path).stop_tokens == (3,)
    (path / "generation_config.json").write_text(json.dumps({"eos_token_id": [5, 6]}))
    assert LanguageModel.from_file(path).stop_tokens == (5, 6)


@pytest.mark.parametrize(("same", "tied"), [(True, True), (False, False)])
def test_a_head_that_the_file_denies(tmp_path, same, tied):
    """What a file holds goes before what it says: a matrix of its own is used, unless it is that of the embedding."""
    weights = tiny.random_weights(tiny.CONFIG)
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"] * (1 if same else 2)
    checkpoint = open_checkpoint(tiny.write_directory(tmp_path / "m", weights=weights, tie_word_embeddings=True))
    assert checkpoint.config.tied_embedding == tied


def test_tensors_beside_the_index(tmp_path):
    """Files are read whole, whatever the index says of them."""
    weights = tiny.random_weights(tiny.CONFIG)
    weights["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(8, np.float32)
    path = tiny.write_directory(tmp_path / "m", weights=weights, files=2)
    index = path / "model.safetensors.index.json"
    listed = json.loads(index.read_text())["weight_map"]
    del listed["model.norm.weight"]
    index.write_text(json.dumps({"weight_map": listed}))
    np.testing.assert_array_equal(open_checkpoint(path).array("model.norm.weight"), weights["model.norm.weight"])


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"shape": [float("inf")], "data_offsets": [0, 0]}, r"whole numbers, got \[inf\]"),
        ({"shape": [0], "data_offsets": [0, float("inf")]}, r"whole numbers, got \[0, inf\]"),
        ({"shape": [0, 2**70], "data_offsets": [0, 0]}, "whole numbers"),
        ({"shape": [1] * 65, "data_offsets": [0, 4]}, "at most 32 whole numbers"),
        ({"shape": [1.5], "data_offsets": [0, 4]}, r"whole numbers, got \[1.5\]"),
        ({"shape": ["1"], "data_offsets": [0, 4]}, "whole numbers"),
        ({"shape": [1], "data_offsets": [4, 8]}, "tensor x must begin at byte .*, got"),
        ({"shape": [4], "data_offsets": [0, 8]}, r"tensor x: bytes 0 to 8 do not fit F32 of shape \(4,\)"),
    ],
)
def test_headers_of_safetensors(tmp_path, entry, message):
    from ms_ascend_ops.llm.checkpoints.safetensors_file import SafetensorsFile  # noqa: PLC0415

    head = json.dumps({"x": {"dtype": "F32", **entry}}).encode()
    (tmp_path / "a.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + bytes(16))
    with pytest.raises(ValueError, match=message):
        SafetensorsFile(tmp_path / "a.safetensors")


@pytest.mark.parametrize(
    "asked",
    [{"context": 2**31 - 1}, {"cache_tokens": 2**40}, {"batch": 2**31 - 1}],
    ids=lambda asked: next(iter(asked)),
)
def test_more_than_there_is_memory(tmp_path, asked):
    path = tiny.write_directory(tmp_path / "m", max_position_embeddings=2**31 - 1)
    with pytest.raises(ValueError, match=r"a context of \d+ tokens and a cache of \d+ take .* GiB, this machine has"):
        LanguageModel.from_file(path, **asked)
