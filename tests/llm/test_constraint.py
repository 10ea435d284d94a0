"""Constrained decoding: what is allowed is what the schema says, and a stranger's schema takes nothing from others."""

import json
import time

import numpy as np
import pytest

from ms_ascend_ops.llm import LanguageModel, Sampling
from ms_ascend_ops.llm.constraint import ConstraintError, Grammars, json_grammar
from tests.llm import tiny

pytest.importorskip("llguidance")

SCHEMA = {
    "type": "object",
    "properties": {"kind": {"enum": ["cat", "dog"]}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["kind", "age"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    one = LanguageModel.from_file(tiny.write_directory(tmp_path_factory.mktemp("constraint") / "m"))
    yield one
    one.grammars.close()


def generated(model, schema, count, **options):
    """Texts of a model with random weights, several at once."""
    constraints = model.grammars.open(json_grammar(schema), count)
    requests = [
        model.request("hello", 200, Sampling(seed=seed, **options), constraint=constraint)
        for seed, constraint in enumerate(constraints)
    ]
    for request in requests:
        model.scheduler.submit(request)
    model.scheduler.run()
    return requests


def test_texts_of_a_schema(model):
    """Greedy and sampled, four that share the steps: each is JSON of the schema, and ends by itself."""
    for options in ({}, {"temperature": 2.0}):
        for request in generated(model, SCHEMA, 4, **options):
            assert request.error is None
            assert request.finish_reason == "stop", request.text
            value = json.loads(request.text)
            assert set(value) == {"kind", "age"}
            assert value["kind"] in ("cat", "dog")
            assert 0 <= value["age"] <= 99


def test_others_are_not_touched(model):
    """One without a constraint beside one with it has the text that it has alone."""
    expected = model.generate("hello world", 20).text
    (constraint,) = model.grammars.open(json_grammar(SCHEMA))
    free, bound = model.request("hello world", 20), model.request("hello", 200, constraint=constraint)
    for request in (bound, free):
        model.scheduler.submit(request)
    model.scheduler.run()
    assert free.text == expected
    assert json.loads(bound.text)["kind"] in ("cat", "dog")


def test_a_full_place_is_given_up(model):
    """A cache for less than two sequences: one waits, is calculated again, and has a text of the schema."""
    small = LanguageModel(model.executor, model.tokenizer, batch=4)
    pool, taken = small.scheduler.pool, []
    while pool.free > 5:
        taken.append(pool.take())
    texts = ["a" * 60, "b" * 60]
    for request in generated(small, {"enum": texts}, 3, temperature=1.0):
        assert request.error is None
        assert json.loads(request.text) in texts
    small.grammars.close()


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "strin"}, "Invalid type: strin"),
        ({"type": "string", "pattern": "("}, "regex parse error"),
        ({"type": "string", "pattern": "(?=a)b"}, "look-around"),
        ({"$ref": "http://127.0.0.1:1/x.json"}, "does not fetch"),
        ({"type": "integer", "multipleOf": 9999999}, "it did not compile within"),  # hours
        ({"type": "object", "properties": {f"p{n}": {"type": "null"} for n in range(5000)}}, "did not compile|max is"),
        ({"allOf": [{"anyOf": [{"const": n * m} for n in range(8)]} for m in range(8)]}, "large|nsatisf|compile"),
    ],
)  # fmt: skip
def test_schemas_that_cannot_be_used(model, monkeypatch, schema, message):
    """An error that says why, in bounded time; those that are open go on, and the next one works."""
    monkeypatch.setattr("ms_ascend_ops.llm.constraint._SECONDS", 0.3)
    (other,) = model.grammars.open(json_grammar({"enum": ["ab"]}))
    start = time.process_time()
    with pytest.raises(ConstraintError, match=message):
        model.grammars.open(json_grammar(schema))
    assert time.process_time() - start < 1  # of this process
    assert bytes(model.tokenizer.bytes_of(int(other.allowed()[0]))) == b'"'


def test_a_process_that_dies(model):
    """Of a request: an error of that request. Of the vocabulary: the next request has a new one."""
    grammars = Grammars(model.tokenizer, model.config.vocabulary, model.stop_tokens)
    (constraint,) = grammars.open(json_grammar(SCHEMA))
    constraint.allowed()
    constraint._connection._socket.shutdown(2)
    with pytest.raises(ConstraintError, match="too much time or memory"):
        _one_more(constraint)
    grammars._process.kill()
    grammars._process.wait()
    (constraint,) = grammars.open(json_grammar(SCHEMA))
    assert len(constraint.allowed()) == 1
    process = grammars._process
    grammars.close()
    process.wait(10)


def _one_more(constraint):
    constraint.advance(0)
    constraint.allowed()


def test_bytes_of_tokens(model):
    """All bytes of a byte-level vocabulary, whatever stands for them, and names of tokens of control."""
    text = "Grüße, 漢字 \N{GRINNING FACE}\n"
    ids = model.tokenizer.encode(text)
    assert b"".join(map(model.tokenizer.bytes_of, ids)) == text.encode()
    assert model.tokenizer.bytes_of(tiny.END) == b"<|im_end|>"
    assert {tiny.END, tiny.END - 1} == model.tokenizer.control_tokens


def test_masks_of_every_token(model):
    """Of `"ab"` only the quote, then a, and so on: each token is checked against the text that it begins."""
    (constraint,) = model.grammars.open(json_grammar({"enum": ["hello", "he world"]}))
    said = b""
    while len(allowed := constraint.allowed()):
        fitting = [
            token for token in range(model.config.vocabulary - 2)
            if any(text.startswith(said + model.tokenizer.bytes_of(token)) for text in (b'"hello"', b'"he world"'))
        ]  # fmt: skip
        assert np.array_equal(allowed, fitting)
        said += model.tokenizer.bytes_of(int(allowed[-1]))
        constraint.advance(int(allowed[-1]))
    assert said in (b'"hello"', b'"he world"')
