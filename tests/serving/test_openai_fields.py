"""What OpenAI's clients send beside a prompt: probabilities, penalties, schemas, tools, embeddings."""

import asyncio
import base64
import json
import time
from dataclasses import replace

import numpy as np
import pytest

from ms_ascend_ops.llm import LanguageModel, Sampling
from ms_ascend_ops.llm.constraint import json_grammar
from ms_ascend_ops.serving import Settings
from tests.acceptance import assert_close
from tests.llm import reference, tiny
from tests.llm.test_tool_calls import HERMES, WEATHER
from tests.serving.conftest import Served

pytest.importorskip("llguidance")

COMPLETIONS, CHAT, EMBEDDINGS = "/v1/completions", "/v1/chat/completions", "/v1/embeddings"
MESSAGES = [{"role": "user", "content": "hello world"}]
CONFIG = replace(tiny.CONFIG, tied_embedding=False, context=1024)
WEIGHTS = tiny.random_weights(CONFIG)
SCHEMA = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model whose template knows tools."""
    path = tiny.write_directory(tmp_path_factory.mktemp("fields") / "caller", CONFIG, WEIGHTS)
    (path / "chat_template.jinja").write_text(HERMES)
    return path


@pytest.fixture(scope="module")
def model(folder):
    one = LanguageModel.from_file(folder)
    yield one
    one.grammars.close()


@pytest.fixture(scope="module")
def served(folder, tmp_path_factory):
    plain = tiny.write_gguf(tmp_path_factory.mktemp("plain") / "tiny.gguf", CONFIG, WEIGHTS)
    one = Served(Settings(models={"caller": folder, "tiny": plain}))
    yield one
    one.close()


def ask(served, path=CHAT, **fields):
    given = {"prompt": "hello world"} if path == COMPLETIONS else {"messages": MESSAGES}
    answer = served.post(path, {"model": "caller", "temperature": 0, "max_tokens": 8, **given, **fields})
    assert answer.status_code == 200, answer.text
    if not fields.get("stream"):
        return answer.json()["choices"]
    lines = answer.text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [one for line in lines[:-2] for one in json.loads(line.removeprefix("data: "))["choices"]]


def expected_logprobs(ids):
    """Of each token behind the first, from the network in float64."""
    logits = reference.logits(CONFIG, tiny.doubles(WEIGHTS), ids)
    logits -= logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


@pytest.mark.parametrize("stream", [False, True])
def test_logprobs_of_a_conversation(served, model, stream):
    prompt = model.chat_tokens(MESSAGES)
    tokens = list(model.generate(prompt, 8).tokens)
    choices = ask(served, logprobs=True, top_logprobs=3, stream=stream)
    content = [one for choice in choices for one in (choice["logprobs"] or {"content": []})["content"]]
    assert b"".join(bytes(one["bytes"]) for one in content) == b"".join(map(model.tokenizer.bytes_of, tokens))
    table = expected_logprobs([*prompt, *tokens])[len(prompt) - 1 : -1]
    for one, row, token in zip(content, table, tokens, strict=True):
        assert one["logprob"] == pytest.approx(row[token], abs=0.02)  # the cache is float16
        best = np.argsort(-row)[:3]
        assert [top["logprob"] for top in one["top_logprobs"]] == pytest.approx(row[best].tolist(), abs=0.02)


def test_logprobs_of_a_prompt(served, model):
    """As programs that rate answers ask for them: nothing is generated."""
    ids = model.tokenizer.encode("hello world")
    (choice,) = ask(served, COMPLETIONS, echo=True, max_tokens=0, logprobs=1)
    known = choice["logprobs"]
    assert (choice["text"], known["token_logprobs"][0], known["top_logprobs"][0]) == ("hello world", None, None)
    table = expected_logprobs(ids)
    wanted = [table[place, token] for place, token in enumerate(ids[1:])]
    assert known["token_logprobs"][1:] == pytest.approx(wanted, abs=0.02)
    assert "".join(known["tokens"]) == "hello world"
    places = zip(known["text_offset"], known["tokens"], strict=True)
    assert all(choice["text"][place:].startswith(token) for place, token in places)
    both = ask(served, COMPLETIONS, echo=True, logprobs=0, max_tokens=4)[0]["logprobs"]
    assert len(both["tokens"]) == len(ids) + 4
    assert both["token_logprobs"][1 : len(ids)] == known["token_logprobs"][1:]


def test_penalties_and_bias(served, model):
    """By their definition: the counts of what was generated are taken from the logits."""
    prompt = model.chat_tokens(MESSAGES)
    ids, counts = list(prompt), {}
    for _ in range(8):
        row = reference.logits(CONFIG, tiny.doubles(WEIGHTS), ids)[-1]
        for token, count in counts.items():
            row[token] -= 1.5 + 0.5 * count
        row[70] += 2
        ids.append(int(row.argmax()))
        counts[ids[-1]] = counts.get(ids[-1], 0) + 1
    options = {"presence_penalty": 1.5, "frequency_penalty": 0.5, "logit_bias": {"70": 2}}
    (choice,) = ask(served, **options)
    assert choice["message"]["content"] == model.tokenizer.decode(ids[len(prompt) :])
    sampling = Sampling(presence_penalty=1.5, frequency_penalty=0.5, logit_bias=((70, 2.0),))
    assert model.generate(prompt, 8, sampling).tokens == tuple(ids[len(prompt) :])


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_a_schema(served, path):
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}
    choices = ask(served, path, response_format=form, max_tokens=120, n=2, temperature=1.0, seed=3)
    for choice in choices:
        text = choice["message"]["content"] if path == CHAT else choice["text"]
        assert json.loads(text) in ({"a": 1}, {"a": 2})
        assert choice["finish_reason"] == "stop"
    text = ask(served, response_format={"type": "json_object"}, max_tokens=3)[0]["message"]["content"]
    assert text.startswith("{")


@pytest.mark.parametrize("name", ["caller", "tiny"])
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}])
def test_a_forced_call(served, name, choice):
    """By a template that knows tools, and by one that does not; at once and as a stream."""
    asked = {"model": name, "tools": [WEATHER], "tool_choice": choice, "max_tokens": 500}
    (whole,) = ask(served, **asked)
    assert whole["finish_reason"] == "tool_calls"
    (call,) = whole["message"]["tool_calls"]
    assert (call["type"], call["function"]["name"], whole["message"]["content"]) == ("function", "weather", None)
    assert json.loads(call["function"]["arguments"])["city"] in ("Rome", "Oslo")
    pieces = ask(served, **asked, stream=True)
    (streamed,) = (one for piece in pieces for one in piece["delta"].get("tool_calls", []))
    assert streamed["function"] == call["function"]
    assert streamed["index"] == 0
    assert pieces[-1]["finish_reason"] == "tool_calls"
    assert not "".join(piece["delta"].get("content") or "" for piece in pieces)


@pytest.mark.parametrize("stream", [False, True])
def test_a_forced_call_that_is_cut(served, stream):
    """The call as far as it goes, and no markers of the template in the text."""
    asked = {"tools": [WEATHER], "tool_choice": "required", "logprobs": True}
    whole = ask(served, **asked, max_tokens=500)[0]["logprobs"]["content"]
    choices = ask(served, **asked, max_tokens=len(whole) - 2, stream=stream)
    said = [choice["delta" if stream else "message"] for choice in choices]
    (call,) = (call for one in said for call in one.get("tool_calls", []))
    assert call["function"]["name"] == "weather"
    assert not any(one.get("content") for one in said)
    assert choices[-1]["finish_reason"] == "length"


def test_tools_that_are_not_called(served, model):
    """With auto the model says what it says; the template was told of them, and of the call before."""
    said = {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
    ]}  # fmt: skip
    messages = [*MESSAGES, said, {"role": "tool", "tool_call_id": "c", "content": "18"}]
    (choice,) = ask(served, messages=messages, tools=[WEATHER], max_tokens=20)
    given = [*MESSAGES, {"role": "assistant", "content": "", "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "weather", "arguments": {"city": "Rome"}}}
    ]}, {"role": "tool", "tool_call_id": "c", "content": "18"}]  # fmt: skip
    expected = model.generate(model.chat_tokens(given, [WEATHER]), 20)
    assert choice["message"]["content"] == expected.text
    assert choice["finish_reason"] == expected.finish_reason
    none = ask(served, tools=[WEATHER], tool_choice="none", max_tokens=20)
    assert none[0]["message"]["content"] == model.generate(model.chat_tokens(MESSAGES), 20).text


def test_embeddings(served, model):
    """The mean of the states behind the last norm in float64: the head is left out by one that is the identity."""
    head = {**tiny.doubles(WEIGHTS), "lm_head.weight": np.eye(CONFIG.hidden)}
    answer = served.post(EMBEDDINGS, {"model": "caller", "input": ["hello world", "a" * 40, "h"]}).json()
    for one, text in zip(answer["data"], ("hello world", "a" * 40, "h"), strict=True):
        state = reference.logits(CONFIG, head, model.tokenizer.encode(text)).mean(0)
        np.testing.assert_allclose(one["embedding"], state / np.linalg.norm(state), atol=2e-3)
    assert [one["index"] for one in answer["data"]] == [0, 1, 2]
    assert answer["usage"]["prompt_tokens"] == sum(
        len(model.tokenizer.encode(text)) for text in ("hello world", "a" * 40, "h")
    )
    asked = {
        "model": "caller",
        "input": model.tokenizer.encode("hello world"),
        "encoding_format": "base64",
        "dimensions": 8,
    }
    (short,) = served.post(EMBEDDINGS, asked).json()["data"]
    vector = np.frombuffer(base64.b64decode(short["embedding"]), "<f4")
    whole = np.array(answer["data"][0]["embedding"][:8])
    assert_close(vector, whole / np.linalg.norm(whole), atol=1e-6)


def test_a_full_context_is_a_length(served, model):
    """Without max_tokens an answer goes to the end of the context, and says so."""
    answer = served.post(
        CHAT, {"model": "caller", "messages": MESSAGES, "temperature": 0, "logit_bias": {str(tiny.END): -100}}
    )
    fields = answer.json()
    assert fields["choices"][0]["finish_reason"] == "length"
    assert fields["usage"]["total_tokens"] == model.executor.context


DEEP = {"type": "object"}
for _ in range(40):
    DEEP = {"type": "object", "properties": {"a": DEEP}}


def schema(value):
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": value}}}


@pytest.mark.parametrize(
    ("changes", "message", "parameter"),
    [
        ({"top_logprobs": 3}, "top_logprobs needs logprobs", "top_logprobs"),
        ({"logprobs": 1}, "logprobs must be true or false, got 1", "logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs must be an integer from 0 to 20", "top_logprobs"),
        ({"max_tokens": 3000}, "max_tokens is 3000: the context of caller is 1024 tokens", "max_tokens"),
        ({"max_tokens": None, "max_completion_tokens": 3000}, "max_completion_tokens is 3000", "max_completion_tokens"),
        ({"messages": [{"role": "user", "content": "ab" * 900}]}, "the context of caller is 1024 tokens", "messages"),
        ({"response_format": "json"}, "response_format must be an object", "response_format"),
        ({"response_format": {"type": "xml"}}, "response_format must be of the type text", "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format must have a json_schema", "response_format"),
        (schema({"type": "strin"}), "the schema cannot be used: Invalid type: strin", "response_format"),
        (schema({"type": "string", "pattern": "(("}), "cannot be used: regex parse error", "response_format"),
        (schema(DEEP), "response_format is too large", "response_format"),
        (schema({"enum": list(range(20000))}), "response_format is too large", "response_format"),
        (schema({"const": "x" * 70000}), "response_format is too large", "response_format"),
        (schema({"minimum": 10**30}), "response_format must have numbers below", "response_format"),
        ({"tools": [{"type": "function"}]}, "a tool must be of the type function", "tools"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "a tool must be of the type", "tools"),
        ({"tools": [WEATHER, WEATHER]}, "two tools have the same name", "tools"),
        ({"tools": [WEATHER] * 200}, "tools must be at most 128", "tools"),
        ({"tool_choice": "required"}, "tool_choice needs tools", "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": "time"}, "tool_choice must be auto, none, required or one", "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function", "function": {}}}, "tool_choice", "tool_choice"),
        ({"tools": [WEATHER], "tool_choice": "required", **schema(SCHEMA)}, "cannot both be", "response_format"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": "{"}}]}]},
         "the arguments of a call must be JSON", "messages"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": "[" * 9999}}]}]},
         "the arguments of a call must be JSON", "messages"),
        ({"messages": [{"role": "assistant", "tool_calls": 5}]}, "tool_calls must be a list", "messages"),
    ],
)  # fmt: skip
def test_wrong_fields(served, changes, message, parameter):
    fields = {"model": "caller", "messages": MESSAGES, "max_tokens": 4, **changes}
    answer = served.post(CHAT, {name: value for name, value in fields.items() if value is not None})
    assert answer.status_code == 400, answer.text
    assert message in answer.json()["error"]["message"]
    assert answer.json()["error"]["param"] == parameter


@pytest.mark.parametrize(
    ("changes", "message", "parameter"),
    [
        ({"input": None}, "input must be 1 to 64 texts", "input"),
        ({"input": ""}, "each input must have 1 to 1023 tokens, got 0", "input"),
        ({"input": "ab" * 900}, "the context of caller is 1024 tokens: the input has 1800", "input"),
        ({"input": [[1, 10**9]]}, "tokens must be 0 to", "input"),
        ({"encoding_format": "xml"}, "encoding_format must be float or base64", "encoding_format"),
        ({"dimensions": 65}, "dimensions must be an integer from 1 to 64", "dimensions"),
        ({"temperature": 1}, "there is no field 'temperature'", "temperature"),
        ({"model": None}, "the field model is missing", "model"),
    ],
)
def test_wrong_embeddings(served, changes, message, parameter):
    answer = served.post(EMBEDDINGS, {"model": "caller", "input": "hello", **changes})
    assert answer.status_code == 400, answer.text
    assert message in answer.json()["error"]["message"]
    assert answer.json()["error"]["param"] == parameter


def test_the_loop_goes_on_while_schemas_compile(served, monkeypatch):
    """Schemas that take all they may, and large tools: what runs in the event loop at once is short, and a request
    without a schema is answered meanwhile."""
    monkeypatch.setattr("ms_ascend_ops.llm.constraint._SECONDS", 0.5)
    bomb = {
        "model": "caller",
        "messages": MESSAGES,
        "max_tokens": 4,
        **schema({"type": "integer", "multipleOf": 9999999}),
    }
    tools = [{"type": "function", "function": {"name": f"f{n}", "description": "x" * 400}} for n in range(100)]
    large = {"model": "caller", "messages": MESSAGES, "max_tokens": 4, "tools": tools}

    async def scenario():
        started = [asyncio.ensure_future(served.client.post(CHAT, json=one)) for one in (bomb, bomb, bomb, large)]
        plain = asyncio.ensure_future(
            served.client.post(CHAT, json={"model": "caller", "messages": MESSAGES, "max_tokens": 4})
        )
        worst, last = 0.0, time.thread_time()
        while not all(one.done() for one in started):
            await asyncio.sleep(0.001)
            now = time.thread_time()
            worst, last = max(worst, now - last), now
        return worst, [one.result().status_code for one in started], (await plain).status_code

    worst, codes, plain = served.run(scenario())
    assert (codes, plain) == ([400, 400, 400, 400], 200)
    assert worst < 0.1
    assert json_grammar(SCHEMA)[0]["json_schema"]["type"] == "object"


def test_without_the_extra(served, monkeypatch):
    monkeypatch.setitem(__import__("ms_ascend_ops.extras", fromlist=["PACKAGES"]).PACKAGES, "structured", ("no_such",))
    answer = served.post(CHAT, {"model": "caller", "messages": MESSAGES, "response_format": {"type": "json_object"}})
    assert answer.status_code == 400
    assert "response_format needs no_such on the server: pip install 'ms_ascend_ops[structured]'" in answer.text
