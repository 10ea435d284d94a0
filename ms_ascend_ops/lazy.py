"""Imports names of a package when they are used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_attributes"]


def lazy_attributes(package: str, origins: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package.

    `origins`: the module that each name comes from; the name itself if it is one.
    """

    def attribute(name: str) -> Any:
        if name not in origins:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        try:
            module = import_module(origins[name])
        except AttributeError as error:
            # Python takes this error for a missing name, and says no more than this.
            raise ImportError(f"cannot import {name} from {package}: {error}") from error
        value = module if origins[name] == f"{package}.{name}" else getattr(module, name)
        vars(sys.modules[package])[name] = value
        return value

    return attribute
