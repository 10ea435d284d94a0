"""Cuts a text as tokenizers of byte-level BPE do before they merge pairs, by the name that GGUF files have for it.

The names, and what follows from them beside the cut, are llama.cpp's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["CUTS", "Cut"]


@dataclass(frozen=True)
class Cut:
    """Cuts text by patterns, each of which cuts the pieces of those before it.

    Args:
        patterns: regular expressions; what lies between two matches is a piece, too.
        whole: a piece that is a token is not made by merging.
        add_begin: a text begins with the token of the begin unless the file says otherwise.
    """

    patterns: tuple[str, ...]
    whole: bool = False
    add_begin: bool = False


_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_SHORT = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_END = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_SHORT}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_END}"
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_UPPER, _LOWER = r"(?:(?=\p{L})[^a-z])", r"(?:(?=\p{L})[^A-Z])"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|\p{{N}}|"
    rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_END}"
)
_MARKS = r"[\p{P}\$\+<=>\^~\|]+"
_THREE = "[0-9][0-9][0-9]"
# Between its ends there are blanks (U+2003, U+3000), which llama.cpp takes out.
_CJK = "(?:(?!\\s)[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff])+"

_OF_NAMES: Mapping[str, Cut] = {
    "default": Cut((_MARKS, _GPT2, r"\p{N}+", _THREE)),
    "gpt-2 phi-2 mpt olmo jais trillion exaone4 a.x-4.0 mellum gigachat": Cut((_GPT2,)),
    "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2": Cut((r"\p{N}", _GPT2)),
    "llama-bpe llama3 llama-v3 falcon3 pixtral midm-2.0 lfm2": Cut((_LLAMA3,), whole=True, add_begin=True),
    "dbrx smaug-bpe glm4 chatglm-bpe": Cut((_LLAMA3,)),
    "qwen2 deepseek-r1-qwen kormo megrez stablelm2 hunyuan solar-open grok-2": Cut((_QWEN2,)),
    "tekken": Cut((_TEKKEN,), whole=True, add_begin=True),
    "falcon": Cut((_MARKS.replace("|]", "|`]"), _GPT2, _THREE)),
    "deepseek-coder": Cut((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK, r"\p{N}")),
}
CUTS: Mapping[str, Cut] = {name: cut for names, cut in _OF_NAMES.items() for name in names.split()}
