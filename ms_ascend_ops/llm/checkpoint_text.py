"""Loads tokenizer and chat template of a checkpoint."""

from __future__ import annotations

from pathlib import Path

from ms_ascend_ops.llm.chat_template import ChatTemplate
from ms_ascend_ops.llm.checkpoints.checkpoint import Checkpoint
from ms_ascend_ops.llm.config import ModelConfig
from ms_ascend_ops.llm.tokenizer import Tokenizer

__all__ = ["check_vocabulary", "load_template", "load_tokenizer", "portable_template", "template_of"]


def load_tokenizer(checkpoint: Checkpoint) -> Tokenizer:
    """Return the tokenizer of a checkpoint.

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
    """Return the chat template of a checkpoint, if it has one."""
    return template_of(checkpoint.path, checkpoint.chat_template, tokenizer)


def template_of(path: Path, text: str | None, tokenizer: Tokenizer) -> ChatTemplate | None:
    """Make a chat template from its text."""
    return None if text is None else ChatTemplate(text, str(path), tokenizer.named)


def portable_template(checkpoint: Checkpoint, tokenizer: Tokenizer) -> str:
    """Return the text of a chat template, for programs that put no tokens around a conversation.

    Raises:
        ValueError: it is none.
    """
    text = checkpoint.chat_template or ""
    begin = tokenizer.begin_token
    if not tokenizer.around_chats or begin is None:
        return text
    template = ChatTemplate(text, str(checkpoint.path), tokenizer.named)
    try:
        writes_it = template.render([{"role": "user", "content": "?"}]).startswith(tokenizer.token(begin))
    except ValueError:  # it does not like this conversation
        writes_it = "bos_token" in text
    return text if writes_it else "{{- bos_token }}" + text
