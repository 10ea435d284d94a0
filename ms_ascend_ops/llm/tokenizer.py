"""Converts text to tokens and back, by the `tokenizers` package."""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

__all__ = ["TextStream", "Tokenizer", "TooManyTokensError", "read_tokenizer_json"]

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_MOST_BYTES = 256 * 2**20  # of tokenizer.json; those of vocabularies of 256,000 tokens have 35 MB


class TooManyTokensError(ValueError):
    """A text has more tokens than there is room for.

    Args:
        count: how many, as a text: "300", or "more than 256".
        most: the room.
    """

    def __init__(self, count: str, most: int):
        super().__init__(f"a text must have at most {most} tokens, got {count}")
        self.count = count


class Tokenizer:
    """Encodes and decodes text. Tokens of control, such as `<|im_end|>`, are no text unless the caller says so.

    Args:
        backend: its post-processor puts tokens around a text that is no conversation.
        named: tokens by the names that chat templates have for them, as `bos_token`.
        around_chats: conversations get the tokens around them, too, unless the template wrote them (llama.cpp's rule).
        anchor: a token behind which every text that comes out is decoded; None: behind the prompt. Decoders of
            SentencePiece drop the first blank of what they decode.
    """

    def __init__(
        self, backend: tokenizers.Tokenizer, named: Mapping[str, str] | None = None, around_chats: bool = False,
        anchor: int | None = None,
    ):  # fmt: skip
        self.backend = backend
        self.named = dict(named or {})
        self.around_chats = around_chats
        self.anchor = anchor
        backend.no_truncation()  # a file may say so, but means training by it
        backend.no_padding()

    @property
    def vocabulary(self) -> int:
        """Return the number of tokens, with those that are only numbers between others."""
        return 1 + max(self.backend.get_vocab(with_added_tokens=True).values(), default=-1)

    @cached_property
    def longest(self) -> int:
        """Return the number of characters of the longest token."""
        return max(map(len, self.backend.get_vocab(with_added_tokens=True)), default=0)

    def rules(self) -> dict[str, Any]:
        """Return the arguments beside the backend that make such a tokenizer, as JSON can have them."""
        return {"named": self.named, "around_chats": self.around_chats, "anchor": self.anchor}

    @property
    def begin_token(self) -> int | None:
        """Return what comes before a text that is no conversation, if it is one token."""
        first: list[int] = self.backend.encode("").ids[:1]
        text: list[int] = self.backend.encode("a", add_special_tokens=False).ids
        return first[0] if first and self.backend.encode("a").ids[: 1 + len(text)] == first + text else None

    def encode(self, text: str, begin: bool = True) -> list[int]:
        """Encode a text; control tokens are recognised in it. With `begin`, add those around a text."""
        # A batch of one, unlike one text, lets other threads work.
        (encoding,) = self.backend.encode_batch([text], add_special_tokens=begin)
        ids: list[int] = encoding.ids
        return ids

    def encode_at_most(self, most: int, text: str, begin: bool = True) -> list[int]:
        """Encode a text that has at most so many tokens, for work in proportion to that rather than to the text.

        Raises:
            TooManyTokensError: it has more.
        """
        size = 4 * most + 256
        while size < len(text):  # where a text ends changes a few of the last tokens of it
            if len(self.encode(text[:size], begin=False)) > most + most // 4 + 64:
                raise TooManyTokensError(f"more than {most}", most)
            size *= 2
        ids = self.encode(text, begin)
        if len(ids) > most:
            raise TooManyTokensError(str(len(ids)), most)
        return ids

    def encode_chat(self, text: str, most: int | None = None) -> list[int]:
        """Encode a conversation that a template wrote.

        Raises:
            TooManyTokensError: there are more than `most`.
        """
        if self.around_chats:  # the template may have written some of them
            ends = self.backend.encode("").ids
            if ends and ends[0] == self._id_named("bos_token"):
                text = text.removeprefix(self.named["bos_token"])
            if ends and ends[-1] == self._id_named("eos_token"):
                text = text.removesuffix(self.named["eos_token"])
        return self.encode(text, self.around_chats) if most is None else self.encode_at_most(
            most, text, self.around_chats
        )  # fmt: skip

    def decode(self, ids: Sequence[int], control: bool = False) -> str:
        """Decode tokens; bytes that are no UTF-8 become replacement characters."""
        return str(self.backend.decode(list(ids), skip_special_tokens=not control))

    def id_of(self, token: str) -> int | None:
        """Return the number of a token."""
        return self.backend.token_to_id(token)  # type: ignore[no-any-return]

    def token(self, index: int) -> str:
        """Return the token of a number, as the vocabulary spells it; of one without: nothing."""
        return self.backend.id_to_token(index) or ""

    @cached_property
    def _added(self) -> Mapping[int, Any]:
        found: Mapping[int, Any] = self.backend.get_added_tokens_decoder()
        return found

    @property
    def control_tokens(self) -> frozenset[int]:
        """Return the tokens that are no text."""
        return frozenset(index for index, token in self._added.items() if token.special)

    @cached_property
    def _bytes(self) -> Mapping[str, int] | None:
        """Return the byte that each character of a byte-level vocabulary stands for; None: it is of another kind.

        Source: GPT-2's encoder: bytes that can be printed stand for themselves, the others for characters from 256 on.
        """
        if b"ByteLevel" not in pickle.dumps(self.backend.decoder):
            return None
        printed = {*range(33, 127), *range(161, 173), *range(174, 256)}
        others = [byte for byte in range(256) if byte not in printed]
        return {chr(byte): byte for byte in printed} | {chr(256 + place): byte for place, byte in enumerate(others)}

    def bytes_of(self, token: int) -> bytes:
        """Return the bytes that a token stands for; of one of control, its name."""
        text = self.token(token)
        if token in self._added:
            return text.encode()
        if self._bytes is not None:
            return bytes(self._bytes[character] for character in text if character in self._bytes)
        if re.fullmatch("<0x[0-9A-Fa-f]{2}>", text):
            return bytes([int(text[3:5], 16)])
        return text.replace("\N{LOWER ONE EIGHTH BLOCK}", " ").encode()

    def _id_named(self, name: str) -> int | None:
        return self.id_of(self.named[name]) if self.named.get(name) else None


