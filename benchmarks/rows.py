"""Lists a few rows of every kind of operator: those whose geometric mean beside the best peer is looked at."""

from __future__ import annotations

from collections.abc import Iterable

from ms_ascend_ops.samples.cases import Case

__all__ = ["rows_of_every_kind"]

_CONVOLUTIONS = (
    (2, 64, 64, 56, 3, 1, 1),
    (2, 128, 256, 28, 3, 2, 1),
    (2, 256, 256, 28, 1, 1, 1),
    (2, 96, 96, 56, 7, 1, 96),
    (2, 256, 256, 28, 3, 1, 32),
    (2, 3, 64, 224, 7, 2, 1),
)
# Operator (with _grad: forward and gradient), variant, shapes.
_ROWS = (
    ("rms_norm", "", ((2048, 4096),)),
    ("silu_mul", "", ((2048, 4096),)),
    ("gelu", "", ((2048, 4096),)),
    ("softmax", "", ((2048, 4096),)),
    ("flash_attention", "", ((1, 32, 8, 1, 2048, 128),)),
    ("flash_attention", "causal", ((1, 32, 8, 512, 512, 128), (1, 32, 32, 512, 512, 128), (2, 8, 8, 1024, 1024, 64))),
    ("group_norm", "silu", ((2, 320, 64, 64),)),
    ("matmul", "silu", ((1, 4096, 4096), (8, 4096, 4096))),
    ("matmul", "", ((128, 4096, 1024), (512, 2048, 2048))),
    ("conv2d", "", _CONVOLUTIONS),
    ("conv2d_grad", "", _CONVOLUTIONS),
    ("sparse_matmul", "", ((2048, 2048, 1, 5), (4096, 4096, 16, 1), (2048, 2048, 2048, 5), (2048, 2048, 256, 20))),
)


def rows_of_every_kind(dtypes: Iterable[str], chosen: Iterable[str]) -> list[Case]:
    """Return cases of these operators and dtypes; sparse products in float32 alone, as their peers have no other."""
    wanted = set(chosen)
    return [
        Case(name.removesuffix("_grad"), name.endswith("_grad"), shape, dtype, variant)
        for name, variant, shapes in _ROWS
        for dtype in dtypes
        for shape in shapes
        if name in wanted and (name != "sparse_matmul" or dtype == "float32")
    ]
