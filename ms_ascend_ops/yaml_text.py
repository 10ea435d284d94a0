"""Reads YAML of strangers."""

from __future__ import annotations

from typing import Any

import yaml

__all__ = ["read_yaml"]

_MOST_BITS = 1024


class _Loader(yaml.SafeLoader):
    """Loads YAML without aliases: a few of them make a value of any size, or one without an end."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not supported")
        return super().compose_node(parent, index)

    def construct_integer(self, node: Any) -> int:
        """A hexadecimal number has no limit of digits in Python until a message shows it."""
        value = int(self.construct_yaml_int(node))
        if value.bit_length() > _MOST_BITS:
            raise yaml.YAMLError(f"an integer must have at most {_MOST_BITS} bits, got {value.bit_length()}")
        return value


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_integer)


def read_yaml(text: str) -> Any:
    """Read the value of a text.

    Raises:
        ValueError: it is no YAML, has aliases, or is nested too deeply; the message is one line.
    """
    try:
        return yaml.load(text, _Loader)
    # Dates and numbers that are none raise the others.
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"it is no YAML: {' '.join(str(error).split())[:300]}") from error
