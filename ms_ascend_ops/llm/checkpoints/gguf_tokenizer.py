"""Makes the tokenizer that a GGUF file holds: vocabulary, merges or scores, and a name for how text is cut first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from ms_ascend_ops.llm.checkpoints.gguf_cuts import CUTS
from ms_ascend_ops.llm.checkpoints.gguf_special import (
    CONTROL_NAMES,
    SpecialTokens,
    read_special_tokens,
    tokenizer_field,
)
from ms_ascend_ops.llm.tokenizer import Tokenizer

__all__ = ["read_tokenizer"]

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)

_MOST_CHARACTERS = 2**24  # of all tokens; vocabularies of 256,000 have 2 million
_LONGEST_PIECE = 512  # as SentencePiece has it
_LONGEST_TOKEN = 2**16

# Keys that do not change which tokens a text has, or are those of another kind of tokenizer.
_IDLE = (
    "merges", "model", "pre", "scores", "token_type", "tokens", "token_type_count", "remove_extra_whitespaces",
    "add_space_prefix", "add_bos_token", "add_eos_token",
)  # fmt: skip


def read_tokenizer(path: Path, fields: Mapping[str, Any]) -> Tokenizer:
    """Make the tokenizer of a file with these keys.

    Raises:
        ValueError: a key is missing, does not fit, or names a tokenizer that is not supported.
    """
    _check_keys(path, fields)
    kind, tokens = tokenizer_field(path, fields, "model", str), _tokens(path, fields)
    types = _numbers(path, fields, "token_type", len(tokens), [_NORMAL] * len(tokens))
    types = [_CONTROL if token in CONTROL_NAMES else its for token, its in zip(tokens, types, strict=True)]
    prefix = bool(tokenizer_field(path, fields, "add_space_prefix", bool, kind == "llama"))
    if kind == "gpt2":
        cut = tokenizer_field(path, fields, "pre", str, "default")
        backend = _byte_level(path, tokens, _strings(path, fields, "merges"), cut)
    elif kind == "llama":
        scores = _numbers(path, fields, "scores", len(tokens), None)
        backend = _sentence_piece(path, tokens, scores, types, prefix)
    else:
        raise ValueError(f"{path}: tokenizer.ggml.model must be gpt2 or llama, got {kind!r:.60}")
    for token_types, special in (((_CONTROL, _UNKNOWN), True), ((_USER_DEFINED,), False)):
        added = [
            AddedToken(token, normalized=False, special=special)
            for token, its in zip(tokens, types, strict=True)
            if its in token_types
        ]
        backend.add_special_tokens(added) if special else backend.add_tokens(added)
    if backend.get_vocab_size() != len(tokens):
        raise ValueError(f"{path}: tokenizer.ggml.tokens has tokens twice: {len(tokens)}, of which "
                         f"{backend.get_vocab_size()} differ")  # fmt: skip
    special_tokens = read_special_tokens(path, fields)
    _put_around(backend, special_tokens, tokens)
    named = {"bos_token": special_tokens.begin, "eos_token": special_tokens.end}
    anchor = _anchor(backend, types) if kind == "llama" and prefix else None
    return Tokenizer(
        backend, {name: "" if index is None else tokens[index] for name, index in named.items()}, True, anchor
    )


def _check_keys(path: Path, fields: Mapping[str, Any]) -> None:
    """Refuse keys that may change tokens in a manner that is not known here."""
    for key, value in fields.items():
        name = key.removeprefix("tokenizer.ggml.")
        if name != key and name not in _IDLE and not name.endswith(("_token_id", "token_ids")):
            if isinstance(value, bool | int | float | list) and not value:
                continue
            raise ValueError(f"{path}: the key {key} is not supported")


def _tokens(path: Path, fields: Mapping[str, Any]) -> list[str]:
    # llama.cpp gives tokens without text a name, too.
    tokens = [token or f"[EMPTY_{index}]" for index, token in enumerate(_strings(path, fields, "tokens"))]
    if (length := sum(map(len, tokens))) > _MOST_CHARACTERS:
        raise ValueError(f"{path}: tokenizer.ggml.tokens must have at most {_MOST_CHARACTERS} characters, got {length}")
    return tokens


def _strings(path: Path, fields: Mapping[str, Any], key: str) -> list[str]:
    values = tokenizer_field(path, fields, key, list)
    if not all(isinstance(value, str) for value in values):
        raise ValueError(f"{path}: tokenizer.ggml.{key} must be strings")
    return list(values)


def _numbers(path: Path, fields: Mapping[str, Any], key: str, count: int, default: Any) -> list[Any]:
    values = tokenizer_field(path, fields, key, list, default)
    if len(values) < count:
        raise ValueError(
            f"{path}: tokenizer.ggml.{key} must have {count} elements, as tokenizer.ggml.tokens, got {len(values)}"
        )
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in values):
        raise ValueError(f"{path}: tokenizer.ggml.{key} must be finite numbers")
    return list(values[:count])


def _check_lengths(path: Path, tokens: Sequence[str], most: int) -> None:
    if (long := next((index for index, token in enumerate(tokens) if len(token) > most), None)) is not None:
        raise ValueError(
            f"{path}: tokenizer.ggml.tokens: token {long} must have at most {most} characters, got {len(tokens[long])}"
        )


def _byte_level(path: Path, tokens: list[str], merges: list[str], cut: str) -> tokenizers.Tokenizer:
    if cut not in CUTS:
        raise ValueError(f"{path}: tokenizer.ggml.pre must be one of {', '.join(CUTS)}, got {cut!r:.60}")
    _check_lengths(path, tokens, _LONGEST_TOKEN)
    pairs = []
    for index, merge in enumerate(merges):
        place = merge.find(" ", 1)
        if place < 0:
            raise ValueError(f"{path}: tokenizer.ggml.merges must be two tokens each, got {merge!r:.60} at {index}")
        pairs.append((merge[:place], merge[place + 1 :]))
    backend = tokenizers.Tokenizer(_model(path, tokens, pairs, ignore_merges=CUTS[cut].whole))
    steps: list[Any] = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in CUTS[cut].patterns]
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    backend.pre_tokenizer = pre_tokenizers.Sequence(steps)
    backend.decoder = decoders.ByteLevel()
    return backend


def _sentence_piece(
    path: Path, tokens: list[str], scores: list[float], types: list[int], prefix: bool
) -> tokenizers.Tokenizer:
    """Return merges by the scores: of all pairs that make a token, the one with the highest score comes first."""
    _check_lengths(path, tokens, _LONGEST_PIECE)
    vocabulary = {token: index for index, token in enumerate(tokens)}
    ranked = []
    for token, score, kind in zip(tokens, scores, types, strict=True):
        if kind == _NORMAL:
            ranked += [
                (-score, vocabulary[left], vocabulary[right], left, right) for left, right in _splits(token, vocabulary)
            ]
    pairs = [(left, right) for *_, left, right in sorted(ranked)]
    unknown = next((token for token, kind in zip(tokens, types, strict=True) if kind == _UNKNOWN), None)
    backend = tokenizers.Tokenizer(
        _model(path, tokens, pairs, unk_token=unknown, fuse_unk=True, byte_fallback=_BYTE in types)
    )
    steps: list[Any] = [normalizers.Prepend("▁")] if prefix else []
    backend.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", "▁")])
    parts: list[Any] = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*parts, decoders.Strip(" ", 1, 0)] if prefix else parts)
    return backend


def _splits(token: str, vocabulary: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    for cut in range(1, len(token)):
        if (left := token[:cut]) in vocabulary and (right := token[cut:]) in vocabulary:
            yield left, right


def _put_around(backend: tokenizers.Tokenizer, special: SpecialTokens, tokens: Sequence[str]) -> None:
    """Have texts begin and end with the tokens that the file wants there."""
    begin = special.begin if special.add_begin else None
    end = special.end if special.add_end else None
    if begin is not None or end is not None:
        named = {name: index for name, index in (("begin", begin), ("end", end)) if index is not None}
        backend.post_processor = processors.TemplateProcessing(
            single=[*(["begin:0"] if begin is not None else []), "$A:0", *(["end:0"] if end is not None else [])],
            special_tokens=[{"id": name, "ids": [index], "tokens": [tokens[index]]} for name, index in named.items()],
        )


def _anchor(backend: tokenizers.Tokenizer, types: Sequence[int]) -> int | None:
    """Return a token with text that does not begin with a blank."""
    for index, kind in enumerate(types):
        if kind == _NORMAL and (text := str(backend.decode([index]))).isascii() and text.strip() == text != "":
            return index
    return None


def _model(path: Path, tokens: list[str], pairs: list[Any], **options: Any) -> models.BPE:
    # The package raises plain exceptions.
    try:
        return models.BPE({token: index for index, token in enumerate(tokens)}, pairs, **options)
    except Exception as error:
        raise ValueError(f"{path}: the tokenizer cannot be made: {error}") from error
