"""Fused operators for MindSpore on Ascend NPUs, which also run on any CPU.

    from ms_ascend_ops import RMSNorm, SwiGLU, ops

The names are imported when they are used: `ms_ascend_ops._C` and `ms_ascend_ops.registry` need no MindSpore, and the
layers are built on the operators, not the other way round.
"""

from importlib import import_module
from typing import Any

from ms_ascend_ops.lazy import lazy_attributes
from ms_ascend_ops.version import __version__

_ORIGINS = {
    "GEGLU": "ms_ascend_ops.cells",
    "GELU": "ms_ascend_ops.cells",
    "AddRMSNorm": "ms_ascend_ops.cells",
    "Conv2d": "ms_ascend_ops.cells",
    "Conv2dGroupNorm": "ms_ascend_ops.cells",
    "Dense": "ms_ascend_ops.cells",
    "GroupNorm": "ms_ascend_ops.cells",
    "KVCache": "ms_ascend_ops.cells",
    "LayerNorm": "ms_ascend_ops.cells",
    "MoEFeedForward": "ms_ascend_ops.cells",
    "RMSNorm": "ms_ascend_ops.cells",
    "RotaryEmbedding": "ms_ascend_ops.cells",
    "SlicedDense": "ms_ascend_ops.cells",
    "SparseDense": "ms_ascend_ops.cells",
    "SwiGLU": "ms_ascend_ops.cells",
    "QuantDense": "ms_ascend_ops.cells",
    "QuantMoEFeedForward": "ms_ascend_ops.cells",
    "WeightQuantDense": "ms_ascend_ops.cells",
    "optimize": "ms_ascend_ops.export",
    "optimize_mindir": "ms_ascend_ops.export",
    "cpu_builtins": "ms_ascend_ops.export",
    "bundle": "ms_ascend_ops.export",
    "export_mindir": "ms_ascend_ops.export",
    "load": "ms_ascend_ops.export",
    "get_num_threads": "ms_ascend_ops.library",
    "set_num_threads": "ms_ascend_ops.library",
}

__all__ = [
    "GEGLU",
    "GELU",
    "AddRMSNorm",
    "Conv2d",
    "Conv2dGroupNorm",
    "Dense",
    "GroupNorm",
    "KVCache",
    "LayerNorm",
    "MoEFeedForward",
    "QuantDense",
    "QuantMoEFeedForward",
    "RMSNorm",
    "RotaryEmbedding",
    "SlicedDense",
    "SparseDense",
    "SwiGLU",
    "WeightQuantDense",
    "__version__",
    "bundle",
    "cells",
    "cpu_builtins",
    "export",
    "export_mindir",
    "get_num_threads",
    "load",
    "ops",
    "optimize",
    "optimize_mindir",
    "set_num_threads",
]


_public = lazy_attributes(__name__, _ORIGINS | {name: f"{__name__}.{name}" for name in ("cells", "export", "ops")})


def __getattr__(name: str) -> Any:
    return import_module(f"{__name__}.library").native() if name == "_C" else _public(name)


def __dir__() -> list[str]:
    return sorted(__all__)
