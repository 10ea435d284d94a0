"""Reads the settings of the server and its models: options of the command, and `config.yaml` of a model."""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ms_ascend_ops.yaml_text import read_yaml

__all__ = ["ModelOptions", "Settings", "read_options"]

_MIB = 2**20
_MOST_CONFIG_BYTES = 65536


@dataclass(frozen=True)
class ModelOptions:
    """Says how a model is served; the keys of its `config.yaml`.

    `dtype` and what follows it are of language models, and mean what they do for `ms_ascend_ops llm`; `max_batch_size`
    to `most` are of networks.

    Args:
        versions: "latest", "all", or numbers: what is loaded.
        traffic: version -> share of the requests that name no version; without it the highest version gets all.
        queue: requests that wait at most, beyond those that are worked on; more are refused (429).
        timeout_s: a request that has no answer then is given up (504).
        max_batch_size: rows of axis 0 that run together at most; 1: requests are not put together.
        batch_delay_ms: a request waits so long at most for others to come.
        sizes: input -> its sizes, each a number or a name that means the same size everywhere, as [batch, length, 64].
        most: name of a size -> the largest that is taken.
        dtype: in which the network calculates.
        weights: "quantized": as the file has them; "float": unpacked.
        engine: "kernels" or "mindspore".
        context: tokens of a sequence; None: up to 4096, as the model allows.
        cache_tokens: tokens of all sequences that the cache holds.
        batch: sequences that are worked on at once.
    """

    versions: str | tuple[int, ...] = "latest"
    traffic: Mapping[int, float] = field(default_factory=dict)
    queue: int = 128
    timeout_s: float = 60.0
    max_batch_size: int = 1
    batch_delay_ms: float = 2.0
    sizes: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)
    most: Mapping[str, int] = field(default_factory=dict)
    dtype: str = "float32"
    weights: str = "quantized"
    engine: str = "kernels"
    context: int | None = None
    cache_tokens: int | None = None
    batch: int = 8

    def __post_init__(self) -> None:
        rules = (
            ("versions", _are_versions(self.versions), '"latest", "all" or a list of numbers'),
            ("traffic", _is_traffic(self.traffic), "a map of versions to shares >= 0, not all 0"),
            ("queue", _is_int(self.queue, 1), "an integer >= 1"),
            ("timeout_s", _is_number(self.timeout_s) and self.timeout_s > 0, "> 0"),
            ("max_batch_size", _is_int(self.max_batch_size, 1), "an integer >= 1"),
            ("batch_delay_ms", _is_number(self.batch_delay_ms) and 0 <= self.batch_delay_ms <= 10000, ">= 0, <= 10000"),
            ("sizes", _are_sizes(self.sizes), "a map of inputs to lists of numbers and names"),
            ("most", _is_map(self.most) and all(_is_int(size, 1) for size in self.most.values()), "a map of sizes"),
            ("context", self.context is None or _is_int(self.context, 2), "an integer >= 2"),
            ("cache_tokens", self.cache_tokens is None or _is_int(self.cache_tokens, 1), "an integer >= 1"),
            ("batch", _is_int(self.batch, 1), "an integer >= 1"),
            *((name, isinstance(getattr(self, name), str), "a text") for name in ("dtype", "weights", "engine")),
        )
        for name, kept, rule in rules:
            if not kept:
                raise ValueError(f"{name} must be {rule}, got {reprlib.repr(getattr(self, name))}")


