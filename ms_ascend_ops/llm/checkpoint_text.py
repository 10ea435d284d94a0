"""Tokenizer and chat template of a checkpoint."""

from __future__ import annotations

from pathlib import Path

from ms_ascend_ops.llm.chat_template import ChatTemplate
from ms_ascend_ops.llm.checkpoints.checkpoint import Checkpoint
from ms_ascend_ops.llm.config import ModelConfig
from ms_ascend_ops.llm.tokenizer import Tokenizer

__all__ = ["check_vocabulary", "load_template", "load_tokenizer", "template_of"]


def load_tokenizer(checkpoint: Checkpoint) -> Tokenizer:
    """The tokenizer of a checkpoint.

    Raises:
        ValueError: it has none that can be read, or one with more tokens than the embedding has rows.
    """
    tokenizer = checkpoint.make_tokenizer()
    check_vocabulary(checkpoint.path, tokenizer, checkpoint.config)
    return tokenizer


def check_vocabulary(path: Path, tokenizer: Tokenizer, config: ModelConfig) -> None:
    """Raise ValueError where a tokenizer has more tokens than the embedding has rows."""
    if tokenizer.vocabulary > config.vocabulary:
        raise ValueError(
            f"{path}: the tokenizer has {tokenizer.vocabulary} tokens, but the embedding only {config.vocabulary} rows"
        )


def load_template(checkpoint: Checkpoint, tokenizer: Tokenizer) -> ChatTemplate | None:
    """The chat template of a checkpoint, if it has one."""
    return template_of(checkpoint.path, checkpoint.chat_template, tokenizer, checkpoint.config)


def template_of(path: Path, text: str | None, tokenizer: Tokenizer, config: ModelConfig) -> ChatTemplate | None:
    """A chat template from its text."""
    if text is None:
        return None
    begin = "" if config.begin_token is None else tokenizer.token(config.begin_token)
    end = tokenizer.token(config.end_tokens[0]) if config.end_tokens else ""
    return ChatTemplate(text, str(path), begin, end)
