"""Writes log probabilities as the two APIs have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ms_ascend_ops.llm.sampling import TokenLogprob
    from ms_ascend_ops.llm.tokenizer import Tokenizer

__all__ = ["of_chat", "of_completion"]


def of_chat(tokenizer: Tokenizer, tokens: Sequence[TokenLogprob]) -> dict[str, Any]:
    """Describe the tokens of an answer in a conversation, or of a piece of it."""

    def entry(token: int, logprob: float) -> dict[str, Any]:
        data = tokenizer.bytes_of(token)
        return {"token": data.decode(errors="replace"), "logprob": logprob, "bytes": list(data)}

    content = [
        {**entry(one.token, one.logprob), "top_logprobs": [entry(*pair) for pair in one.top]} for one in tokens
    ]  # fmt: skip
    return {"content": content, "refusal": None}


def of_completion(
    tokenizer: Tokenizer, tokens: Sequence[TokenLogprob], offset: int = 0, first: int | None = None
) -> dict[str, Any]:  # fmt: skip
    """Describe the tokens of a continued text, or of a piece of it.

    Args:
        tokenizer: of the model.
        tokens: what is known of each.
        offset: characters in front of them.
        first: a token in front of them of which nothing is known: the first of a prompt.
    """
    texts: list[str] = [] if first is None else [tokenizer.bytes_of(first).decode(errors="replace")]
    known: list[float | None] = [None] * len(texts)
    top: list[dict[str, float] | None] = [None] * len(texts)
    for one in tokens:
        texts.append(tokenizer.bytes_of(one.token).decode(errors="replace"))
        known.append(one.logprob)
        pairs = [*one.top, (one.token, one.logprob)]
        # Keep the first of those with the same text: it is the likeliest.
        named = {tokenizer.bytes_of(token).decode(errors="replace"): value for token, value in reversed(pairs)}
        top.append(named)
    offsets = []
    for text in texts:
        offsets.append(offset)
        offset += len(text)
    return {"tokens": texts, "token_logprobs": known, "top_logprobs": top, "text_offset": offsets}
