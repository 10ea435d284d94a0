"""Reads files of JSON beside the weights."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

__all__ = ["read_json"]

_MOST_BYTES = 64 * 2**20
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(path: Path) -> dict[str, Any]:
    """Read the object of a file.

    Raises:
        ValueError: it is missing, too large, or no object of JSON; the message names the file.
    """
    if not path.is_file():
        raise ValueError(f"{path}: the file is missing")
    if (size := path.stat().st_size) > _MOST_BYTES:
        raise ValueError(f"{path}: it must have at most {_MOST_BYTES} bytes, got {size}")
    try:
        text = path.read_text("utf-8")
        data = json.loads(text)
        if _HALF.search(text):  # half of a pair is no text that can be written again; whole pairs are common
            json.dumps(data, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: this is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise ValueError(f"{path}: this must be a JSON object")
    return data
