"""Makes requests of a language model of prompts, and counts what they cost."""

from __future__ import annotations

import asyncio
import reprlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ms_ascend_ops.serving.errors import BadRequest
from ms_ascend_ops.serving.language import Generation, prompt_tokens
from ms_ascend_ops.serving.openai.fields import Options, text_of
from ms_ascend_ops.serving.service import Version

__all__ = ["all_texts", "prompt_lists", "requests_of", "usage_of"]


def prompt_lists(
    version: Version, prompt: Any, most: int, name: str, echo: bool
) -> tuple[list[list[int]], list[str]]:  # fmt: skip
    """Return the tokens of each prompt, given as texts or as tokens, one or several; and with `echo` the texts.

    Raises:
        BadRequest: they are no prompts, there are more than `most`, or one is longer than the context.
    """
    if isinstance(prompt, str) or (isinstance(prompt, list) and prompt and type(prompt[0]) is int):
        prompt = [prompt]
    if not isinstance(prompt, list) or not 1 <= len(prompt) <= most:
        raise BadRequest(f"{name} must be 1 to {most} texts or lists of tokens", name)
    model, tokens = version.language_model, []
    vocabulary, context = model.config.vocabulary, model.executor.context
    for one in prompt:
        if isinstance(one, str):
            tokens.append(prompt_tokens(version.name, model, text_of(one, name), name))
        elif isinstance(one, list) and len(one) > context:
            raise BadRequest(f"the context of {version.name} is {context} tokens: the {name} has {len(one)}", name)
        elif isinstance(one, list) and all(type(token) is int for token in one):
            if not all(0 <= token < vocabulary for token in one):
                raise BadRequest(f"tokens must be 0 to {vocabulary - 1}", name)
            tokens.append(one)
        else:
            raise BadRequest(f"{name} must be texts or lists of tokens, got {reprlib.repr(one)}", name)
    return tokens, [model.tokenizer.decode(prompt) if echo else "" for prompt in tokens]


def requests_of(
    version: Version, options: Options, prompts: Sequence[Sequence[int]], name: str, **details: Any
) -> list[Any]:  # fmt: skip
    """Return requests for each prompt and choice. `name` is the field that the prompts come from.

    Raises:
        BadRequest: a prompt has no tokens, does not fit, or leaves room for fewer tokens than the request wants.
    """
    model = version.language_model
    context, vocabulary = model.executor.context, model.config.vocabulary
    if any(token >= vocabulary for token, _ in options.sampling.logit_bias):
        raise BadRequest(f"tokens of logit_bias must be 0 to {vocabulary - 1}", "logit_bias")
    requests = []
    for prompt in prompts:
        if not prompt:
            raise BadRequest(f"the {name} must have at least 1 token", name)
        if len(prompt) >= context:
            raise BadRequest(
                f"the context of {version.name} is {context} tokens: the prompt has {len(prompt)}, and 1 at least is "
                "to be generated", name,
            )  # fmt: skip
        if len(prompt) + (options.most or 1) > context:
            raise BadRequest(
                f"{options.limit} is {options.most}: the context of {version.name} is {context} tokens, of which the "
                f"prompt has {len(prompt)} and leaves {context - len(prompt)}", options.limit,
            )  # fmt: skip
        for choice in range(options.choices):
            sampling = options.sampling
            if sampling.seed is not None:
                sampling = replace(sampling, seed=sampling.seed + choice)
            most = context - len(prompt) if options.most is None else max(options.most, 1)
            requests.append(
                model.request(prompt, most, sampling, options.stop, logprobs=options.logprobs, **details)
            )  # fmt: skip
    return requests


def usage_of(
    prompts: Sequence[Sequence[int]], generations: Sequence[Generation], silent: bool = False
) -> dict[str, Any]:
    """Return the numbers of tokens of an answer."""
    prompt = sum(map(len, prompts))
    generated = 0 if silent else sum(len(generation.request.tokens) for generation in generations)
    reused = sum(generation.request.reused for generation in generations[:: len(generations) // len(prompts)])
    return {
        "prompt_tokens": prompt,
        "completion_tokens": generated,
        "total_tokens": prompt + generated,
        "prompt_tokens_details": {"cached_tokens": reused},
    }


async def all_texts(generations: Sequence[Generation], timeout_s: float) -> list[str]:
    """Wait for the whole text of each, and return all of them.

    Raises:
        ServingError: one failed, or was late.
    """
    return list(await asyncio.gather(*(_whole(generation, timeout_s) for generation in generations)))


async def _whole(generation: Generation, timeout_s: float) -> str:
    return "".join([piece async for piece, _ in generation.pieces(timeout_s)])
