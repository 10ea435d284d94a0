"""A model as users call it, and the commands as they type them."""

import re
import subprocess
import sys
import types

import numpy as np
import pytest
from click.testing import CliRunner

from ms_ascend_ops import extras
from ms_ascend_ops.__main__ import main
from ms_ascend_ops.llm import LanguageModel, Sampling
from ms_ascend_ops.llm.executor import Chunk
from tests.llm import reference, tiny
from tests.pictures import check_picture, drawn

WEIGHTS = tiny.random_weights(tiny.CONFIG)
MESSAGES = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tiny.write_gguf(tmp_path_factory.mktemp("m") / "m.gguf", weights=WEIGHTS)


@pytest.fixture(scope="module")
def model(file):
    return LanguageModel.from_file(file)


def run(*arguments, **options):
    return CliRunner().invoke(main, ["llm", *(str(argument) for argument in arguments)], **options)


def test_generate(model):
    completion = model.generate("hello world", max_tokens=8)
    prompt = tiny.backend().encode("hello world").ids
    assert completion.tokens == tuple(reference.greedy(tiny.CONFIG, tiny.doubles(WEIGHTS), prompt, 8))
    assert completion.prompt_tokens == len(prompt)
    assert completion.finish_reason == "length"
    assert model.generate(prompt, max_tokens=8) == completion


def test_stream(model):
    sampling = Sampling(temperature=2.0, seed=1)
    pieces = list(model.stream("hello", 40, sampling))
    assert len(pieces) > 10
    assert "".join(pieces) == model.generate("hello", 40, sampling).text


def test_who_leaves_a_stream_ends_the_request(model):
    for _ in model.stream("hello", 100, Sampling(temperature=2.0, seed=1)):
        break
    assert not model.scheduler.busy


def test_chat(model):
    text = model.tokenizer.decode(model.chat_tokens(MESSAGES), control=True)
    assert text == "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"


def test_stop_tokens(model):
    assert model.stop_tokens == (tiny.END,)


def test_a_callback_that_raises(model):
    def fails(text):
        raise OSError("gone")

    with pytest.raises(RuntimeError, match="OSError: gone"):
        model.generate("hello", 20, on_text=fails)


def test_no_mindspore_and_no_extra_for_the_core(file):
    """The kernels run without MindSpore; the package's own names come without the packages of the extra."""
    code = (
        "import sys, ms_ascend_ops, ms_ascend_ops.llm, ms_ascend_ops.commands.llm\n"
        "assert not {'tokenizers', 'jinja2', 'gguf', 'safetensors', 'mindspore'} & set(sys.modules)\n"
        f"ms_ascend_ops.llm.LanguageModel.from_file({str(file)!r}).generate('hello', 2)\n"
        "assert 'mindspore' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dtype": "int8"}, "dtype must be one of float32, float16, bfloat16, got 'int8'"),
        ({"weights": "none"}, "weights must be float or quantized, got 'none'"),
        ({"activations": "int4"}, "activations must be int8 or float, got 'int4'"),
        ({"engine": "cuda"}, "engine must be kernels or mindspore, got 'cuda'"),
        ({"context": 999}, "context must be 2 to 256, which the model was made for, got 999"),
    ],
)
def test_bad_arguments(file, arguments, message):
    with pytest.raises(ValueError, match=message):
        LanguageModel.from_file(file, **arguments)


@pytest.mark.parametrize("content", [None, "{}", "no JSON"])
def test_bad_tokenizer_file(tmp_path, content):
    path = tiny.write_directory(tmp_path / "m")
    (path / "tokenizer.json").unlink()
    if content is not None:
        (path / "tokenizer.json").write_text(content)
    with pytest.raises(ValueError, match=r"tokenizer\.json: the (file is missing|tokenizer cannot be made)"):
        LanguageModel.from_file(path)


