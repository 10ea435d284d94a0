"""Train the small LLaMA on several devices: each has a share of the batch, or a share of the heads and of the weights.

    python examples/parallel.py --losses one.json                    one device
    msrun --worker_num=2 --local_worker_num=2 --join=True examples/parallel.py --losses two.json
    msrun --worker_num=2 --local_worker_num=2 --join=True examples/parallel.py --parallel tensor --losses two.json

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
from mindspore import Parameter, Tensor, nn, ops
from mindspore.communication import get_group_size, get_rank, init

import ms_ascend_ops

BATCH, LENGTH = 4, 32
CONFIG = LlamaConfig(hidden_size=64, intermediate_size=176, num_hidden_layers=2)


class Loss(nn.Cell):
    """Computes the cross entropy of each next token."""

    def __init__(self, network: nn.Cell) -> None:
        super().__init__()
        self.network = network

    def construct(self, tokens: Tensor) -> Tensor:
        logits, _ = self.network(tokens[:, :-1])
        return ops.cross_entropy(logits.reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))


class Average(nn.Cell):
    """Averages a tensor over all ranks."""

    def __init__(self, ranks: int) -> None:
        super().__init__()
        self.ranks = ranks
        self.add_up = ops.AllReduce() if ranks > 1 else ops.Identity()

    def construct(self, x: Tensor) -> Tensor:
        return self.add_up(x) / self.ranks


class SumOfGradients(nn.Cell):
    """Returns x, which every rank has; each uses it for something else, so its gradient is the sum of theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.add_up = ops.AllReduce()

    def construct(self, x: Tensor) -> Tensor:
        return x

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor]:
        return (self.add_up(dout),)


class SumOfValues(nn.Cell):
    """Sums what the ranks have; every rank gets the sum, and with it the same gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.add_up = ops.AllReduce()

    def construct(self, x: Tensor) -> Tensor:
        return self.add_up(x)

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor]:
        return (dout,)


def split(network: LlamaForCausalLM, rank: int, ranks: int) -> None:
    """Leave this rank its share of the heads and of the feed-forward layers: Megatron's tensor parallelism."""

    def keep(dense: nn.Dense, axis: int) -> nn.Dense:
        weight = np.split(dense.weight.asnumpy(), ranks, axis)[rank]
        dense.weight = Parameter(Tensor(weight), name=dense.weight.name)
        return dense

    for layer in network.model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        for cell, names in ((attention, ("q_proj", "k_proj", "v_proj")), (mlp, ("gate_proj", "up_proj"))):
            for name in names:
                setattr(cell, name, nn.SequentialCell(SumOfGradients(), keep(getattr(cell, name), 0)))
        for cell, name in ((attention, "o_proj"), (mlp, "down_proj")):
            setattr(cell, name, nn.SequentialCell(keep(getattr(cell, name), 1), SumOfValues()))
        attention.num_heads //= ranks
        attention.num_key_value_heads //= ranks
    for name, parameter in network.parameters_and_names():
        parameter.name = name  # cells that were put into others later have no names of their own


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="Ascend", help="Ascend or CPU")
    parser.add_argument("--parallel", choices=("data", "tensor"), default="data", help="what the ranks share")
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
        shared = {"data": (BATCH, "texts"), "tensor": (CONFIG.num_key_value_heads, "heads of keys and values")}
        count, of = shared[arguments.parallel]
        if count % ranks:
            parser.error(f"there are {count} {of}, which {ranks} workers cannot share evenly")
    losses = train(arguments.steps, rank, ranks, arguments.parallel, arguments.fused)
    if rank == 0:
        arguments.losses.write_text(json.dumps(losses), encoding="utf-8")


def train(steps: int, rank: int, ranks: int, parallel: str, fused: bool) -> list[float]:
    """Train, and return the losses of the whole batch, which are the same on every rank."""
    ms.set_seed(0)
    network = LlamaForCausalLM(CONFIG)
    if parallel == "tensor" and ranks > 1:
        split(network, rank, ranks)
    if fused:
        ms_ascend_ops.optimize(network)
    shares = ranks if parallel == "data" else 1  # of a batch
    optimizer = nn.AdamWeightDecay(network.trainable_params(), learning_rate=3e-3)
    average = Average(shares)
    gradients_of = ms.value_and_grad(Loss(network), None, optimizer.parameters)

    @ms.jit
    def step(tokens: Tensor) -> Tensor:
        loss, gradients = gradients_of(tokens)
        averages = ()
        for gradient in gradients:
            averages += (average(gradient),)
        return ops.depend(average(loss), optimizer(averages))

    tokens = np.random.default_rng(0).integers(0, 256, (steps, BATCH, LENGTH)).astype(np.int32)
    own = slice(rank * BATCH // shares, (rank + 1) * BATCH // shares) if shares > 1 else slice(None)
    return [float(step(Tensor(batch[own])).asnumpy()) for batch in tokens]


if __name__ == "__main__":
    main()
