"""A network of fused operators, and its file."""

from __future__ import annotations

from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn

from ms_ascend_ops import ops


class Network(nn.Cell):  # type: ignore[misc]
    """Two outputs and one, attributes of every kind, one operator twice."""

    def __init__(self) -> None:
        super().__init__()
        self.gamma = ms.Parameter(Tensor(np.linspace(0.5, 2, 8, dtype=np.float32)), name="gamma")

    def construct(self, x):  # type: ignore[no-untyped-def]
        y, _ = ops.rms_norm(x, self.gamma, 1e-3, "one_plus_gamma")
        z, _ = ops.rms_norm(y, self.gamma)
        return ops.swiglu(z, -1, True)


def exported(path: Path) -> Path:
    """The file of the network, as MindSpore itself writes it for this machine."""
    x = Tensor(shape=[None, 8], dtype=ms.float32)
    ms.export(Network(), x, file_name=str(path), file_format="MINDIR")
    return path.with_suffix(".mindir")
