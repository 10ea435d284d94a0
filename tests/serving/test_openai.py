"""OpenAI's API, by a model whose tokens are known from calling it without a server."""

import asyncio
import json
import re
import threading
import time
from types import SimpleNamespace

import pytest

from ms_ascend_ops.llm import LanguageModel, Sampling
from ms_ascend_ops.serving import Settings, language
from ms_ascend_ops.serving.language import Generation
from tests.llm import tiny
from tests.serving.conftest import Served

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "hello world"}]


@pytest.fixture(scope="module")
def model(language_file):
    return LanguageModel.from_file(language_file)


def events(answer):
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = answer.text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


def test_models(served):
    listed = served.get("/v1/models").json()
    assert listed["object"] == "list"
    assert [one["id"] for one in listed["data"]] == ["tiny", "tiny:1"]
    assert served.get("/v1/models/tiny").json()["object"] == "model"
    assert served.get("/v1/models/other").status_code == 404


def test_completion(served, model):
    expected = model.generate("hello world", 20)
    answer = served.post(COMPLETIONS, {"model": "tiny", "prompt": "hello world", "max_tokens": 20, "temperature": 0})
    fields = answer.json()
    assert fields["object"] == "text_completion"
    assert fields["choices"] == [
        {"index": 0, "text": expected.text, "logprobs": None, "finish_reason": expected.finish_reason}
    ]
    prompt = expected.prompt_tokens
    usage = fields["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (prompt, 20, prompt + 20)


def test_seed_temperature_and_top_p(served, model):
    options = {"temperature": 0.9, "top_p": 0.7, "seed": 5}
    expected = model.generate("hello", 16, Sampling(**options)).text  # 16: what OpenAI generates without max_tokens
    asked = {"model": "tiny:1", "prompt": "hello", **options}
    texts = {served.post(COMPLETIONS, asked).json()["choices"][0]["text"] for _ in range(2)}
    assert texts == {expected}
    assert served.post(COMPLETIONS, asked | {"seed": 6}).json()["choices"][0]["text"] != expected


def test_several_prompts_and_choices(served, model):
    """Two prompts, one of them tokens, with two choices each: seeds 3 and 4."""
    ids = model.tokenizer.encode("world")
    asked = {"model": "tiny", "prompt": ["hello", "he"], "n": 2, "seed": 3, "max_tokens": 6, "echo": True}
    choices = served.post(COMPLETIONS, asked).json()["choices"]
    expected = [
        text + model.generate(text, 6, Sampling(1.0, seed=seed)).text for text in ("hello", "he") for seed in (3, 4)
    ]
    assert [choice["text"] for choice in choices] == expected
    assert [choice["index"] for choice in choices] == [0, 1, 2, 3]
    one = served.post(COMPLETIONS, {"model": "tiny", "prompt": ids, "temperature": 0, "max_tokens": 4}).json()
    assert one["choices"][0]["text"] == model.generate("world", 4).text


def test_chat(served, model):
    tokens = model.chat_tokens(MESSAGES)
    expected = model.generate(tokens, 12)
    asked = {"model": "tiny", "messages": MESSAGES, "max_completion_tokens": 12, "temperature": 0}
    fields = served.post(CHAT, asked).json()
    assert fields["object"] == "chat.completion"
    assert fields["choices"][0]["message"] == {"role": "assistant", "content": expected.text, "refusal": None}
    parts = [{"role": "user", "content": [{"type": "text", "text": "hello"}, {"type": "text", "text": " world"}]}]
    assert served.post(CHAT, asked | {"messages": parts}).json()["choices"] == fields["choices"]


@pytest.mark.parametrize("path", [COMPLETIONS, CHAT])
def test_stream(served, path):
    """The pieces are what comes at once without a stream; usage is the last of them."""
    asked = {"model": "tiny", "max_tokens": 15, "temperature": 0.8, "seed": 1, "n": 2}
    asked |= {"prompt": "hello"} if path == COMPLETIONS else {"messages": MESSAGES}
    whole = served.post(path, asked).json()
    pieces = events(served.post(path, asked | {"stream": True, "stream_options": {"include_usage": True}}))
    assert pieces[-1]["choices"] == []
    assert pieces[-1]["usage"]["total_tokens"] == whole["usage"]["total_tokens"]
    assert {piece["usage"] for piece in pieces[:-1]} == {None}
    assert len({piece["id"] for piece in pieces}) == 1
    for choice in whole["choices"]:
        own = [one for piece in pieces for one in piece["choices"] if one["index"] == choice["index"]]
        reasons = [one["finish_reason"] for one in own]
        assert reasons == [None] * (len(own) - 1) + [choice["finish_reason"]]
        if path == COMPLETIONS:
            assert "".join(one["text"] for one in own) == choice["text"]
        else:
            assert own[0]["delta"] == {"role": "assistant", "content": ""}
            assert "".join(one["delta"].get("content", "") for one in own) == choice["message"]["content"]


def test_stop(served, model):
    text = model.generate("hello", 40).text
    stop = text[5:7]
    asked = {"model": "tiny", "prompt": "hello", "max_tokens": 40, "temperature": 0, "stop": [stop, "never there"]}
    choice = served.post(COMPLETIONS, asked).json()["choices"][0]
    assert choice["text"] == text[: text.index(stop)]
    assert choice["finish_reason"] == "stop"


def test_many_at_once(served, model):
    """More than the batch holds; each gets what it gets alone."""

    async def all_of_them():
        return await asyncio.gather(*(served.client.post(COMPLETIONS, json=asked(seed)) for seed in range(30)))

    def asked(seed):
        return {"model": "tiny", "prompt": "hello " * (1 + seed % 5), "max_tokens": 3 + seed % 9, "seed": seed}

    for seed, answer in enumerate(served.run(all_of_them())):
        expected = model.generate("hello " * (1 + seed % 5), 3 + seed % 9, Sampling(1.0, seed=seed))
        assert answer.json()["choices"][0]["text"] == expected.text


@pytest.mark.parametrize(
    ("changes", "message", "parameter"),
    [
        ({"model": None}, "the field model is missing", "model"),
        ({"model": "block"}, "block is no language model", "model"),
        ({"prompt": None}, "prompt must be 1 to 64 texts", "prompt"),
        ({"prompt": []}, "prompt must be", "prompt"),
        ({"prompt": ""}, "at least 1 token", "prompt"),
        ({"prompt": [1, 10**9]}, "tokens must be 0 to", "prompt"),
        ({"prompt": [10**400], "echo": True}, "tokens must be 0 to", "prompt"),
        ({"prompt": [1, "x"]}, "prompt must be texts or lists", "prompt"),
        ({"prompt": "\ud800"}, "half of a character", "prompt"),
        ({"prompt": "x" * 300}, "the context of tiny is 256 tokens: the prompt has 300", "prompt"),
        ({"max_tokens": 0}, "max_tokens must be an integer from 1", "max_tokens"),
        (
            {"max_tokens": 256},
            "max_tokens is 256: the context of tiny is 256 tokens, of which the prompt has 1",
            "max_tokens",
        ),
        ({"temperature": -1}, "temperature must be a number from 0 to 2", "temperature"),
        ({"temperature": "1"}, "temperature must be a number", "temperature"),
        ({"top_p": 0}, "top_p must be larger than 0", "top_p"),
        ({"top_p": 1.5}, "top_p must be a number from 0 to 1", "top_p"),
        ({"n": 65}, "n must be an integer from 1 to 64", "n"),
        ({"seed": 1.5}, "seed must be an integer", "seed"),
        ({"stop": [1]}, "stop must be a text", "stop"),
        ({"stream": "yes"}, "stream must be true or false", "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options needs stream", "stream_options"),
        ({"logprobs": 21}, "logprobs must be an integer from 0 to 20", "logprobs"),
        ({"presence_penalty": 2.5}, "presence_penalty must be a number from -2 to 2", "presence_penalty"),
        ({"frequency_penalty": float("nan")}, "frequency_penalty must be a number", "frequency_penalty"),
        ({"logit_bias": {"x": 1}}, "logit_bias must be a map of tokens", "logit_bias"),
        ({"logit_bias": {"99999": 1}}, "tokens of logit_bias must be 0 to", "logit_bias"),
        ({"best_of": 4}, "best_of is not supported", "best_of"),
        ({"temprature": 1}, "there is no field 'temprature'", "temprature"),
    ],
)
def test_wrong_requests(served, changes, message, parameter):
    answer = served.run(
        served.client.post(COMPLETIONS, content=json.dumps({"model": "tiny", "prompt": "hello", "seed": 1} | changes))
    )
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert message in error["message"]
    assert error["param"] == parameter


@pytest.mark.parametrize(
    "messages",
    [None, [], "hello", [{"content": "x"}], [{"role": "tool"}], [{"role": "user"}], [None],
     [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}]],
)  # fmt: skip
def test_wrong_messages(served, messages):
    answer = served.post(CHAT, {"model": "tiny", "messages": messages})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "messages"


