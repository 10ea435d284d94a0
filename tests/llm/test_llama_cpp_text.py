"""The tokens of random texts by each kind of tokenizer that GGUF files name, against llama.cpp's."""

import json

import gguf
import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from ms_ascend_ops.llm.checkpoints.gguf_cuts import CUTS
from ms_ascend_ops.llm.checkpoints.gguf_tokenizer import read_tokenizer
from tests.llm.test_gguf_text import PIECES

llama_cpp = pytest.importorskip("llama_cpp")
pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]  # of its own

CONTROL = ["<|begin|>", "<|end|>"]
# What the cuts tell apart: letters by case and script, digits that are not ASCII, blanks, marks, contractions.
PIECES_OF_TEXT = [
    *"abcdefghij ABC 0123456789 \n\n\t\r  .,!?'\"`$+<=>^~|/\\-_()[]{}", "'s", "'S", "'re", "'LL", "n't", "hello",
    " World", "HTTPServer", "camelCase", "1999", "3.14", "½", "²", "٣", "Ⅳ", "ä", "É", "ß", "Straße", "e\u0301",
    "привет", "Мир", "你好", "世界", "こんにちは", "カタ", "안녕", "שלום", "مرحبا", "हिन्दी", "ไทย",
    "🙂", "👍🏽", "—", "…", "€", "\u00a0", "\u2003", "\u3000", "  ", "   \n  ",
    "\r\n", "//", "/*", "x=1;", "...", "!!\n",
]  # fmt: skip


def random_texts(count, seed):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(PIECES_OF_TEXT, rng.integers(1, 24))) for _ in range(count)]


TEXTS, OTHER_TEXTS = random_texts(400, 0), random_texts(1600, 1)


@pytest.fixture(scope="module")
def byte_level():
    """Merges of such texts, which were not cut: there are tokens that a cut keeps apart."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=3000, initial_alphabet=alphabet, max_token_length=12, show_progress=False, special_tokens=[]
    )
    trained.train_from_iterator([*PIECES_OF_TEXT * 8, *OTHER_TEXTS], trainer)
    model = json.loads(trained.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    return {
        "model": "gpt2", "tokens": tokens + CONTROL, "merges": merges,
        "token_type": [1] * len(tokens) + [3] * len(CONTROL), "bos_token_id": len(tokens),
        "eos_token_id": len(tokens) + 1,
    }  # fmt: skip


def sentence_piece(path, **changes):
    spm = pytest.importorskip("sentencepiece")
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(OTHER_TEXTS), model_prefix=str(path), vocab_size=900, model_type="bpe", unk_id=0,
        byte_fallback=True, character_coverage=0.995, normalization_rule_name="identity", bos_id=1, eos_id=2, pad_id=-1,
        remove_extra_whitespaces=False, minloglevel=2, hard_vocab_limit=False, allow_whitespace_only_pieces=True,
    )  # fmt: skip
    made = spm.SentencePieceProcessor(model_file=f"{path}.model")
    count = made.get_piece_size()
    pieces = [made.id_to_piece(index) for index in range(count)]
    assert pieces[: len(PIECES)] == PIECES
    types = [2, 3, 3, *[6] * 256, *[1] * (count - len(PIECES))]
    scores = [made.get_score(index) for index in range(count)]
    return {"model": "llama", "tokens": pieces, "token_type": types, "scores": scores, "bos_token_id": 1,
            "eos_token_id": 2} | changes  # fmt: skip


def theirs_of(path, fields):
    """llama.cpp with a file that holds nothing but the tokenizer."""
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_tokenizer_model(fields["model"])
    if "pre" in fields:
        writer.add_tokenizer_pre(fields["pre"])
    writer.add_token_list(fields["tokens"])
    writer.add_token_types(fields["token_type"])
    if "merges" in fields:
        writer.add_token_merges(fields["merges"])
    if "scores" in fields:
        writer.add_token_scores(fields["scores"])
    writer.add_bos_token_id(fields["bos_token_id"])
    writer.add_eos_token_id(fields["eos_token_id"])
    if "add_space_prefix" in fields:
        writer.add_add_space_prefix(fields["add_space_prefix"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return llama_cpp.Llama(str(path), vocab_only=True, verbose=False)


def compare(tmp_path, fields, control):
    theirs = theirs_of(tmp_path / "m.gguf", fields)
    ours = read_tokenizer(tmp_path, {f"tokenizer.ggml.{key}": value for key, value in fields.items()})
    for text in (*TEXTS, *[control.join(TEXTS[at : at + 3]) for at in range(0, 60, 3)]):
        expected = theirs.tokenize(text.encode(), add_bos=True, special=True)
        assert ours.encode(text) == expected, text


@pytest.mark.parametrize("kind", CUTS)
def test_byte_level(tmp_path, byte_level, kind):
    compare(tmp_path, byte_level | {"pre": kind}, CONTROL[1])


@pytest.mark.parametrize("prefix", [True, False])  # Gemma's has none
def test_sentence_piece(tmp_path, prefix):
    compare(tmp_path, sentence_piece(tmp_path / "m", add_space_prefix=prefix), "</s>")
