"""Predicts the time of CANN's own operators on a chip: a launch, and the longer of their bytes and their products.

Bytes go at the bandwidth of HBM, FLOPs at the peak of the cube cores. Both are multiplied by what published times of
CANN's kernels are over that bound in the middle (`Chip.cann_memory_ratio`, `cann_cube_ratio`). The kernels themselves
are not here to be looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

from ms_ascend_ops.profiler.chip import Chip

__all__ = ["Cost", "roofline"]


@dataclass(frozen=True)
class Cost:
    """Holds a predicted time. bound: what it comes from, "HBM", "cube" or "launch"."""

    us: float
    bound: str
    bytes: float
    flops: float


def roofline(chip: Chip, moved_bytes: float, flops: float = 0.0, element_bytes: int = 2) -> Cost:
    """Predict an operator of CANN.

    Args:
        chip: on which.
        moved_bytes: those of each tensor, once.
        flops: of products of matrices, convolutions and attention; two a multiplication.
        element_bytes: of a factor: float32 takes longer than 16 bits, int8 half as long.
    """
    memory = chip.cann_memory_ratio * moved_bytes / (chip.hbm_gb_per_s * chip.hbm_efficiency * 1e3)
    share = chip.cube.float_share if element_bytes >= 4 else 2.0 if element_bytes == 1 else 1.0
    flops_per_us = 2.0 * chip.cube.macs_per_cycle * chip.cube.cores * chip.clock_ghz * 1e3 * share
    cube = chip.cann_cube_ratio * flops / flops_per_us
    longest = max(memory, cube)
    bound = "launch" if longest < chip.launch_us else "cube" if cube > memory else "HBM"
    return Cost(chip.launch_us + longest, bound, moved_bytes, flops)
