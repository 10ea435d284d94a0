"""Train the small LLaMA with a share of each batch on every device: the gradients of all are averaged by AllReduce.

    python examples/data_parallel.py --losses one.json                    one device
    msrun --worker_num=2 --local_worker_num=2 --join=True examples/data_parallel.py --losses two.json

On Ascend devices, or on emulated ones (`python -m ms_ascend_ops emulate --devices 2 -m mindspore.parallel.cluster.run
--worker_num=2 ...`), these are HCCL's operations; `--device CPU` takes MindSpore's own. The losses are the same.
"""

import argparse
import json
import os
from pathlib import Path

import mindspore as ms
import numpy as np
from llama import LlamaConfig, LlamaForCausalLM
from mindspore import Tensor, nn, ops
from mindspore.communication import get_group_size, get_rank, init

import ms_ascend_ops

BATCH, LENGTH = 4, 32


class Loss(nn.Cell):
    """Cross entropy of each next token."""

    def __init__(self, network: nn.Cell) -> None:
        super().__init__()
        self.network = network

    def construct(self, tokens: Tensor) -> Tensor:
        logits, _ = self.network(tokens[:, :-1])
        return ops.cross_entropy(logits.reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))


class Average(nn.Cell):
    """The mean of a tensor over all ranks."""

    def __init__(self, ranks: int) -> None:
        super().__init__()
        self.ranks = ranks
        self.add_up = ops.AllReduce() if ranks > 1 else ops.Identity()

    def construct(self, x: Tensor) -> Tensor:
        return self.add_up(x) / self.ranks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="Ascend", help="Ascend or CPU")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--fused", action="store_true", help="with the operators of ms_ascend_ops")
    parser.add_argument("--losses", type=Path, required=True, help="the file for the losses, a list in JSON")
    arguments = parser.parse_args()
    ms.set_device(arguments.device)
    ms.set_context(mode=ms.GRAPH_MODE, jit_config={"jit_level": "O0"})
    rank, ranks = 0, 1
    if "MS_WORKER_NUM" in os.environ:  # msrun has started it
        init()
        rank, ranks = get_rank(), get_group_size()
        if BATCH % ranks:
            parser.error(f"a batch has {BATCH} texts, which {ranks} workers cannot share evenly")
    losses = train(arguments.steps, rank, ranks, arguments.fused)
    if rank == 0:
        arguments.losses.write_text(json.dumps(losses), encoding="utf-8")


def train(steps: int, rank: int, ranks: int, fused: bool) -> list[float]:
    """Train, and return the losses of the whole batch, which are the same on every rank."""
    ms.set_seed(0)
    network = LlamaForCausalLM(LlamaConfig(hidden_size=64, intermediate_size=176, num_hidden_layers=2))
    if fused:
        ms_ascend_ops.optimize(network)
    optimizer = nn.AdamWeightDecay(network.trainable_params(), learning_rate=3e-3)
    average = Average(ranks)
    gradients_of = ms.value_and_grad(Loss(network), None, optimizer.parameters)

    @ms.jit
    def step(tokens: Tensor) -> Tensor:
        loss, gradients = gradients_of(tokens)
        averages = ()
        for gradient in gradients:
            averages += (average(gradient),)
        return ops.depend(average(loss), optimizer(averages))

    tokens = np.random.default_rng(0).integers(0, 256, (steps, BATCH, LENGTH)).astype(np.int32)
    share = BATCH // ranks
    return [float(step(Tensor(batch[rank * share : (rank + 1) * share])).asnumpy()) for batch in tokens]


if __name__ == "__main__":
    main()
