"""Reads and checks the fields of requests: what is wrong is said with the name of the field."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ms_ascend_ops.serving.errors import BadRequest

if TYPE_CHECKING:
    from ms_ascend_ops.llm.sampling import Sampling

__all__ = ["Options", "check_size", "integer", "options_of", "text_of", "typed"]

MOST_CHOICES = 64
_MOST_STOPS = 16
_MOST_BIASES = 1024
_MOST_LOGPROBS = 20
# Fields that do nothing here, and those that do something elsewhere, with the values that change nothing.
_IGNORED = ("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key")
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "best_of": (None, 1),
    "suffix": (None, ""),
    "functions": (None, []),
    "function_call": (None, "none", "auto"),
    "modalities": (None, ["text"]),
    "reasoning_effort": (None,),
}
_COMMON = (
    "model", "max_tokens", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty",
    "frequency_penalty", "logit_bias", "logprobs", "seed", "stop", "n", "stream", "stream_options",
)  # fmt: skip


@dataclass(frozen=True)
class Options:
    """Holds the options that completions and chats have in common."""

    model: str
    most: int | None  # tokens
    limit: str  # the field that said so
    sampling: Sampling
    stop: tuple[str, ...]
    choices: int
    stream: bool
    usage: bool  # as the last piece of a stream
    logprobs: int | None  # so many of the most likely tokens beside each; None: no probabilities


def options_of(
    fields: Mapping[str, Any], own: Sequence[str], most: int | None, least: int = 1, chat: bool = False
) -> Options:  # fmt: skip
    """Return what a request says, of the fields that both APIs have.

    Args:
        fields: of the body.
        own: the other fields of this API.
        most: tokens without max_tokens.
        least: the smallest max_tokens.
        chat: whether it is a conversation.

    Raises:
        BadRequest: a field is not there, is unknown, or has a value that is not allowed.
    """
    check_known(fields, (*_COMMON, *own))
    model = model_of(fields)
    stream = typed(fields, "stream", bool, False)
    stream_options = typed(fields, "stream_options", dict, {})
    if stream_options and not stream:
        raise BadRequest("stream_options needs stream", "stream_options")
    usage = typed(stream_options, "include_usage", bool, False)
    limit = "max_completion_tokens" if chat and fields.get("max_completion_tokens") is not None else "max_tokens"
    return Options(
        model, integer(fields, limit, most, least), limit, _sampling(fields), _stops(fields.get("stop")),
        integer(fields, "n", 1, 1, MOST_CHOICES) or 1, stream, usage, _logprobs(fields, chat),
    )  # fmt: skip


def check_known(fields: Mapping[str, Any], names: Sequence[str]) -> None:
    """Refuse what is not there rather than ignore it.

    Raises:
        BadRequest: a field has another name, or asks for what is not supported.
    """
    for name, value in fields.items():
        if name in names or name in _IGNORED:
            continue
        if name not in _NEUTRAL:
            raise BadRequest(f"there is no field {name[:64]!r}", name[:64])
        if not any(type(value) is type(neutral) and value == neutral for neutral in _NEUTRAL[name]):
            raise BadRequest(f"{name} is not supported", name)


def model_of(fields: Mapping[str, Any]) -> str:
    """Return the name of the model.

    Raises:
        BadRequest: it is missing.
    """
    model: str | None = typed(fields, "model", str, None)
    if model is None:
        raise BadRequest("the field model is missing", "model")
    return model


def check_size(value: Any, name: str, values: int = 10_000, characters: int = 65536, depth: int = 32) -> None:
    """Refuse a value that is large or deep, by a walk that is no longer than the limits.

    Raises:
        BadRequest: it is.
    """
    left = [(value, 1)]
    while left:
        one, level = left.pop()
        values -= 1
        inner: list[Any] = []
        if isinstance(one, dict):
            inner = list(one.values()) if len(one) <= values else [None] * len(one)
            characters -= sum(map(len, one)) if len(one) <= values else 0
        elif isinstance(one, list):
            inner = one
        elif isinstance(one, str):
            characters -= len(one)
        elif isinstance(one, int) and abs(one) >= 2**63:
            raise BadRequest(f"{name} must have numbers below 2**63", name)
        if level > depth or values < len(inner) or characters < 0:
            raise BadRequest(
                f"{name} is too large: 10000 values, 65536 characters and {depth} levels are the most", name
            )
        left += [(part, level + 1) for part in inner]


def text_of(text: str, parameter: str) -> str:
    """Check that the text is one of Unicode, and return it.

    Raises:
        BadRequest: it holds a half of a surrogate pair, which JSON can have.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadRequest(
            f"{parameter} holds half of a character (U+{ord(text[error.start]):04X})", parameter
        ) from error
    return text


