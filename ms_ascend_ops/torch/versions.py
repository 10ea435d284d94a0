"""What differs between the versions of PyTorch, from 2.6 on."""

from __future__ import annotations

import inspect
from typing import Any

import torch

__all__ = ["GROUP_NORM_HAS_BIAS", "own_compiled_code"]

# Whether `torch.nn.GroupNorm` has the argument `bias`.
GROUP_NORM_HAS_BIAS = "bias" in inspect.signature(torch.nn.GroupNorm).parameters


def own_compiled_code(limit: int) -> dict[str, Any]:
    """Arguments of `torch.compile` by which a model has compiled code of its own, for up to `limit` kinds of inputs.

    Before PyTorch 2.13 there are none: models of one class share Dynamo's limit, and behind it run as they are.
    """
    options = {"isolate_recompiles": True, "recompile_limit": limit}
    return options if options.keys() <= inspect.signature(torch.compile).parameters.keys() else {}
