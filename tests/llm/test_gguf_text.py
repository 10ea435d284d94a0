"""What llama.cpp's rules say of the text of a GGUF file: tokens of begin and end, cuts, blanks, keys that change it."""

import numpy as np
import pytest
import tokenizers
from tokenizers import Regex, pre_tokenizers

from ms_ascend_ops.llm import LanguageModel
from ms_ascend_ops.llm.checkpoints import open_checkpoint
from ms_ascend_ops.llm.checkpoints.gguf_file import GGUFFile
from ms_ascend_ops.llm.checkpoints.gguf_special import read_special_tokens
from ms_ascend_ops.llm.checkpoints.gguf_tokenizer import read_tokenizer
from ms_ascend_ops.llm.checkpoints.writer import write_directory
from ms_ascend_ops.llm.config import RopeScaling
from ms_ascend_ops.llm.tokenizer import TextStream
from tests.llm import tiny


def byte_level(**changes):
    fields = {
        "model": "gpt2", "pre": "gpt-2", "tokens": tiny.TOKENS, "merges": tiny.MERGES,
        "token_type": [3 if token in tiny.CONTROL else 1 for token in tiny.TOKENS], "eos_token_id": tiny.END,
    }  # fmt: skip
    return {f"tokenizer.ggml.{key}": value for key, value in (fields | changes).items() if value is not None}


def with_tokens(*names, **changes):
    tokens = [*tiny.TOKENS, *names]
    types = [3 if index >= len(tiny.TOKENS) - 2 else 1 for index in range(len(tokens))]
    return byte_level(tokens=tokens, token_type=types, **changes)


PIECES = ["<unk>", "<s>", "</s>", *[f"<0x{byte:02X}>" for byte in range(256)]]
WORDS = ["▁", "h", "e", "l", "o", "w", "r", "d", "ll", "he", "hell", "hello", "▁hello", "or", "▁w", "▁wor", "▁▁"]


def sentence_piece(**changes):
    fields = {
        "model": "llama", "tokens": PIECES + WORDS, "token_type": [2, 3, 3, *[6] * 256, *[1] * len(WORDS)],
        "scores": [0.0] * len(PIECES) + [-float(WORDS[::-1].index(word)) for word in WORDS],
    }  # fmt: skip
    return {f"tokenizer.ggml.{key}": value for key, value in (fields | changes).items() if value is not None}


@pytest.mark.parametrize(
    ("fields", "before", "after"),
    [
        (sentence_piece(), [1], []),
        (sentence_piece(add_bos_token=False), [], []),
        (sentence_piece(bos_token_id=2, add_eos_token=True), [2], [2]),
        (byte_level(), [], []),
        (byte_level(add_bos_token=True, bos_token_id=5), [5], []),
        (byte_level(pre="llama-bpe", bos_token_id=5), [5], []),
        (byte_level(pre="llama3", bos_token_id=5), [5], []),
        (byte_level(pre="tekken", bos_token_id=5), [5], []),
        (byte_level(pre="llama-bpe", bos_token_id=5, add_bos_token=False), [], []),
        (byte_level(pre="llama-bpe"), [11], []),  # llama.cpp's number where a file names none
        (byte_level(pre="qwen2", bos_token_id=5), [], []),
    ],
)
def test_tokens_around_a_text(tmp_path, fields, before, after):
    tokenizer = read_tokenizer(tmp_path, fields)
    plain = tokenizer.encode("hello", begin=False)
    assert tokenizer.encode("hello") == before + plain + after
    assert tokenizer.begin_token == (before[0] if before else None)
    # Conversations get them, too, but not twice.
    begin = tokenizer.token(before[0]) if before else ""
    control = fields["tokenizer.ggml.token_type"][before[0]] == 3 if before else True
    for text in ("hello", begin + "hello") if control else ("hello",):
        assert tokenizer.encode_chat(text) == before + plain + after


