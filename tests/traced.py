"""The traced library, of the operators that the tests profile: quicker to build than that of all."""

import os
from unittest.mock import patch

from ms_ascend_ops.profiler import record
from tests.kernels.host.module import host_objects

OPERATORS = (
    "add_rms_norm", "flash_attention", "grouped_matmul", "kv_cache_update", "matmul", "moe_gating_top_k",
    "moe_token_permute", "moe_token_unpermute", "paged_attention", "qkv_rotary_embedding", "rms_norm", "silu_mul",
    "sparse_matmul", "swiglu",
)  # fmt: skip


def build(target="ms_ascend_ops"):
    """Bring it, or another library of the traced build, up to date and return its path."""
    variables = {"MS_ASCEND_OPS_OPERATORS": "|".join(OPERATORS)}
    if unit := [path for path in host_objects() if "vector_unit_native" in str(path)]:  # the same there
        variables["MS_ASCEND_OPS_VECTOR_UNIT_OBJECT"] = str(unit[0])
    with patch.dict(os.environ, variables):
        return record.build(print, "traced", target)