def test_command_generate(file, model):
    done = run("generate", file, "--prompt", "hello world", "-n", 8, "--timings")
    assert done.exit_code == 0, done.output
    assert done.stdout == model.generate("hello world", 8).text + "\n"
    assert re.search(r"5 tokens of prompts, first answer token after \d+ ms; 8 tokens in", done.stderr)
    both = run("generate", file, "-p", "hello", "-p", "world", "-n", 4)
    assert both.exit_code == 0, both.output
    assert all(text in both.stdout for text in ("hello", "world", model.generate("world", 4).text))
    assert run("generate", file, "-n", 8, input="hello world").stdout == done.stdout
    sampled = [run("generate", file, "-p", "a", "--temperature", 2, "--seed", 5, "-n", 20).stdout for _ in range(2)]
    assert sampled[0] == sampled[1]


def test_command_generate_by_template(file, model):
    done = run("generate", file, "--chat", "-p", "hello", "-n", 6)
    assert done.stdout == model.generate(model.chat_tokens(MESSAGES), 6).text + "\n"


def test_command_chat(file):
    done = run("chat", file, "-n", 4, input="hello\n\n/clear\nhello\n")
    assert done.exit_code == 0, done.output
    assert done.stdout.count("\n") >= 3


def test_command_chat_by_commands(file, monkeypatch):
    """Somebody at a terminal is told what it is, what there is to type, and why an answer ends."""
    monkeypatch.setattr("ms_ascend_ops.commands.llm.chat._greet", print)
    done = run("chat", file, "-n", 3, input="/help\n/nothing\nhello\n/quit\nnever\n")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"{file.name}: a conversation of at most 256 tokens. /help says what else there is")
    assert "/clear begins a new conversation, /quit or Control-D ends it, Control-C stops an answer." in done.stderr
    assert "There is no command /nothing." in done.stderr
    assert "[stopped after --max-tokens 3]" in done.stderr
    assert "never" not in done.output


def test_an_answer_that_fills_the_context(file, model):
    assert model.generate("hello", 300).context_full == (model.generate("hello", 300).finish_reason == "length")
    assert not model.generate("hello", 2).context_full
    done = run("generate", file, "-p", "hello", "-n", 500, "--context", 20)
    assert "[the text ends as the context of 20 tokens is full; see --context]" in done.stderr
    done = run("chat", file, "-n", 500, "--context", 64, input="hello\n")
    assert "[the context of 64 tokens is full: /clear, or start with a larger --context]" in done.stderr


def test_a_conversation_that_fills_the_context(file):
    done = run("chat", file, "-n", 30, "--context", 96, input="hello\n" * 4)
    assert done.exit_code == 0, done.output
    assert "The conversation fills the context (96 tokens): /clear" in done.stderr


def test_command_convert(file, tmp_path):
    done = run("convert", file, tmp_path / "out", "--dtype", "float16")
    assert done.exit_code == 0, done.output
    assert f"llm generate {tmp_path / 'out'}" in done.stdout
    assert run("generate", tmp_path / "out", "-p", "hello", "-n", 2).exit_code == 0
    again = run("convert", file, tmp_path / "out")
    assert again.exit_code == 1
    assert again.stderr == f"Error: {tmp_path / 'out'}: it is there already; delete it, or name another directory\n"


def test_command_perplexity(file, tmp_path):
    (tmp_path / "text").write_text("hello world " * 60)
    done = run("perplexity", file, tmp_path / "text", "--window", 32, "--most", 2)
    assert done.exit_code == 0, done.output
    assert re.match(r"perplexity \d+\.\d+ \+- \d+\.\d+ over 32 tokens, windows of 32, [\d.]+ s\n", done.stdout)