@pytest.mark.parametrize(
    ("fields", "ends"),
    [
        (byte_level(), ["<|im_end|>"]),
        (byte_level(eos_token_id=5), [tiny.TOKENS[5], "<|im_end|>"]),
        (with_tokens("<|endoftext|>", "<|eom_id|>"), ["<|im_end|>", "<|endoftext|>", "<|eom_id|>"]),
        (with_tokens("<|end_of_text|>", "</s>", "[EOS]"), ["<|im_end|>", "</s>", "<|end_of_text|>", "[EOS]"]),
        (with_tokens("<a>", "<b>", eot_token_id=264, eom_token_id=265), ["<|im_end|>", "<a>", "<b>"]),
        (with_tokens("<|fim_pad|>", "<|file_sep|>"), ["<|im_end|>", "<|fim_pad|>", "<|file_sep|>"]),
        # Within a turn of o200k's format, <|end|> only ends a message.
        (with_tokens("<|end|>", "<|return|>", "<|call|>"), ["<|im_end|>", "<|return|>", "<|call|>"]),
        (with_tokens("<|end|>"), ["<|im_end|>", "<|end|>"]),
        (sentence_piece(), ["</s>"]),
        (sentence_piece(eos_token_id=1), ["<s>", "</s>"]),
    ],
)
def test_ends(tmp_path, fields, ends):
    special = read_special_tokens(tmp_path, fields)
    tokens = fields["tokenizer.ggml.tokens"]
    assert sorted(tokens[index] for index in special.ends) == sorted(ends)
    assert tokens[special.ends[0]] == ends[0]


def test_ends_are_no_text(tmp_path):
    """Tokens of these names are control tokens, whatever type the file gives them."""
    fields = with_tokens("<|endoftext|>")
    fields["tokenizer.ggml.token_type"] = [1] * len(fields["tokenizer.ggml.tokens"])
    tokenizer = read_tokenizer(tmp_path, fields)
    assert tokenizer.decode(tokenizer.encode("or<|endoftext|>or")) == "oror"


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CUTS = {
    "default": (r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
    "gpt-2": (GPT2,),
    "smollm": (r"\p{N}", GPT2),
    "phi-2": (GPT2,),
    None: (r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
}


@pytest.mark.parametrize("cut", CUTS)
def test_cuts(tmp_path, cut):
    """A file without a name for its cut has llama.cpp's default, which is not that of GPT-2."""
    ours = read_tokenizer(tmp_path, byte_level(pre=cut))
    reference = tiny.backend()
    steps = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in CUTS[cut]]
    reference.pre_tokenizer = pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(False, use_regex=False)])
    for text in ("hello, world.", "1999 42 10 ½", "  two\n\n  hello's  ", "a+b=c `x` <|im_end|>", "ä\thé"):
        assert ours.encode(text) == reference.encode(text).ids, text


def test_blanks_of_sentence_piece(tmp_path):
    """Prompt and completion are what the whole text is; the first blank belongs to the completion."""
    tokenizer = read_tokenizer(tmp_path, sentence_piece())
    index = (PIECES + WORDS).index
    for prompt in ("hello", "hello wor", "</s>", ""):
        stream = TextStream(tokenizer, tokenizer.encode(prompt))
        pieces = [stream.add(index(piece)) for piece in ("▁hello", "▁w", "or", "▁▁", "▁", "d", "<0xC3>", "<0xA4>")]
        assert pieces == [" hello", " w", "or", "  ", " ", "d", "", "ä"], prompt


def test_blanks_behind_a_prompt_of_a_directory():
    """Without a token to decode behind, it is the prompt: as transformers decodes the whole, less the prompt."""
    backend = read_tokenizer("x", sentence_piece()).backend
    tokenizer = tokenizers_of(backend)
    index = (PIECES + WORDS).index
    prompt = tokenizer.encode("hello</s></s></s></s></s></s>")
    stream = TextStream(tokenizer, prompt)
    assert [stream.add(index(piece)) for piece in ("▁hello", "d")] == [" hello", "d"]
    assert TextStream(tokenizer, [1]).add(index("▁hello")) == "hello"
    half = TextStream(tokenizer, [*prompt, index("<0xC3>")])
    assert [half.add(index(piece)) for piece in ("<0xA4>", "▁w")] == ["ä", " w"]


