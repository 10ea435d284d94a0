"""Writes what was trained, as an adapter or as a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ms_ascend_ops.llm.checkpoints.checkpoint import Checkpoint, Weight
from ms_ascend_ops.llm.checkpoints.writer import write_directory
from ms_ascend_ops.llm.finetune.adapter import Lora, write_adapter
from ms_ascend_ops.llm.finetune.network import TrainedNetwork

__all__ = ["write"]


def write(network: TrainedNetwork, checkpoint: Checkpoint, target: Path, lora: Lora | None) -> int:
    """Write the factors, or without lora all weights in float32. Returns the bytes.

    Raises:
        FileExistsError: the target is there.
    """
    if lora is not None:
        return write_adapter(target, lora, network.factors(), checkpoint)
    weights = network.weights()

    def read(name: str) -> Weight:
        return weights[name] if name in weights else checkpoint.read(name)

    return write_directory(replace(checkpoint, read=read, read_part=None), target, np.dtype(np.float32))
