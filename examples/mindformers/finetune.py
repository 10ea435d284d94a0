"""Trains a small Llama of MindFormers for 20 steps, with MindFormers' wrapper of a step, and prints the losses.

    python -m ms_ascend_ops run finetune.py npu FOLDER     # flash attention and the fused norm
    python -m ms_ascend_ops run finetune.py stock FOLDER   # the network that stock MindSpore runs on a CPU

The wrapper asks for the overflow flags of an NPU with both. FOLDER is what networks.py wrote for llama.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from llama import llama, load
from mindspore import Tensor, nn

STEPS, BATCH, LENGTH = 20, 2, 32


def losses(npu: bool, folder: Path) -> list[float]:
    """The loss of each step."""
    from mindformers.core.optim import AdamW
    from mindformers.wrapper import MFTrainOneStepCell

    net = llama(npu=npu, use_past=False, seq_length=LENGTH)
    load(net, folder)
    net.set_train(True)
    optimizer = AdamW(net.trainable_params(), learning_rate=1e-3)
    scale = nn.FixedLossScaleUpdateCell(loss_scale_value=1.0)
    step = MFTrainOneStepCell(net, optimizer, use_clip_grad=True, scale_sense=scale)
    random = np.random.default_rng(0)
    batches = random.integers(1, 128, (4, BATCH, LENGTH + 1)).astype(np.int32)
    return [float(step(Tensor(batches[i % 4]))[0].asnumpy()) for i in range(STEPS)]


if __name__ == "__main__":
    ms.set_context(mode=ms.GRAPH_MODE)
    print("losses:", json.dumps(losses(sys.argv[1] == "npu", Path(sys.argv[2]))))
