"""The tokenizer that a GGUF file holds: vocabulary, merges or scores, and a name for how text is cut first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers

from ms_ascend_ops.llm.tokenizer import Tokenizer

__all__ = ["read_tokenizer"]

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)

# How text is cut before pairs are merged, by the name that llama.cpp gives it: a pattern, or None for that of GPT-2;
# whether digits come alone; whether a piece that is a token need not be merged.
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_CUTS: Mapping[str, tuple[str | None, bool, bool]] = {
    "default": (None, False, False),
    "gpt-2": (None, False, False),
    "smollm": (None, True, False),
    "llama-bpe": (_LLAMA3, False, True),
    "llama3": (_LLAMA3, False, True),
    "qwen2": (_QWEN2, False, False),
}


def read_tokenizer(path: Path, fields: Mapping[str, Any]) -> Tokenizer:
    """Make the tokenizer of a file with these keys.

    Raises:
        ValueError: a key is missing, does not fit, or names a tokenizer that is not supported.
    """

    def get(key: str, kind: type, default: Any = None) -> Any:
        value = fields.get(f"tokenizer.ggml.{key}", default)
        if not isinstance(value, kind):
            raise ValueError(f"{path}: the key tokenizer.ggml.{key} is missing, or no {kind.__name__}")
        return value

    kind, tokens = get("model", str), get("tokens", list)
    types = get("token_type", list, [_NORMAL] * len(tokens))
    if len(types) != len(tokens):
        raise ValueError(
            f"{path}: tokenizer.ggml.token_type must have {len(tokens)} elements, as tokenizer.ggml.tokens, got "
            f"{len(types)}"
        )
    if kind == "gpt2":
        backend = _byte_level(path, tokens, get("merges", list), get("pre", str, "default"))
    elif kind == "llama":
        scores = get("scores", list)
        backend = _sentence_piece(path, tokens, scores, types, bool(get("add_space_prefix", bool, True)))
    else:
        raise ValueError(f"{path}: tokenizer.ggml.model must be gpt2 or llama, got {kind!r}")
    for token_type, special in ((_CONTROL, True), (_USER_DEFINED, False)):
        added = [
            AddedToken(token, normalized=False, special=special)
            for token, its in zip(tokens, types, strict=True)
            if its == token_type
        ]
        backend.add_special_tokens(added) if special else backend.add_tokens(added)
    if backend.get_vocab_size() != len(tokens):
        raise ValueError(f"{path}: tokenizer.ggml.tokens has tokens twice: {len(tokens)}, of which "
                         f"{backend.get_vocab_size()} differ")  # fmt: skip
    begin = get("bos_token_id", int, -1) if fields.get("tokenizer.ggml.add_bos_token", kind == "llama") else -1
    return Tokenizer(backend, begin if begin >= 0 else None)


def _byte_level(path: Path, tokens: list[str], merges: list[str], cut: str) -> tokenizers.Tokenizer:
    if cut not in _CUTS:
        raise ValueError(f"{path}: tokenizer.ggml.pre must be one of {', '.join(_CUTS)}, got {cut!r}")
    pattern, digits, ignore_merges = _CUTS[cut]
    pairs = [tuple(merge.split(" ", 1)) for merge in merges]
    model = _model(path, tokens, pairs, ignore_merges=ignore_merges)
    backend = tokenizers.Tokenizer(model)
    steps: list[Any] = [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    if pattern:
        steps.append(pre_tokenizers.Split(Regex(pattern), "isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None))
    backend.pre_tokenizer = pre_tokenizers.Sequence(steps)
    backend.decoder = decoders.ByteLevel()
    return backend


def _sentence_piece(
    path: Path, tokens: list[str], scores: list[float], types: list[int], prefix: bool
) -> tokenizers.Tokenizer:
    """Merges follow from the scores: of all pairs that make a token, the one with the highest score comes first."""
    if len(scores) != len(tokens):
        raise ValueError(
            f"{path}: tokenizer.ggml.scores must have {len(tokens)} elements, as the tokens, got {len(scores)}"
        )
    vocabulary = {token: index for index, token in enumerate(tokens)}
    ranked = []
    for token, score, kind in zip(tokens, scores, types, strict=True):
        if kind == _NORMAL:
            splits = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
            ranked += [
                (-score, vocabulary[left], vocabulary[right], left, right)
                for left, right in splits
                if left in vocabulary and right in vocabulary
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


def _model(path: Path, tokens: list[str], pairs: list[Any], **options: Any) -> models.BPE:
    # The package raises plain exceptions.
    try:
        return models.BPE({token: index for index, token in enumerate(tokens)}, pairs, **options)
    except Exception as error:
        raise ValueError(f"{path}: the tokenizer cannot be made: {error}") from error
