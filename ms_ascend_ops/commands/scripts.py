"""Defines the console scripts beside `ms-ascend-ops`, with the names and options that tutorials of this field have:

ms_optimize --fusion_level=O3 network.mindir
ms_infer --model network.mindir --save_profile
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from ms_ascend_ops.entry import run

__all__ = ["arguments_of", "ms_infer", "ms_optimize"]

_LEVEL = {"--fusion-level": "--level"}


def ms_optimize() -> None:
    """Run `optimize`."""
    _run("optimize", _LEVEL)


def ms_infer() -> None:
    """Run `infer`."""
    _run("infer", {})


def _run(command: str, aliases: Mapping[str, str]) -> None:
    run([command, *arguments_of(sys.argv[1:], aliases)])


def arguments_of(given: Sequence[str], aliases: Mapping[str, str]) -> list[str]:
    """Return them as the commands take them: options with hyphens, and the model, which may be `--model`, last."""
    found, model, expected = [], [], False
    for text in given:
        if expected:
            model.append(text)
            expected = False
            continue
        name, equals, value = text.partition("=")
        if not name.startswith("--") or name == "--":
            found.append(text)
            continue
        name = name.replace("_", "-")
        if name == "--model":
            expected = not equals
            model += [value] if equals else []
        else:
            found.append(f"{aliases.get(name, name)}{equals}{value}")
    return [*found, "--", *model] if model else found
