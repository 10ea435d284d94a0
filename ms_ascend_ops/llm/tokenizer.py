"""Text to tokens and back, by the `tokenizers` package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tokenizers

__all__ = ["TextStream", "Tokenizer", "read_tokenizer_json"]

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class Tokenizer:
    """Encodes and decodes text. Tokens of control, such as `<|im_end|>`, are no text unless asked for."""

    def __init__(self, backend: tokenizers.Tokenizer, begin_token: int | None = None):
        self.backend = backend
        self.begin_token = begin_token  # comes before a text that is no conversation, where the model wants it

    @property
    def vocabulary(self) -> int:
        """The number of tokens."""
        return int(self.backend.get_vocab_size(with_added_tokens=True))

    def encode(self, text: str, begin: bool = True) -> list[int]:
        """The tokens of a text; control tokens are recognised in it."""
        ids: list[int] = self.backend.encode(text, add_special_tokens=False).ids
        if begin and self.begin_token is not None and ids[:1] != [self.begin_token]:
            return [self.begin_token, *ids]
        return ids

    def decode(self, ids: Sequence[int], control: bool = False) -> str:
        """The text of tokens; bytes that are no UTF-8 become replacement characters."""
        return str(self.backend.decode(list(ids), skip_special_tokens=not control))

    def id_of(self, token: str) -> int | None:
        """The number of a token."""
        return self.backend.token_to_id(token)  # type: ignore[no-any-return]

    def token(self, index: int) -> str:
        """The token of a number, as the vocabulary spells it; of one without: nothing."""
        return self.backend.id_to_token(index) or ""


class TextStream:
    """The text of tokens that come one after the other, in pieces that end between characters."""

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        # The text of ids[first:read] was given out. What a token adds depends on those before it: a few will do.
        self._first = 0
        self._read = 0

    def add(self, token: int) -> str:
        """What may be given out now that this token is known: perhaps nothing, as its character is not complete."""
        self._ids.append(token)
        text, given = self._texts()
        if len(text) <= len(given) or text.endswith(_REPLACEMENT):
            return ""
        self._first, self._read = self._read, len(self._ids)
        return text[len(given) :]

    def finish(self) -> str:
        """What is left, with a replacement character for one that was not completed."""
        text, given = self._texts()
        self._first = self._read = len(self._ids)
        return text[len(given) :]

    def _texts(self) -> tuple[str, str]:
        decode = self._tokenizer.decode
        return decode(self._ids[self._first :]), decode(self._ids[self._first : self._read])


def read_tokenizer_json(path: Path) -> tokenizers.Tokenizer:
    """Read the file that `tokenizers` writes.

    Raises:
        ValueError: it cannot be read.
    """
    if not path.is_file():
        raise ValueError(f"{path}: the file is missing; it holds the tokenizer")
    return _made(str(path), lambda: tokenizers.Tokenizer.from_file(str(path)))


def _made(source: str, make: Any) -> tokenizers.Tokenizer:
    # The package raises plain exceptions.
    try:
        tokenizer: tokenizers.Tokenizer = make()
        return tokenizer
    except Exception as error:
        raise ValueError(f"{source}: the tokenizer cannot be made: {error}") from error
