"""`llm chat`: a conversation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from ms_ascend_ops.commands.errors import need_extra, reported
from ms_ascend_ops.commands.llm.options import MODEL, model_options, opened, sampling_of, sampling_options

__all__ = ["chat"]


_HELP = "/clear begins a new conversation, /quit or Control-D ends it, Control-C ends an answer"


@click.command()
@click.argument("model", type=MODEL)
@click.option("--system", help="What the model is told first.")
@sampling_options
@model_options
def chat(model: Path, system: str | None, max_tokens: int, stops: tuple[str, ...], **options: Any) -> None:
    """Talk to MODEL. Control-C ends an answer, Control-D or /quit the conversation; /clear begins a new one.

    Of what was said before, keys and values stay in the cache: only what is new is calculated.
    """
    need_extra("llm")
    with reported():
        sampling = sampling_of(options)
        language_model = opened(model, options)
        if language_model.template is None:
            raise ValueError(f"{model}: the model has no chat template; try `llm generate`")
        told = [] if system is None else [{"role": "system", "content": system}]
        messages: list[dict[str, str]] = list(told)
        if sys.stdin.isatty():
            click.echo(f"{model.name}: {_HELP}")
        while (question := _question()) is not None and question not in ("/quit", "/exit"):
            if question in ("/help", "/?"):
                click.echo(_HELP)
                continue
            if question == "/clear":
                messages = list(told)
                continue
            messages.append({"role": "user", "content": question})
            ids = language_model.chat_tokens(messages)
            if len(ids) >= language_model.executor.context:
                click.echo(
                    f"The conversation fills the context ({language_model.executor.context} tokens): /clear, or "
                    "start with a larger --context",
                    err=True,
                )
                messages.pop()
                continue
            pieces: list[str] = []
            try:
                for piece in language_model.stream(ids, max_tokens, sampling, stops):
                    pieces.append(piece)
                    click.echo(piece, nl=False)
            except KeyboardInterrupt:
                click.echo(" [stopped]", nl=False)
            click.echo()
            messages.append({"role": "assistant", "content": "".join(pieces)})


def _question() -> str | None:
    """What the user types; None: the end."""
    while True:
        try:
            text = input("> " if sys.stdin.isatty() else "").strip()
        except (EOFError, KeyboardInterrupt):
            click.echo()
            return None
        if text:
            return text
