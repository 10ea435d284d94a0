"""Files of JSON beside the weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["read_json"]

_MOST_BYTES = 64 * 2**20


def read_json(path: Path) -> dict[str, Any]:
    """The object of a file.

    Raises:
        ValueError: it is missing, too large, or no object of JSON; the message names the file.
    """
    if not path.is_file():
        raise ValueError(f"{path}: the file is missing")
    if (size := path.stat().st_size) > _MOST_BYTES:
        raise ValueError(f"{path}: it must have at most {_MOST_BYTES} bytes, got {size}")
    try:
        data = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: this is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise ValueError(f"{path}: this must be a JSON object")
    return data
