"""Tokens, streams of text, stop texts, chat templates."""

import gguf
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers

from ms_ascend_ops.llm import chat_template
from ms_ascend_ops.llm.chat_template import ChatTemplate
from ms_ascend_ops.llm.checkpoints import open_checkpoint
from ms_ascend_ops.llm.checkpoints.gguf_file import GGUFFile
from ms_ascend_ops.llm.checkpoints.gguf_tokenizer import read_tokenizer
from ms_ascend_ops.llm.text import StopFilter
from ms_ascend_ops.llm.tokenizer import TextStream, Tokenizer
from tests.llm import tiny
from tests.llm.test_gguf_text import sentence_piece

TOKENIZER = Tokenizer(tiny.backend())


@given(st.text(max_size=60))
def test_round_trip(text):
    assert TOKENIZER.decode(TOKENIZER.encode(text), control=True) == text


def test_gguf_tokenizer(tmp_path):
    """From the keys of a file the tokenizer that they were written from."""
    tokenizer = open_checkpoint(tiny.write_gguf(tmp_path / "m.gguf")).make_tokenizer()
    for text in ("hello world", "  two  spaces\n", "<|im_start|>user\nähm 👍<|im_end|>", ""):
        assert tokenizer.encode(text) == tiny.backend().encode(text).ids
        assert tokenizer.decode(tokenizer.encode(text), control=True) == text
    assert tokenizer.decode(tokenizer.encode("a<|im_end|>")) == "a"
    assert tokenizer.id_of("<|im_end|>") == tiny.END


@pytest.mark.parametrize("prefix", [True, False])
def test_sentence_piece(tmp_path, prefix):
    """Scores instead of merges, bytes for characters that are no token; a BOS token, as such files want it."""
    tokenizer = read_tokenizer(tmp_path, sentence_piece(bos_token_id=1, add_space_prefix=prefix))
    ids = tokenizer.encode("hello world ä")
    pieces = [tokenizer.token(index) for index in ids]
    head = ["▁hello"] if prefix else ["hello"]
    assert pieces == ["<s>", *head, "▁wor", "l", "d", "▁", "<0xC3>", "<0xA4>"]
    assert tokenizer.decode(ids) == "hello world ä"
    assert tokenizer.encode("hello", begin=False) == tokenizer.encode("hello")[1:]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokenizer.ggml.model": "bert"}, "tokenizer.ggml.model must be gpt2 or llama, got 'bert'"),
        ({"tokenizer.ggml.pre": "runes"}, "tokenizer.ggml.pre must be one of .*, got 'runes'"),
        ({"tokenizer.ggml.merges": ["x y"]}, "the tokenizer cannot be made"),
        ({"tokenizer.ggml.merges": None}, "tokenizer.ggml.merges is missing, or no list"),
        ({"tokenizer.ggml.tokens": ["a", "a"], "tokenizer.ggml.token_type": [1, 1]}, "cannot be made|tokens twice"),
        ({"tokenizer.ggml.token_type": [1]}, "token_type must have 264 elements"),
    ],
)
def test_bad_tokenizers(tmp_path, change, message):
    path = tiny.write_gguf(tmp_path / "m.gguf")
    fields = dict(GGUFFile(path).fields) | change
    with pytest.raises(ValueError, match=f"m.gguf: .*{message}"):
        read_tokenizer(path, fields)


@given(st.text(max_size=40))
def test_stream_of_text(text):
    """Pieces add up, and none ends within a character."""
    stream = TextStream(TOKENIZER)
    pieces = [stream.add(token) for token in TOKENIZER.encode(text)]
    if "\N{REPLACEMENT CHARACTER}" not in text:
        assert not any("\N{REPLACEMENT CHARACTER}" in piece for piece in pieces)
    assert "".join(pieces) + stream.finish() == TOKENIZER.decode(TOKENIZER.encode(text))


def test_stream_waits_for_a_character():
    stream = TextStream(TOKENIZER)
    assert [stream.add(token) for token in TOKENIZER.encode("a👍b")] == ["a", "", "", "", "👍", "b"]
    half = TextStream(TOKENIZER)
    assert [half.add(token) for token in TOKENIZER.encode("👍")[:2]] == ["", ""]
    assert half.finish() == "\N{REPLACEMENT CHARACTER}"


def test_stream_keeps_spaces():
    """A decoder that drops the first space of a text drops no other."""
    backend = tokenizers.Tokenizer(models.BPE({"<unk>": 0, "▁a": 1, "b": 2}, [], unk_token="<unk>"))
    backend.normalizer = normalizers.Replace(" ", "▁")
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    stream = TextStream(Tokenizer(backend))
    assert [stream.add(token) for token in (1, 1, 2, 1)] == ["a", " a", "b", " a"]


@given(st.text("abc", max_size=30), st.lists(st.text("abc", min_size=1, max_size=4), max_size=3), st.randoms())
def test_stop_texts(text, stops, random):
    """In whatever pieces it comes: all before the first stop text, or all."""
    stop_filter, given_out, rest = StopFilter(stops), "", text
    while rest:
        size = random.randint(1, 4)
        given_out += stop_filter.add(rest[:size])
        rest = rest[size:]
    given_out += stop_filter.finish()
    # Which comes first is decided where the first of them is complete.
    ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
    assert stop_filter.stopped == bool(ends)
    if not ends:
        assert given_out == text
    else:
        assert text.startswith(given_out)
        assert not any(stop in given_out for stop in stops)
        assert any(text[len(given_out) :].startswith(stop) for stop in stops)


