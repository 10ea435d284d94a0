"""Trains a small Llama of MindFormers for 20 steps with MindFormers' own Trainer, and prints the losses.

    python -m ms_ascend_ops run trainer.py npu FOLDER     # flash attention and the fused norm
    python -m ms_ascend_ops run trainer.py stock FOLDER   # the network that stock MindSpore runs on a CPU

FOLDER is what networks.py wrote for llama; the Trainer leaves its logs there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from llama import llama, load
from mindspore.dataset import GeneratorDataset
from mindspore.train import Callback

STEPS, BATCH, LENGTH = 20, 2, 32


class Losses(Callback):  # type: ignore[misc]
    """The loss of each step."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def step_end(self, run_context: Any) -> None:
        outputs = run_context.original_args().net_outputs
        loss = outputs[0] if isinstance(outputs, (tuple, list)) else outputs
        self.values.append(float(loss.asnumpy()))


class Text:
    """Four batches of random tokens, again and again."""

    def __init__(self) -> None:
        self.tokens = np.random.default_rng(0).integers(1, 128, (4 * BATCH, LENGTH + 1)).astype(np.int32)

    def __len__(self) -> int:
        return STEPS * BATCH

    def __getitem__(self, index: int) -> tuple[Any]:
        return (self.tokens[index % len(self.tokens)],)

    def __iter__(self) -> Iterator[tuple[Any]]:
        return (self[i] for i in range(len(self)))


def losses(npu: bool, folder: Path) -> list[float]:
    """Of 20 steps."""
    from mindformers import Trainer, TrainingArguments

    net = llama(npu=npu, use_past=False, seq_length=LENGTH)
    load(net, folder)
    watched = Losses()
    settings = TrainingArguments(
        output_dir=str(folder / "trained"),
        num_train_epochs=1,
        per_device_train_batch_size=BATCH,
        use_parallel=False,
        sink_mode=False,
        learning_rate=1e-3,
        lr_scheduler_type="constant_with_warmup",
        optim="AdamW",
        weight_decay=0.0,
        max_grad_norm=1.0,
        save_strategy="no",
        seed=0,
    )
    data = GeneratorDataset(Text(), ["input_ids"], shuffle=False).batch(BATCH, drop_remainder=True)
    with redirect_stdout(sys.stderr):  # it prints its whole configuration
        Trainer(args=settings, model=net, train_dataset=data, callbacks=[watched]).train()
    return watched.values


if __name__ == "__main__":
    ms.set_context(mode=ms.GRAPH_MODE)
    print("losses:", json.dumps(losses(sys.argv[1] == "npu", Path(sys.argv[2]))))
