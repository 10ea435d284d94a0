"""Holds what differs between the versions of PyTorch, from 2.6 on."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from ms_ascend_ops.export.graphs.torch_functions import DEFAULT_EPSILON

__all__ = [
    "GROUP_NORM_HAS_BIAS",
    "accumulated_limit",
    "default_epsilon",
    "failing_at_the_limit",
    "own_compiled_code",
]

_VERSION = tuple(int(number) for number in torch.__version__.split(".")[:2])

# Says whether `torch.nn.GroupNorm` has the argument `bias`.
GROUP_NORM_HAS_BIAS = "bias" in inspect.signature(torch.nn.GroupNorm).parameters


def default_epsilon(dtype: torch.dtype) -> float:
    """Return what PyTorch's RMSNorm takes for an eps of None. Before 2.7 it is that of the dtype of x."""
    return DEFAULT_EPSILON if _VERSION >= (2, 7) or not dtype.is_floating_point else float(torch.finfo(dtype).eps)


def own_compiled_code(limit: int) -> dict[str, Any]:
    """Return arguments of `torch.compile` by which a model has compiled code of its own, for up to `limit`
    kinds of inputs.

    Before PyTorch 2.13 there are none: models of one class share Dynamo's limit, and behind it run as they are.
    """
    options = {"isolate_recompiles": True, "recompile_limit": limit}
    return options if options.keys() <= inspect.signature(torch.compile).parameters.keys() else {}


def failing_at_the_limit() -> dict[str, Any]:
    """Return the option of Dynamo by which code that was compiled too often is an error."""
    return {"fail_on_recompile_limit_hit" if _VERSION >= (2, 7) else "fail_on_cache_limit_hit": True}


def accumulated_limit() -> tuple[str, int]:
    """Return the option that says how often code is compiled in a process, and its value."""
    name = "accumulated_recompile_limit" if _VERSION >= (2, 7) else "accumulated_cache_size_limit"
    return f"torch._dynamo.config.{name}", getattr(torch._dynamo.config, name)
