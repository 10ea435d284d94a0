"""Builds UNet2DModel of mindone.diffusers, one of its residual blocks, and what of that is GroupNorm + SiLU."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from ms_ascend_ops.benchmarks.networks.target import Phase, Target

LABEL = "UNet2DModel (mindone.diffusers)"
NEEDS = ("mindone", "transformers")
SIZES = {
    "tiny": {"channels": (16, 32), "groups": 4, "sample": 8, "block": (16, 8)},
    "small": {"channels": (32, 64), "groups": 8, "sample": 32, "block": (320, 64)},
}


class _Sample(nn.Cell):  # type: ignore[misc]
    def __init__(self, net: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.net = net

    def construct(self, sample, timestep):  # type: ignore[no-untyped-def]
        return self.net(sample, timestep, return_dict=False)[0]


class _NormPart(nn.Cell):  # type: ignore[misc]
    """Computes GroupNorm and SiLU of a residual block, both times that it has them."""

    def __init__(self, block: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.first, self.second = block.norm1, block.norm2

    def construct(self, x):  # type: ignore[no-untyped-def]
        return ops.silu(self.second(ops.silu(self.first(x))))


def build(size: dict[str, Any], dtype: str) -> Target:
    """Build the network.

    `size` holds channels, groups and sample size of the UNet; channels and sample size of the block.
    """
    if dtype != "float32":
        raise ValueError("it is measured in float32")
    from ms_ascend_ops.benchmarks.networks.clients import _mint_on_cpu  # before mindone, which takes names from mint

    _mint_on_cpu.install()
    from mindone.diffusers import UNet2DModel
    from mindone.diffusers.models.resnet import ResnetBlock2D

    ms.set_seed(0)
    net = _Sample(
        UNet2DModel(
            sample_size=size["sample"],
            in_channels=3,
            out_channels=3,
            layers_per_block=1,
            block_out_channels=size["channels"],
            down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D"),
            norm_num_groups=size["groups"],
            attention_head_dim=8,
        )
    )
    channels, side = size["block"]
    groups = 32 if channels >= 64 else 4
    block = ResnetBlock2D(in_channels=channels, out_channels=channels, temb_channels=128, groups=groups)
    random = np.random.default_rng(0)

    def draw(*shape: int) -> Tensor:
        return Tensor(random.standard_normal(shape, np.float32))

    sample, timestep = draw(2, 3, size["sample"], size["sample"]), Tensor(np.array([3, 7]), ms.int64)
    x, embedding, noise = draw(2, channels, side, side), draw(2, 128), draw(2, 3, size["sample"], size["sample"])

    def loss(sample, timestep, noise):  # type: ignore[no-untyped-def]
        return ((net(sample, timestep) - noise) ** 2).mean()

    phases = (
        Phase(f"forward 2x3x{size['sample']}x{size['sample']}", net, (sample, timestep), 2, "images"),
        Phase(f"ResnetBlock2D 2x{channels}x{side}x{side}", block, (x, embedding), 2, "images"),
        Phase(f"its GroupNorm + SiLU 2x{channels}x{side}x{side}", _NormPart(block), (x,), 2, "images"),
    )
    return Target(net, phases, ((sample, timestep),), loss, (sample, timestep, noise), 2, "images")
