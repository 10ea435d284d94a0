"""Reads tokenizer and chat template of a directory of Hugging Face's, by the rules of transformers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ms_ascend_ops.llm.checkpoints.json_file import read_json

if TYPE_CHECKING:
    from ms_ascend_ops.llm.tokenizer import Tokenizer

__all__ = ["chat_template", "read_tokenizer"]

_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")

# A class of transformers calls its tokens so where the files do not say it.
_OF_CLASSES: Mapping[str, Mapping[str, str]] = {
    "LlamaTokenizer": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
    "Qwen2Tokenizer": {
        "unk_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>",
    },
}  # fmt: skip
_CLASS_OF_MODELS = {"llama": "LlamaTokenizer", "qwen2": "Qwen2Tokenizer", "qwen3": "Qwen2Tokenizer"}
_MOST_TEMPLATE_BYTES = 2**20


def read_tokenizer(path: Path, model_type: str) -> Tokenizer:
    """Read the tokenizer of a directory.

    Which tokens a text begins and ends with is what tokenizer.json says: so transformers has it, whatever
    `add_bos_token` is.

    Raises:
        ValueError: a file is missing or cannot be read.
    """
    from tokenizers import AddedToken  # noqa: PLC0415 - an extra

    from ms_ascend_ops.llm.tokenizer import Tokenizer, read_tokenizer_json  # noqa: PLC0415

    backend = read_tokenizer_json(path / "tokenizer.json")
    config = _optional(path / "tokenizer_config.json")
    named = _named_tokens(path, config, model_type, '"ByteLevel"' in str(backend.pre_tokenizer.__getstate__()))
    # A token that has a name is no text, and neither are those that the configuration calls special.
    special = [named[name] for name in _NAMES if name in named]
    listed = config.get("added_tokens_decoder")
    for entry in listed.values() if isinstance(listed, dict) else ():
        if isinstance(entry, dict) and entry.get("special") is True and isinstance(entry.get("content"), str):
            special.append(entry["content"])
    known = [token for token in dict.fromkeys(special) if backend.token_to_id(token) is not None]
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in known])
    if config.get("split_special_tokens") is True:
        backend.encode_special_tokens = True
    return Tokenizer(backend, named)


def chat_template(path: Path) -> str | None:
    """Return the text of the chat template of a directory, if it has one.

    Raises:
        ValueError: a file cannot be read.
    """
    separate = path / "chat_template.jinja"
    if separate.is_file():
        if (size := separate.stat().st_size) > _MOST_TEMPLATE_BYTES:
            raise ValueError(f"{separate}: it must have at most {_MOST_TEMPLATE_BYTES} bytes, got {size}")
        try:
            return separate.read_text("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{separate}: this is no UTF-8: {error}") from error
    template = _optional(path / "tokenizer_config.json").get("chat_template")
    if isinstance(template, list):  # several, with names
        named = {str(one.get("name")): one.get("template") for one in template if isinstance(one, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None


def _named_tokens(path: Path, config: Mapping[str, Any], model_type: str, byte_level: bool) -> dict[str, str]:
    """Return tokens by the names that chat templates have for them; null: there is none."""
    kind = config.get("tokenizer_class")
    kind = kind.removesuffix("Fast") if isinstance(kind, str) else _CLASS_OF_MODELS.get(model_type, "")
    named: dict[str, Any] = {}
    if not (kind == "LlamaTokenizer" and byte_level):
        named |= _OF_CLASSES.get(kind, {})
    named |= {name: config[name] for name in _NAMES if name in config}
    if "added_tokens_decoder" not in config:  # of older versions
        named |= {name: token for name, token in _optional(path / "special_tokens_map.json").items() if name in _NAMES}
    texts = {name: token.get("content") if isinstance(token, dict) else token for name, token in named.items()}
    return {name: token for name, token in texts.items() if isinstance(token, str) and token}


def _optional(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}