def tokenizers_of(backend):
    from ms_ascend_ops.llm.tokenizer import Tokenizer  # noqa: PLC0415

    return Tokenizer(tokenizers.Tokenizer.from_str(backend.to_str()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"suppress_tokens": [3]}, "the key tokenizer.ggml.suppress_tokens is not supported"),
        ({"normalizer.lowercase": True}, "normalizer.lowercase is not supported"),
        ({"bos_token_id": 999}, "bos_token_id must be < 264, got 999"),
        ({"merges": [1, 2]}, "merges must be strings"),
        ({"merges": ["ab"]}, "merges must be two tokens each, got 'ab' at 0"),
        ({"tokens": list(range(264))}, "tokens must be strings"),
        ({"token_type": ["a"] * 264}, "token_type must be finite numbers"),
        ({"tokens": ["a" * 70000, *tiny.TOKENS[1:]]}, "token 0 must have at most 65536 characters, got 70000"),
        ({"tokens": ["a" * 2**24, *tiny.TOKENS[1:]]}, "tokens must have at most 16777216 characters"),
    ],
)
def test_keys_that_are_refused(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        read_tokenizer(tmp_path / "m.gguf", byte_level(**change))


def test_long_pieces(tmp_path):
    """A piece costs as much as the square of its length."""
    fields = sentence_piece(tokens=["a" * 513, *PIECES[1:], *WORDS])
    with pytest.raises(ValueError, match="token 0 must have at most 512 characters, got 513"):
        read_tokenizer(tmp_path / "m.gguf", fields)
    with pytest.raises(ValueError, match="scores must be finite numbers"):
        read_tokenizer(tmp_path / "m.gguf", sentence_piece(scores=[float("nan")] * len(PIECES + WORDS)))


@pytest.mark.parametrize(
    ("fields", "scaling"),
    [
        ({"llama.rope.scaling.factor": 4.0}, RopeScaling("linear", 4.0)),  # as llama.cpp has it, without a type
        ({"llama.rope.scale_linear": 2.0}, RopeScaling("linear", 2.0)),
        ({"llama.rope.scaling.type": "none", "llama.rope.scaling.factor": 4.0}, None),
        ({"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 0.0}, None),
        ({"llama.logit_scale": 1.0, "llama.use_parallel_residual": False, "llama.vocab_size": 3}, None),
    ],
)
def test_keys_of_the_network(tmp_path, fields, scaling):
    assert open_checkpoint(tiny.write_gguf(tmp_path / "m.gguf", fields=fields)).config.rope_scaling == scaling


def test_tensors_that_are_not_known(tmp_path):
    """llama.cpp refuses them, too: their number is wrong."""
    weights = tiny.random_weights(tiny.CONFIG)
    weights["model.layers.0.self_attn.k_proj.bias"] = np.zeros(32, np.float32)
    path = tiny.write_gguf(tmp_path / "m.gguf", weights=weights)
    with pytest.raises(ValueError, match=r"the tensor blk\.0\.attn_k\.bias is not known; it is no part of a network"):
        open_checkpoint(path)


def test_a_key_twice(tmp_path):
    path = tiny.write_gguf(tmp_path / "m.gguf")
    data = path.read_bytes()
    path.write_bytes(data.replace(b"llama.attention.head_count\x04", b"llama.attention.key_length\x04", 1))
    with pytest.raises(ValueError, match=r"the key llama\.attention\.key_length is there twice"):
        GGUFFile(path)


def test_a_directory_of_it_says_the_same(tmp_path):
    """What llama.cpp adds to a conversation stands in the template that other programs read."""
    path = tiny.write_gguf(
        tmp_path / "n.gguf", fields={"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.bos_token_id": 5}
    )
    ours = LanguageModel.from_file(path)
    write_directory(open_checkpoint(path), tmp_path / "d", None)
    theirs = LanguageModel.from_file(tmp_path / "d")
    messages = [{"role": "user", "content": "hello"}]
    assert ours.chat_tokens(messages)[0] == 5
    assert theirs.chat_tokens(messages) == ours.chat_tokens(messages)
    assert theirs.tokenizer.encode("hello") == ours.tokenizer.encode("hello")
    assert theirs.template.render(messages) == tiny.TOKENS[5] + ours.template.render(messages)


@pytest.mark.parametrize("size", [3, 300, 5000])
def test_work_in_proportion_to_what_is_allowed(tmp_path, size, monkeypatch):
    """A text is not worked on much beyond the tokens that there is room for."""
    tokenizer = read_tokenizer(tmp_path, byte_level())
    text = "hello world " * 20000
    seen = []
    encode = type(tokenizer).encode
    monkeypatch.setattr(
        type(tokenizer), "encode", lambda self, text, begin=True: seen.append(len(text)) or encode(self, text, begin)
    )
    with pytest.raises(ValueError, match=f"at most {size} tokens, got more than {size}"):
        tokenizer.encode_at_most(size, text)
    assert max(seen) < 20 * size + 2000
    short = "hello" * (size // 2)
    assert tokenizer.encode_at_most(size, short) == tokenizer.encode(short)
