"""Reads tokens of a GGUF file that mean something: begin, end, and those at which generation stops, by
llama.cpp's rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ms_ascend_ops.llm.checkpoints.gguf_cuts import CUTS

__all__ = ["CONTROL_NAMES", "SpecialTokens", "read_special_tokens", "tokenizer_field"]

# A file that names none has llama.cpp's numbers for SentencePiece, and for byte-level BPE.
_DEFAULTS = {"llama": (1, 2), "gpt2": (11, 11)}
_NO_BEGIN = ("glm4", "chatglm-bpe")

# Tokens of these names end a text whatever the file calls its end: converters name one of several only.
_ENDS = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>",
    "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>",
    "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "<\uff5cend▁of▁sentence\uff5c>", "[e~[",
)  # fmt: skip
# So do these of infilling, unless the file names others: padding, and the begin of another repository or file.
_INFILL = {
    "fim_pad": ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    "fim_rep": ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    "fim_sep": ("<|file_sep|>",),
}
# Tokens of these names are control tokens, whatever type the file gives them.
CONTROL_NAMES = frozenset(_ENDS).union(*_INFILL.values())


@dataclass(frozen=True)
class SpecialTokens:
    """Holds numbers of tokens.

    Args:
        begin, end: of a text; None: there is none.
        ends: at which generation stops; `end` first.
        add_begin, add_end: whether a text that is no conversation gets them.
    """

    begin: int | None
    end: int | None
    ends: tuple[int, ...]
    add_begin: bool
    add_end: bool


def read_special_tokens(path: Path, fields: Mapping[str, Any]) -> SpecialTokens:
    """Read the special tokens of a file with these keys.

    Raises:
        ValueError: a key does not fit, or is one that is not supported.
    """
    model = fields.get("tokenizer.ggml.model")
    tokens = fields.get("tokenizer.ggml.tokens")
    tokens = tokens if isinstance(tokens, list) else []
    numbers = {token: index for index, token in enumerate(tokens) if isinstance(token, str)}

    def number(name: str, default: int | None = None) -> int | None:
        value = tokenizer_field(path, fields, f"{name}_token_id", int, -1)
        if value < 0:
            return default if default is None or default < len(tokens) else None
        if value >= len(tokens) > 0:
            raise ValueError(f"{path}: tokenizer.ggml.{name}_token_id must be < {len(tokens)}, got {value}")
        return int(value)

    cut = fields.get("tokenizer.ggml.pre")
    begin, end = _DEFAULTS.get(str(model), (None, None)) if tokens else (None, None)
    begin, end = number("bos", None if cut in _NO_BEGIN else begin), number("eos", end)
    ends = [end, number("eot"), number("eom")]
    ends += [
        number(name, next((numbers[token] for token in names if token in numbers), None))
        for name, names in _INFILL.items()
    ]
    named = [numbers[name] for name in _ENDS if name in numbers]
    if {"<|call|>", "<|return|>"} <= numbers.keys() or (
        "<|flush|>" in numbers and ("<|call|>" in numbers or "<|calls|>" in numbers)
    ):  # <|end|> is only that of one message there
        named = [index for index in named if tokens[index] != "<|end|>"]
        ends = [index for index in ends if index is None or tokens[index] != "<|end|>"]
    if "<|tool_response>" in numbers:  # </s> is an HTML tag there
        named = [index for index in named if tokens[index] != "</s>"]
    adds = model == "llama" or (model == "gpt2" and isinstance(cut, str) and cut in CUTS and CUTS[cut].add_begin)
    add_begin = tokenizer_field(path, fields, "add_bos_token", bool, adds)
    add_end = tokenizer_field(path, fields, "add_eos_token", bool, False)
    for added, token, name in ((add_begin, begin, "bos"), (add_end, end, "eos")):
        if added and token is None and tokens:
            raise ValueError(f"{path}: a text gets a token that tokenizer.ggml.{name}_token_id does not name")
    return SpecialTokens(
        begin, end, tuple(dict.fromkeys(index for index in [*ends, *named] if index is not None)), add_begin, add_end
    )


def tokenizer_field(path: Path, fields: Mapping[str, Any], key: str, kind: type, default: Any = None) -> Any:
    """Return a value `tokenizer.ggml.<key>`.

    Raises:
        ValueError: it is missing, and there is no default, or it has another type.
    """
    value = fields.get(f"tokenizer.ggml.{key}", default)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{path}: the key tokenizer.ggml.{key} is missing, or no {kind.__name__}")
    return value
