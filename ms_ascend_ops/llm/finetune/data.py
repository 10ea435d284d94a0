"""Prepares examples to learn from: tokens, and which of them are to be predicted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ms_ascend_ops.llm.chat_template import ChatTemplate
from ms_ascend_ops.llm.tokenizer import Tokenizer

__all__ = ["IGNORED", "Example", "batches", "padded", "read_examples"]

Array = np.ndarray[Any, Any]

IGNORED = -100  # the label of a token that is not to be predicted


@dataclass(frozen=True)
class Example:
    """Holds tokens, and the label of each: the token that follows, or `IGNORED`."""

    tokens: Sequence[int]
    labels: Sequence[int]

    @property
    def predicted(self) -> int:
        """Return how many tokens are to be predicted."""
        return sum(label != IGNORED for label in self.labels)


def read_examples(
    path: Path, tokenizer: Tokenizer, template: ChatTemplate | None, length: int, end_token: int | None = None
) -> list[Example]:
    """Read a file.

    A file whose name ends with .jsonl has an object in each line: {"messages": [{"role", "content"}, ...]}, of which
    the answers (role assistant) are learnt; {"prompt", "completion"}, of which the completion is; or {"text"}. Any
    other file is one text, which is cut into pieces.

    Args:
        path: the file.
        tokenizer: of the model.
        template: of the model; conversations need it.
        length: tokens of an example at most. What is longer is cut off, of a text cut into pieces.
        end_token: what stands behind a completion and a text of a line.

    Raises:
        ValueError: a line cannot be read, or nothing is left to predict; the message names file and line.
    """
    if length < 2:
        raise ValueError(f"length must be at least 2, got {length}")
    text = path.read_text("utf-8")
    examples = []
    if path.suffix == ".jsonl":
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                example = _example(f"{path}, line {number}", line, tokenizer, template, end_token)
                examples.append(Example(example.tokens[:length], example.labels[:length]))
    else:
        tokens = tokenizer.encode(text)
        # Pieces share a token: the last of one is what the next begins with.
        for first in range(0, len(tokens) - 1, length):
            piece = tokens[first : first + length + 1]
            examples.append(Example(piece[:-1], piece[1:]))
    examples = [example for example in examples if example.predicted]
    if not examples:
        raise ValueError(f"{path}: there is nothing to predict in it, within {length} tokens of an example")
    return examples


def _example(
    place: str, line: str, tokenizer: Tokenizer, template: ChatTemplate | None, end_token: int | None
) -> Example:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place}: this is no JSON: {error}") from error
    end = [] if end_token is None else [end_token]
    if isinstance(data, dict) and isinstance(data.get("messages"), list):
        if template is None:
            raise ValueError(f"{place}: messages need a chat template, which the model has not")
        return _conversation(place, data["messages"], tokenizer, template)
    if isinstance(data, dict) and all(isinstance(data.get(key), str) for key in ("prompt", "completion")):
        prompt = tokenizer.encode(data["prompt"])
        return _labelled(prompt + tokenizer.encode(data["completion"], begin=False) + end, [(len(prompt), None)])
    if isinstance(data, dict) and isinstance(data.get("text"), str):
        return _labelled(tokenizer.encode(data["text"]) + end, [(0, None)])
    raise ValueError(f"{place}: it must have messages, or prompt and completion, or text; got {line!r:.60}")


def _conversation(place: str, messages: list[Any], tokenizer: Tokenizer, template: ChatTemplate) -> Example:
    if not all(isinstance(one, Mapping) and isinstance(one.get("role"), str) for one in messages):
        raise ValueError(f"{place}: every message must have a role and a content")
    whole = template.render(messages, generate=False)
    answers = []
    for index, message in enumerate(messages):
        if message["role"] == "assistant":
            before = template.render(messages[:index], generate=True)
            through = template.render(messages[: index + 1], generate=False)
            if not (whole.startswith(through) and through.startswith(before)):
                raise ValueError(
                    f"{place}: the chat template writes a conversation otherwise than its beginning, so that answers "
                    "cannot be found in it"
                )
            answers.append((len(before), len(through)))
    # Tokens are those of the whole text; an answer's are those that begin in it.
    encoded = tokenizer.backend.encode(whole, add_special_tokens=False)
    spans = []
    for first, end in answers:
        inside = [i for i, (start, _) in enumerate(encoded.offsets) if first <= start < end]
        if inside:
            spans.append((inside[0], inside[-1] + 1))
    ids = tokenizer.encode_chat(whole)
    shift = ids.index(encoded.ids[0]) if encoded.ids else 0  # a token that comes before all conversations
    return _labelled(ids, [(first + shift, end + shift) for first, end in spans])


def _labelled(tokens: list[int], spans: Sequence[tuple[int, int | None]]) -> Example:
    """Return an example of which the tokens of some spans are predicted, each from those before it."""
    labels = [IGNORED] * len(tokens)
    for first, end in spans:
        for place in range(max(first, 1), len(tokens) if end is None else end):
            labels[place - 1] = tokens[place]
    return Example(tokens[:-1], labels[:-1])


def batches(examples: Sequence[Example], batch: int, seed: int) -> Iterator[list[Example]]:
    """Yield batches without end: all examples in another order each time around."""
    rng = np.random.default_rng(seed)
    waiting: list[int] = []  # examples that no batch has yet
    while True:
        while len(waiting) < batch:
            waiting += rng.permutation(len(examples)).tolist()
        yield [examples[index] for index in waiting[:batch]]
        waiting = waiting[batch:]


def padded(examples: Sequence[Example]) -> tuple[Array, Array]:
    """Pad tokens and labels of some examples: int32, shape (examples, longest), filled up behind, where nothing
    is seen.
    """
    longest = max(len(example.tokens) for example in examples)
    tokens = np.zeros((len(examples), longest), np.int32)
    labels = np.full((len(examples), longest), IGNORED, np.int32)
    for row, example in enumerate(examples):
        tokens[row, : len(example.tokens)] = example.tokens
        labels[row, : len(example.labels)] = example.labels
    return tokens, labels
