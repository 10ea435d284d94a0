"""openai against a server: `openai_.py URL KEY`, the texts to expect as JSON on stdin."""

import json
import sys

import openai

url, key = sys.argv[1:]
expected = json.load(sys.stdin)
client = openai.OpenAI(base_url=url, api_key=key, max_retries=0)
completion = {"model": "tiny", "prompt": "hello"}
chat = {"model": "tiny", "messages": expected["messages"], "temperature": 0, "max_completion_tokens": 12}


def refused(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"not refused: {text}")


assert [model.id for model in client.models.list()] == ["tiny", "tiny:1"]
assert client.models.retrieve("tiny:1").owned_by == "ms_ascend_ops"

answer = client.completions.create(**completion, temperature=0)
assert answer.choices[0].text == expected["completion"]
assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
answer = client.completions.create(**completion, temperature=0.8, top_p=0.9, seed=7)
assert answer.choices[0].text == expected["sampled"]
pieces = client.completions.create(**completion, temperature=0, stream=True)
assert "".join(piece.choices[0].text for piece in pieces) == expected["completion"]
stop = expected["completion"][3:5]
answer = client.completions.create(**completion, temperature=0, stop=[stop])
assert answer.choices[0].text == expected["completion"][: expected["completion"].index(stop)]
assert answer.choices[0].finish_reason == "stop"

answer = client.chat.completions.create(**chat)
assert answer.choices[0].message.content == expected["chat"]
assert answer.usage.prompt_tokens == expected["prompt_tokens"]
text, usage = "", None
for piece in client.chat.completions.create(**chat, stream=True, stream_options={"include_usage": True}):
    text += (piece.choices[0].delta.content or "") if piece.choices else ""
    usage = piece.usage or usage
assert text == expected["chat"]
assert usage.prompt_tokens == expected["prompt_tokens"]
with client.chat.completions.stream(**chat) as stream:
    assert "".join(event.delta for event in stream if event.type == "content.delta") == expected["chat"]
stream = client.chat.completions.create(**{**chat, "max_completion_tokens": 200}, stream=True)
next(iter(stream))
stream.close()  # hangs up

refused(openai.NotFoundError, "is not loaded", lambda: client.completions.create(model="gpt", prompt="x"))
answer = client.chat.completions.create(**chat, logprobs=True, top_logprobs=2)
assert all(len(one.top_logprobs) == 2 and one.logprob <= 0 for one in answer.choices[0].logprobs.content)
answer = client.embeddings.create(model="tiny", input=["hello", "world"])
assert [len(one.embedding) for one in answer.data] == [64, 64]
assert abs(sum(value * value for value in answer.data[0].embedding) - 1) < 1e-5
refused(
    openai.BadRequestError, "a tool must", lambda: client.chat.completions.create(**chat, tools=[{"type": "function"}])
)
refused(
    openai.BadRequestError, "the context of tiny", lambda: client.completions.create(model="tiny", prompt="x" * 400)
)
wrong = openai.OpenAI(base_url=url, api_key="wrong", max_retries=0)
refused(openai.AuthenticationError, "give a key", wrong.models.list)