def test_unknown_model(served):
    answer = served.post(COMPLETIONS, {"model": "gpt-4o", "prompt": "x"})
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "model_not_found"
    assert "did you mean" not in answer.json()["error"]["message"]
    assert served.get("/v1/models/tinny").json()["error"]["message"].endswith("; did you mean tiny?")
    assert served.get("/v1/nothing").json()["error"]["message"] == "there is no such path"


@pytest.fixture
def narrow(language_file):
    """A server for one sequence at once, and one more in the queue."""
    one = Served(Settings(models={"tiny": language_file}, defaults={"batch": 1, "queue": 1, "timeout_s": 30}))
    yield one
    one.close()


@pytest.fixture
def held(monkeypatch):
    """Events: `words` is set when an answer has its first words; the model makes no step then until `may_go_on` is."""
    from ms_ascend_ops.llm.scheduler import Scheduler  # noqa: PLC0415

    step, events = Scheduler.step, SimpleNamespace(words=threading.Event(), may_go_on=threading.Event())

    def held_step(self):
        if any(sequence.request.text for sequence in self._running):
            events.words.set()
            assert events.may_go_on.wait(60)
        step(self)

    monkeypatch.setattr(Scheduler, "step", held_step)
    yield events
    events.may_go_on.set()


LONG = {"model": "tiny", "prompt": "hello", "max_tokens": 50, "temperature": 0}


