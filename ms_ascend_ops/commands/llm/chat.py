"""Defines `llm chat`: a conversation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ms_ascend_ops.commands.errors import need_extra, reported
from ms_ascend_ops.commands.llm.options import MODEL, model_options, opened, sampling_of, sampling_options

if TYPE_CHECKING:
    from ms_ascend_ops.llm.model import LanguageModel
    from ms_ascend_ops.llm.scheduler import Request

__all__ = ["chat"]

_FULL = "/clear, or start with a larger --context"
_HELP = "/clear begins a new conversation, /quit or Control-D ends it, Control-C stops an answer."


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
        context = language_model.executor.context
        _greet(
            f"{model.name}: a conversation of at most {context} tokens. /help says what else there is, /quit ends it."
        )
        while (question := _question()) not in (None, "/quit", "/exit"):
            if question == "/help":
                click.echo(_HELP, err=True)
                continue
            if question == "/clear":
                messages = list(told)
                _greet("A new conversation.")
                continue
            if question.startswith("/") and " " not in question and question.count("/") == 1:
                click.echo(f"There is no command {question}. {_HELP}", err=True)
                continue
            messages.append({"role": "user", "content": question})
            ids = language_model.chat_tokens(messages)
            if len(ids) >= context:
                click.echo(f"The conversation fills the context ({context} tokens): {_FULL}", err=True)
                messages.pop()
                continue
            request = language_model.request(
                ids, max_tokens, sampling, stops, lambda text: click.echo(text, nl=False)
            )  # fmt: skip
            ending = _answer(language_model, request, context)
            click.echo()
            if ending:
                click.echo(f"[{ending}]", err=True)
            messages.append({"role": "assistant", "content": request.text})


def _answer(language_model: LanguageModel, request: Request, context: int) -> str:
    """Generate an answer. Returns why it ended before its end, if it did.

    Raises:
        RuntimeError: the numbers overflowed.
    """
    scheduler = language_model.scheduler
    scheduler.submit(request)
    try:
        while request.finish_reason is None:
            scheduler.step()
    except KeyboardInterrupt:
        scheduler.cancel(request)
        return "stopped"
    if request.error is not None:
        raise RuntimeError(request.error)
    if request.context_full:
        return f"the context of {context} tokens is full: {_FULL}"
    return f"stopped after --max-tokens {request.max_tokens}" if request.finish_reason == "length" else ""


def _greet(text: str) -> None:
    """Greet people only: what comes of a pipe is asked by a program."""
    if sys.stdin.isatty():
        click.echo(text, err=True)


def _question() -> str | None:
    """Return what the user types; None: the end."""
    while True:
        try:
            text = input("> " if sys.stdin.isatty() else "").strip()
        except (EOFError, KeyboardInterrupt):
            click.echo()
            return None
        if text:
            return text