MESSAGES = [{"role": "user", "content": "Hi"}]


def test_template():
    template = ChatTemplate(tiny.TEMPLATE, "m")
    assert template.render(MESSAGES) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert template.render(MESSAGES, generate=False) == "<|im_start|>user\nHi<|im_end|>\n"


def test_what_templates_use():
    text = "{{ bos_token }}{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m['content'] | trim }}"
    text += "{% endfor %}{{ {'a': 'ä'} | tojson }}{{ strftime_now('%Y') | length }}{{ eos_token }}"
    template = ChatTemplate(text, "m", {"bos_token": "<s>", "eos_token": "</s>"})
    assert template.render([*MESSAGES, {"role": "user", "content": " x "}]) == '<s>x{"a": "ä"}4</s>'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages[0].content.missing.deeper }}", "has no attribute"),
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "did not end within 0.4 s"),
        (
            "{% for a in range(99999) %}{% for b in range(999) %}xxxxxxxx{% endfor %}{% endfor %}",
            "more than 10000000|did not end",
        ),
        ("{{ 'x' * 99999999999 }}", "more than 512 MiB of memory"),
        ("{{ 'x'.ljust(6000000000) }}", "more than 512 MiB of memory"),
        ("{{ 'a\\nb' | indent(width=6000000000) }}", "more than 512 MiB of memory"),
        ("{{ '{:>6000000000}'.format(1) }}", "more than 512 MiB of memory"),
        ("{{ [1] | slice(1000000000) | list | length }}", "did not end within 0.4 s"),
        ("{{ " + "-" * 300 + "x }}", "cannot be compiled: .*did not end within 0.4 s"),
        ("{% for a in [1] %}" * 25 + "{% endfor %}" * 25, "cannot be compiled: too many statically nested blocks"),
        ("{% if 1 %}" * 3000 + "{% endif %}" * 3000, "cannot be compiled: it nests too deeply"),
        ("x" * 2**20 + "x", "cannot be compiled: it has more than 1048576 characters"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ '%999999999d' % 1 }}", "more than 512 MiB of memory"),
        ("{{ 'x' | center(999999999) }}", "more than 512 MiB of memory"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recursion"),
        ("{{ messages.append(1) }}", "not safely callable|immutable|unsafe"),
    ],
)
def test_bad_templates(text, message, monkeypatch):
    monkeypatch.setattr(chat_template, "_SECONDS", 0.4)
    with pytest.raises(ValueError, match=f"m: the chat template .*(?:{message})") as raised:
        ChatTemplate(text, "m").render(MESSAGES)
    assert "\n" not in str(raised.value)


def test_template_that_cannot_be_compiled():
    with pytest.raises(ValueError, match="m: the chat template cannot be compiled"):
        ChatTemplate("{% for %}", "m")


TEMPLATES = {
    "generation": "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}",
    "tools": "{% if tools is not none %}{{ tools | tojson }}{% endif %}{{ messages[0].content }}",
    "documents": "{% if documents is none %}no{% else %}{{ documents | length }}{% endif %}",
    "json": "{{ messages[0] | tojson(separators=(',', ':'), sort_keys=true) }}{{ messages | tojson(indent=2) }}",
    "format": "{{ '%s!' % messages[0].content }}{{ 'x' | center(5) }}{{ '%03d' | format(7) }}",
    "namespace": "{% set n = namespace(i=0) %}{% for m in messages %}{% set n.i = n.i + 1 %}{% endfor %}{{ n.i }}",
    "dict": "{{ dict(a=1, b=none) }}{{ dict.fromkeys(['x'], 2) }}",
    "none": "{{ messages[1].content is defined }}{{ messages[1].tool_calls is defined }}",
}


@pytest.mark.parametrize("tools", [None, [{"name": "f", "parameters": {"ä": 1}}]], ids=["plain", "tools"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_beside_transformers(name, tools):
    """What a template may use, and what comes of it. Its values are those of transformers 5.24."""
    utils = pytest.importorskip("transformers.utils.chat_template_utils")
    messages = [{"role": "user", "content": "x <y>"}, {"role": "assistant", "content": "ä", "tool_calls": None}]
    ours = ChatTemplate(TEMPLATES[name], "m").render(messages, generate=False, tools=tools)
    normalized = utils._normalize_chat_messages(messages) if hasattr(utils, "_normalize_chat_messages") else messages
    assert ours == utils.render_jinja_template([normalized], tools=tools, chat_template=TEMPLATES[name])[0][0]


def test_template_goes_on_after_its_end():
    """The process of a template that was ended is started again for the next conversation."""
    template = ChatTemplate("{{ 'x' * messages[0].n }}{% for a in range(messages[0].n) %}{% endfor %}", "m")
    assert template.render([{"n": 3}]) == "xxx"
    template._process.stop()
    assert template.render([{"n": 2}]) == "xx"


def test_gguf_package_reads_the_same(tmp_path):
    path = tiny.write_gguf(tmp_path / "m.gguf")
    ours, theirs = GGUFFile(path).fields, gguf.GGUFReader(path).fields
    for key, value in ours.items():
        assert value == theirs[key].contents(), key