def test_busy_and_late(narrow, held, monkeypatch):
    """The third at once is refused; what takes too long is given up, and its place is free then."""
    pieces, seconds = Generation.pieces, iter([60, 0.1, 60])
    monkeypatch.setattr(Generation, "pieces", lambda self, _: pieces(self, next(seconds)))

    async def three():
        first = asyncio.ensure_future(narrow.client.post(COMPLETIONS, json=LONG))
        assert await asyncio.to_thread(held.words.wait, 60)
        others = await asyncio.gather(*(narrow.client.post(COMPLETIONS, json=LONG) for _ in range(2)))
        held.may_go_on.set()
        return await first, *others

    answers = narrow.run(three())
    assert sorted(answer.status_code for answer in answers) == [200, 429, 504]
    assert answers[0].status_code == 200
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused.headers["Retry-After"] == "1"
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert narrow.post(COMPLETIONS, LONG | {"max_tokens": 2}).status_code == 200


def test_late_within_a_stream(narrow, monkeypatch):
    """The status is out: the error is the last event, as OpenAI's client expects it."""
    pieces, told = Generation.pieces, threading.Event()

    async def late(self, timeout_s):
        async for piece in pieces(self, timeout_s):
            told.set()
            yield piece

    # Its 30 s have passed when the first words are told, which may be made before they are waited for.
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + 30 * told.is_set())
    monkeypatch.setattr(language, "time", clock)
    monkeypatch.setattr(Generation, "pieces", late)
    answer = narrow.post(COMPLETIONS, LONG | {"max_tokens": 200, "stream": True})
    assert answer.status_code == 200
    assert re.search(r'data: {"error": {"message": "the answer was not complete within 30 s"', answer.text)
    assert "[DONE]" not in answer.text


@pytest.mark.parametrize("stream", [False, True])
def test_who_hangs_up_frees_its_place(narrow, held, stream):
    async def scenario():
        asked = json.dumps(LONG | {"stream": stream}).encode()
        left, first = asyncio.Event(), asyncio.Event()
        got = []

        async def receive():
            if not got:
                got.append(None)
                return {"type": "http.request", "body": asked, "more_body": False}
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            got.append(message)
            if message.get("body"):
                first.set()

        scope = {
            "type": "http", "method": "POST", "path": COMPLETIONS, "raw_path": COMPLETIONS.encode(), "headers": [],
            "query_string": b"", "scheme": "http", "server": ("test", 80), "client": ("test", 1), "root_path": "",
            "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1",
        }  # fmt: skip
        task = asyncio.ensure_future(narrow.app(scope, receive, send))
        assert await asyncio.to_thread(held.words.wait, 60)
        if stream:
            await asyncio.wait_for(first.wait(), 60)
        left.set()
        await asyncio.wait_for(task, 60)
        held.may_go_on.set()
        return [message for message in got[1:] if message.get("body")]

    pieces = narrow.run(scenario())
    assert bool(pieces) == stream
    quick = LONG | {"max_tokens": 1}
    assert [narrow.post(COMPLETIONS, quick).status_code for _ in range(2)] == [200, 200]
    metrics = narrow.metrics()
    assert metrics['ms_ascend_ops_serving_hung_up_total{protocol="http"}'] == 1
    assert metrics['ms_ascend_ops_serving_cancelled_total{model="tiny",version="1"}'] == 1
    generated = metrics['ms_ascend_ops_serving_tokens_total{kind="generated",model="tiny",version="1"}']
    assert 2 < generated < 30


def test_a_step_that_fails(narrow, monkeypatch):
    """Requests that share it fail, and the next one does not."""
    from ms_ascend_ops.llm.executor import ProgramExecutor  # noqa: PLC0415

    step = ProgramExecutor.step
    monkeypatch.setattr(ProgramExecutor, "step", lambda *given: 1 / 0)
    answer = narrow.post(COMPLETIONS, LONG)
    assert answer.status_code == 500
    assert "ZeroDivisionError" in answer.json()["error"]["message"]
    monkeypatch.setattr(ProgramExecutor, "step", step)
    assert narrow.post(COMPLETIONS, LONG | {"max_tokens": 2}).status_code == 200


def test_the_last_words_of_the_model(served):
    """A stop token of the model: no text of it."""
    assert tiny.TOKENS[tiny.END] == "<|im_end|>"
    asked = {"model": "tiny", "messages": MESSAGES, "temperature": 2.0}
    texts = [served.post(CHAT, asked | {"seed": seed}).json()["choices"][0] for seed in range(4)]
    assert {text["finish_reason"] for text in texts} <= {"stop", "length"}
    assert not any("<|im_end|>" in text["message"]["content"] for text in texts)
