"""Builds the Vision Transformer of mindcv."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops
from ms_ascend_ops.benchmarks.networks.target import Phase, Target

LABEL = "ViT (mindcv)"
NEEDS = ("mindcv",)
SIZES = {
    "tiny": {"image_size": 32, "embed_dim": 32, "depth": 2, "num_heads": 2},
    "small": {"image_size": 224, "embed_dim": 192, "depth": 6, "num_heads": 3},
    "medium": {"image_size": 224, "embed_dim": 384, "depth": 6, "num_heads": 6},
}
BATCH = 2


def build(size: dict[str, int], dtype: str) -> Target:
    """Build the network. `size` holds the arguments of VisionTransformer."""
    if dtype != "float32":
        raise ValueError("it is measured in float32")
    from mindcv.models.vit import VisionTransformer

    ms.set_seed(0)
    net = VisionTransformer(patch_size=16, num_classes=100, **size)
    random = np.random.default_rng(0)
    images = Tensor(random.standard_normal((BATCH, 3, size["image_size"], size["image_size"]), np.float32))
    labels = Tensor(random.integers(0, 100, BATCH).astype(np.int32))

    def loss(images, labels):  # type: ignore[no-untyped-def]
        return ops.cross_entropy(net(images), labels)

    phases = (Phase(f"forward {BATCH}x{size['image_size']}x{size['image_size']}", net, (images,), BATCH, "images"),)
    return Target(net, phases, ((images,),), loss, (images, labels), BATCH, "images")