@dataclass(frozen=True)
class Settings:
    """Says how a server runs.

    Args:
        repository: a folder with a folder for each model, which holds a folder for each version (docs/serving.md).
        models: name -> file or directory, beside those of the repository; they stay as long as the server does.
        load: names of the repository that are loaded at the start; None: all.
        defaults: options of models that have no such key in their config.yaml.
        api_keys: one of them has to come with a request; empty: everybody may ask.
        admin_keys: who may load and unload. With api_keys and without these, nobody may.
        body_bytes: largest body of a request.
        all_bodies_bytes: bodies that are there at once, together; more are refused (429).
        body_timeout_s: a body that is not there by then is not waited for (408).
        requests: how many may be there at once; more are refused (429).
        hosts: names of this server beside addresses and names that no public DNS has; without keys, browsers must use
            one of them.
        fixed: no request may load or unload a model, or change the traffic.
        count_operators: /metrics has calls, seconds and bytes of operators, too (`ms_ascend_ops.monitoring`).
    """

    repository: str | Path | None = None
    models: Mapping[str, str | Path] = field(default_factory=dict)
    load: tuple[str, ...] | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    api_keys: tuple[str, ...] = ()
    admin_keys: tuple[str, ...] = ()
    body_bytes: int = 64 * _MIB
    all_bodies_bytes: int = 1024 * _MIB
    body_timeout_s: float = 30.0
    requests: int = 1024
    hosts: tuple[str, ...] = ()
    fixed: bool = False
    count_operators: bool = False


def read_options(
    file: Path | None, defaults: Mapping[str, Any], override: Mapping[str, Any] | None = None
) -> ModelOptions:  # fmt: skip
    """Read the options of a model: its file over the server's defaults, and over both what a request to load it says.

    Raises:
        ValueError: the file is no map, or holds a key or a value that is not allowed; the message names the file.
    """
    values = dict(defaults)
    label = "config"
    if file is not None and file.is_file():
        label = file.name
        if file.stat().st_size > _MOST_CONFIG_BYTES:
            raise ValueError(f"{label}: it must have at most {_MOST_CONFIG_BYTES} bytes, got {file.stat().st_size}")
        try:
            read = read_yaml(file.read_text("utf-8"))
        except UnicodeDecodeError as error:
            raise ValueError(f"{label}: it is no YAML: {error}") from error
        except ValueError as error:
            raise ValueError(f"{label}: {error}") from error
        values |= _checked_map({} if read is None else read, label)
    values |= _checked_map(override or {}, "config of the request")
    for name in ("versions", "sizes"):  # lists of YAML and JSON
        if name in values:
            values[name] = _tuples(values[name])
    if isinstance(values.get("traffic"), Mapping):  # JSON has texts as keys
        values["traffic"] = {_number(version): share for version, share in values["traffic"].items()}
    try:
        return ModelOptions(**values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{label}: {error}") from error


def _checked_map(values: Any, label: str) -> dict[str, Any]:
    known = {option.name for option in dataclasses.fields(ModelOptions)}
    if not isinstance(values, Mapping):
        raise ValueError(f"{label}: it must be a map, got {type(values).__name__}")
    if unknown := [str(name) for name in values if name not in known]:
        raise ValueError(f"{label}: there is no option {unknown[0]}; there are {', '.join(sorted(known))}")
    return dict(values)


def _tuples(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _tuples(part) for name, part in value.items()}
    return tuple(value) if isinstance(value, list) else value


def _number(version: Any) -> Any:
    is_number = isinstance(version, str) and version.isascii() and version.isdecimal() and len(version) < 10
    return int(version) if is_number else version


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9


def _is_int(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**31


def _is_map(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


def _are_versions(value: Any) -> bool:
    if isinstance(value, str):
        return value in ("latest", "all")
    return isinstance(value, tuple) and bool(value) and all(_is_int(version, 0) for version in value)


def _is_traffic(value: Any) -> bool:
    if not isinstance(value, Mapping) or not all(_is_int(version, 0) for version in value):
        return False
    shares = list(value.values())
    return not shares or (all(_is_number(share) and share >= 0 for share in shares) and sum(shares) > 0)


def _are_sizes(value: Any) -> bool:
    return _is_map(value) and all(
        isinstance(sizes, tuple) and all(_is_int(size, 0) or isinstance(size, str) for size in sizes)
        for sizes in value.values()
    )