def typed(fields: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    """Return a field of a type; without it, or if it is null, the default.

    Raises:
        BadRequest: it is of another type.
    """
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, kind):
        raise BadRequest(f"{name} must be {_KINDS[kind]}, got {reprlib.repr(value)}", name)
    return value


_KINDS = {bool: "true or false", str: "a text", dict: "an object", list: "a list"}


def integer(fields: Mapping[str, Any], name: str, default: int | None, least: int, most: int = 2**31) -> int | None:
    """Return a field that is an integer.

    Raises:
        BadRequest: it is none, or is out of bounds.
    """
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise BadRequest(f"{name} must be an integer from {least} to {most}, got {reprlib.repr(value)}", name)
    return value


def _float(fields: Mapping[str, Any], name: str, default: float, least: float, most: float) -> float:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:  # nor NaN
        raise BadRequest(f"{name} must be a number from {least:g} to {most:g}, got {reprlib.repr(value)}", name)
    return float(value)


def _sampling(fields: Mapping[str, Any]) -> Sampling:
    from ms_ascend_ops.llm.sampling import Sampling  # noqa: PLC0415 - of the extra [llm]

    for name in ("top_p", "repetition_penalty"):
        if fields.get(name) == 0 and not isinstance(fields[name], bool):
            raise BadRequest(f"{name} must be larger than 0, got {fields[name]}", name)
    return Sampling(
        temperature=_float(fields, "temperature", 1.0, 0.0, 2.0),
        top_p=_float(fields, "top_p", 1.0, 0.0, 1.0),
        top_k=integer(fields, "top_k", 0, 0) or 0,
        min_p=_float(fields, "min_p", 0.0, 0.0, 1.0),
        repetition_penalty=_float(fields, "repetition_penalty", 1.0, 0.0, 100.0),
        presence_penalty=_float(fields, "presence_penalty", 0.0, -2.0, 2.0),
        frequency_penalty=_float(fields, "frequency_penalty", 0.0, -2.0, 2.0),
        logit_bias=_biases(typed(fields, "logit_bias", dict, {})),
        seed=_seed(fields),
    )


def _biases(given: Mapping[str, Any]) -> tuple[tuple[int, float], ...]:
    if len(given) > _MOST_BIASES:
        raise BadRequest(f"logit_bias must have at most {_MOST_BIASES} tokens, got {len(given)}", "logit_bias")
    biases = []
    for key, value in given.items():
        is_token = key.isascii() and key.isdecimal() and len(key) < 10
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not is_token or not is_number or not -100 <= value <= 100:
            raise BadRequest(
                f"logit_bias must be a map of tokens to numbers from -100 to 100, got {key[:40]!r}: "
                f"{reprlib.repr(value)}", "logit_bias",
            )  # fmt: skip
        biases.append((int(key), float(value)))
    return tuple(biases)


def _logprobs(fields: Mapping[str, Any], chat: bool) -> int | None:
    if not chat:
        if fields.get("logprobs") is False:
            return None
        return integer(fields, "logprobs", None, 0, _MOST_LOGPROBS)
    wanted = typed(fields, "logprobs", bool, False)
    count = integer(fields, "top_logprobs", 0, 0, _MOST_LOGPROBS)
    if count and not wanted:
        raise BadRequest("top_logprobs needs logprobs", "top_logprobs")
    return count if wanted else None


def _seed(fields: Mapping[str, Any]) -> int | None:
    seed = integer(fields, "seed", None, -(2**63), 2**63)
    return None if seed is None else seed % 2**63  # the generator takes no negative ones


def _stops(stop: Any) -> tuple[str, ...]:
    stops = [stop] if isinstance(stop, str) else [] if stop is None else stop
    if not isinstance(stops, list) or len(stops) > _MOST_STOPS or not all(isinstance(one, str) for one in stops):
        raise BadRequest(f"stop must be a text or a list of at most {_MOST_STOPS}", "stop")
    if any(not one or len(one) > 1000 for one in stops):
        raise BadRequest("a stop text must have 1 to 1000 characters", "stop")
    return tuple(stops)
