"""Names of a CANN project."""

from __future__ import annotations

import re

__all__ = ["CANN_TYPES", "TILING_KEY", "VENDOR", "snake"]

VENDOR = "ms_ascend_ops"
TILING_KEY = 1  # kernels/interface/package.h
CANN_TYPES = {
    "float16": "DT_FLOAT16",
    "bfloat16": "DT_BF16",
    "float32": "DT_FLOAT",
    "int32": "DT_INT32",
    "int64": "DT_INT64",
    "int8": "DT_INT8",
}


def snake(operator: str) -> str:
    """File and kernel name that CANN derives from an operator type: MsAscendOpsRmsNorm -> ms_ascend_ops_rms_norm."""
    spaced = re.sub(r"(?<=[^A-Z])([A-Z])|(?<=[A-Z])([A-Z])(?=[a-z])", r"_\1\2", operator)
    return spaced.lower()