def test_command_perplexity_beside_llama_cpp(file, model, tmp_path, monkeypatch):
    """A module in its place that calculates with this library: the windows, rows and tokens are the same."""
    text = tmp_path / "text"
    text.write_text("hello world " * 60)

    class Llama:
        def __init__(self, path, n_ctx, logits_all, **_):
            assert (path, n_ctx, logits_all) == (str(file), 32, True)
            self.n_tokens, self.scores = 0, np.zeros((n_ctx, model.config.vocabulary), np.float32)

        def tokenize(self, content, add_bos, special):
            return model.tokenizer.encode(content.decode(), begin=False)

        def eval(self, tokens):
            chunk = Chunk(tokens, self.n_tokens, [0])
            self.scores[self.n_tokens : self.n_tokens + len(tokens)] = model.executor.step([chunk], every_row=True)
            self.n_tokens += len(tokens)

    monkeypatch.setitem(sys.modules, "llama_cpp", types.SimpleNamespace(Llama=Llama))
    done = run("perplexity", file, text, "--window", 32, "--most", 2, "--peers")
    assert done.exit_code == 0, done.output
    assert "llama.cpp cuts the text into the same tokens; it predicts ours" in done.stdout
    ours, theirs = re.findall(r"perplexity (\S+) \+-", done.stdout)
    assert ours == theirs
    assert re.search(r"difference [+-]0\.000 % of llama\.cpp's perplexity\n$", done.stdout)
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    done = run("perplexity", file, text, "--window", 32, "--most", 2, "--peers")
    assert done.exit_code == 0, done.output
    assert "llama.cpp: not installed (llama_cpp)" in done.stdout


def test_command_bench(file):
    done = run("bench", file, "-c", 8, "-c", 40, "--tokens", 4, "--runs", 1, "--batch", 2)
    assert done.exit_code == 0, done.output
    assert done.stdout.count("ms_ascend_ops") == 2


def test_command_bench_with_peers(file, tmp_path, monkeypatch):
    for name in ("llama_cpp", "torch"):
        monkeypatch.setitem(sys.modules, name, None)
    image = tmp_path / "speed.svg"
    with drawn() as figures:
        done = run("bench", file, "-c", 8, "--tokens", 4, "--runs", 1, "--peers", "--chart", image)
    check_picture(figures[0])
    assert done.exit_code == 0, done.output
    for text in (
        "llama.cpp: not installed",
        r"ms_ascend_ops, float32 +8 ",
        r"\nMindSpore, float32 +8 ",
        r"first token \d",
    ):
        assert re.search(text, done.stdout), text
    assert image.read_text().count("MindSpore, float32") == 1
    assert "must end with .svg or .png" in run("bench", file, "--chart", tmp_path / "x.pdf").stderr


@pytest.mark.parametrize("command", ["generate", "chat", "perplexity", "convert", "bench"])
def test_bad_files_are_messages(command, file, tmp_path):
    """One line, exit code 1, nothing written."""
    (tmp_path / "text").write_text("hello")
    (tmp_path / "bad.gguf").write_bytes(file.read_bytes()[:5000])
    extra = {"perplexity": ["text"], "convert": ["out"], "generate": ["-p", "x"]}.get(command, [])
    done = run(
        command, tmp_path / "bad.gguf", *[tmp_path / name if name in ("text", "out") else name for name in extra]
    )
    assert done.exit_code == 1
    assert re.fullmatch(r"Error: \S+bad\.gguf: the file is truncated: [^\n]*\n", done.stderr)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.gguf", "text"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-p", "x", "-f", __file__], "either --prompt or --file, not both"),
        (["-p", ""], "the text is empty"),
        (["-p", "x", "--system", "y"], "--system is for --chat"),
        (["-p", "x", "--top-p", "0"], "--top-p"),
    ],
)
def test_bad_options(file, arguments, message):
    done = run("generate", file, *arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def test_missing_extra(file, monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    done = run("generate", file, "-p", "x")
    assert done.exit_code == 2
    assert done.stderr == "Error: llm needs gguf, jinja2, ml_dtypes, tokenizers: pip install 'ms_ascend_ops[llm]'\n"


def test_a_bad_chat_template_is_a_message(tmp_path):
    path = tiny.write_directory(tmp_path / "m")
    (path / "chat_template.jinja").write_text("{{ raise_exception('roles must alternate') }}")
    done = run("generate", path, "--chat", "-p", "x")
    assert done.exit_code == 1
    assert done.stderr == f"Error: {path}: the chat template failed: roles must alternate\n"