class TextStream:
    """Decodes tokens that come one after the other, in pieces that end between characters.

    Args:
        tokenizer: what decodes them.
        prompt: the tokens in front of them, whose text is not given out.
        visible: tokens of control whose names are text.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int] = (), visible: frozenset[int] = frozenset()):
        self._tokenizer = tokenizer
        self._visible = visible
        self._ids = self._context(prompt)
        # The text of ids[first:read] was given out. What a token adds depends on those before it: a few will do.
        self._first = 0
        self._read = self._behind = len(self._ids)
        while self._read and tokenizer.decode(self._ids[: self._read]).endswith(_REPLACEMENT):
            self._read -= 1  # the last character of the prompt is not complete

    def add(self, token: int) -> str:
        """Return the text that this token completes: perhaps none, as its character is not whole yet."""
        if token in self._visible:
            left = self.finish()
            self._ids.append(token)
            self._first = self._read = self._behind = len(self._ids)
            return left + self._tokenizer.token(token)
        self._ids.append(token)
        text, given = self._texts()
        if len(text) <= len(given) or text.endswith(_REPLACEMENT):
            return ""
        self._first, self._read = self._read, len(self._ids)
        return text[len(given) :]

    def finish(self) -> str:
        """Return what is left, with a replacement character for one that was not completed."""
        if len(self._ids) == self._behind:
            return ""
        text, given = self._texts()
        self._first = self._read = len(self._ids)
        return text[len(given) :]

    def _context(self, prompt: Sequence[int]) -> list[int]:
        """Return the end of a prompt, long enough to have text."""
        if self._tokenizer.anchor is not None:
            return [self._tokenizer.anchor]
        prompt, size = list(prompt), 4
        while size < 2 * len(prompt) and not self._tokenizer.decode(prompt[-size:]).strip(_REPLACEMENT):
            size *= 2
        return prompt[-size:]

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
    if (size := path.stat().st_size) > _MOST_BYTES:
        raise ValueError(f"{path}: it must have at most {_MOST_BYTES} bytes, got {size}")
    return _made(str(path), lambda: tokenizers.Tokenizer.from_file(str(path)))


def _made(source: str, make: Any) -> tokenizers.Tokenizer:
    # The package raises plain exceptions.
    try:
        tokenizer: tokenizers.Tokenizer = make()
        return tokenizer
    except Exception as error:
        raise ValueError(f"{source}: the tokenizer cannot be made: {error}") from error
