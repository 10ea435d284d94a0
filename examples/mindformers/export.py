"""Exports what a small network of MindFormers does with a prompt, and with one token more, as MindIR, and fuses both.

    python -m ms_ascend_ops run export.py NAME FOLDER

FOLDER is what networks.py wrote; the files go there, with inputs and logits for check.py.
"""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from generate import network
from mindspore import Parameter, ParameterTuple, Tensor, nn
from networks import PROMPTS

from ms_ascend_ops import export_mindir, optimize_mindir

CACHES = ("key_cache", "value_cache")


class LegacyStep(nn.Cell):
    """Gives a Llama the inputs that a step has; its cache is its own."""

    def __init__(self, net: nn.Cell):
        super().__init__()
        self.net = net

    def construct(
        self, input_ids: Tensor, batch_valid_length: Tensor, block_tables: Tensor, slot_mapping: Tensor
    ) -> Any:
        return self.net(
            input_ids,
            batch_valid_length=batch_valid_length,
            block_tables=block_tables,
            slot_mapping=slot_mapping,
        )


class Step(nn.Cell):
    """Gives a network the inputs that a step has. The cache, which MindFormers hands in, is of the file."""

    def __init__(self, net: nn.Cell, caches: dict[str, list[Any]]):
        super().__init__()
        self.net = net
        self.keys, self.values = (
            ParameterTuple([Parameter(Tensor(c), name=f"{name}.{i}") for i, c in enumerate(caches[name])])
            for name in CACHES
        )

    def construct(
        self,
        input_ids: Tensor,
        positions: Tensor,
        batch_valid_length: Tensor,
        context_lens_tensor: Tensor,
        q_seq_lens: Tensor,
        block_tables: Tensor,
        slot_mapping: Tensor,
        attention_mask: Tensor,
    ) -> Any:
        return self.net(
            input_ids=input_ids,
            positions=positions,
            batch_valid_length=batch_valid_length,
            context_lens_tensor=context_lens_tensor,
            q_seq_lens=q_seq_lens,
            block_tables=block_tables,
            slot_mapping=slot_mapping,
            attention_mask=attention_mask,
            key_cache=self.keys,
            value_cache=self.values,
        )


def calls(net: Any) -> list[dict[str, Any]]:
    """Returns what `generate` calls a network with: for the prompt, and for the first new token, as arrays."""
    seen: list[dict[str, Any]] = []
    stock: Any = type(net)

    def arrays(value: Any) -> Any:
        return value.asnumpy().copy() if isinstance(value, Tensor) else [arrays(v) for v in value]

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append({name: arrays(value) for name, value in kwargs.items() if value is not None})
        return stock.__call__(self, *args, **kwargs)

    net.__class__ = type(stock.__name__, (stock,), {"__call__": call})
    net.generate([PROMPTS[0]], max_new_tokens=2, do_sample=False)
    net.__class__ = stock
    return seen


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    os.environ["RUN_MODE"] = "predict"
    ms.set_context(mode=ms.GRAPH_MODE)
    net = network(name, folder, ms.GRAPH_MODE)
    net.set_train(False)
    for kind, values in zip(("prefill", "decode"), calls(net), strict=True):
        caches = {key: values.pop(key, []) for key in CACHES}
        net.phase = kind
        if caches["key_cache"]:
            net.add_flags_custom_mcore(is_prefill=kind == "prefill")
            step = Step(net, caches)
        else:
            net.add_flags_custom(is_first_iteration=kind == "prefill")
            step = LegacyStep(net)
        step.set_train(False)
        step.phase = kind
        names = list(inspect.signature(step.construct).parameters)
        tensors = [Tensor(values[name]) for name in names]
        path = export_mindir(step, *tensors, path=folder / kind)
        logits = step(*tensors)
        logits = logits[0] if isinstance(logits, tuple) else logits
        arrays = {f"input_{i}": tensor.asnumpy() for i, tensor in enumerate(tensors)}
        np.savez(folder / f"{kind}.npz", logits=logits.asnumpy(), **arrays)
        print(optimize_mindir(path, folder / f"{kind}_fused.mindir", level="O3"))


if __name__ == "__main__":
    main()
