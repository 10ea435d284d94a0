"""Exports what a small Llama of MindFormers does with a prompt, and with one token more, as MindIR, and fuses both.

    python -m ms_ascend_ops run export.py FOLDER

FOLDER is what networks.py wrote for llama; the files go there, with inputs and logits for check.py.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from llama import llama, load
from mindspore import Tensor, nn

from ms_ascend_ops import export_mindir, optimize_mindir

PROMPT = [3, 17, 5, 99, 23, 7, 36, 35]


class Step(nn.Cell):
    """The network with the inputs that a step has."""

    def __init__(self, net: nn.Cell):
        super().__init__()
        self.net = net

    def construct(self, ids: Tensor, lengths: Tensor, tables: Tensor, slots: Tensor) -> Any:
        return self.net(ids, batch_valid_length=lengths, block_tables=tables, slot_mapping=slots)


def main() -> None:
    folder = Path(sys.argv[1])
    os.environ["RUN_MODE"] = "predict"
    ms.set_context(mode=ms.GRAPH_MODE)
    net = llama(npu=True, use_past=True)
    load(net, folder)
    net.set_train(False)
    step = Step(net)
    step.set_train(False)
    tables = np.arange(4, dtype=np.int32).reshape(1, 4)
    inputs = {
        "prefill": [[PROMPT], [len(PROMPT)], tables, range(len(PROMPT))],
        "decode": [[[82]], [len(PROMPT) + 1], tables, [len(PROMPT)]],
    }
    for name, values in inputs.items():
        net.phase = name
        net.add_flags_custom(is_first_iteration=name == "prefill")
        step.compile_cache.clear()
        step.phase = name
        tensors = [Tensor(np.asarray(value, np.int32)) for value in values]
        # The cache is a parameter of the file: of decode, with the prompt in it.
        path = export_mindir(step, *tensors, path=folder / name)
        logits = step(*tensors)
        logits = logits[0] if isinstance(logits, tuple) else logits
        arrays = {f"input_{i}": tensor.asnumpy() for i, tensor in enumerate(tensors)}
        np.savez(folder / f"{name}.npz", logits=logits.asnumpy(), **arrays)
        print(optimize_mindir(path, folder / f"{name}_fused.mindir", level="O3"))


if __name__ == "__main__":
    main()
