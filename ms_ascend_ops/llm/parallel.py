"""Divides a network among several processes: which part of every layer each of them holds, and how parts are joined.

Products whose outputs are features of their own are split by rows of the weight: queries, keys and values by heads,
gate and up, and the last product by tokens of the vocabulary. Those that follow, of attention's output and down, are
split by columns: each process has a summand of every output, and the summands are added up. So a layer needs two sums.
"""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ms_ascend_ops.llm.checkpoints.checkpoint import ALL, Checkpoint
from ms_ascend_ops.llm.checkpoints.quantized import GROUP, QuantizedMatrix
from ms_ascend_ops.llm.config import ModelConfig

__all__ = ["Group", "Partition", "check_job", "join", "partition", "shares", "started_by_msrun"]

Array = np.ndarray[Any, Any]

_MOST_SHARED = 1 << 24  # float32 holds every whole number below


def shares(count: int, parts: int, unit: int = 1) -> list[slice]:
    """Cut `count` things into parts as equal as possible, each a multiple of `unit`; larger ones come first."""
    units = count // unit
    ends = [0]
    for part in range(parts):
        ends.append(ends[-1] + (units // parts + (part < units % parts)) * unit)
    return [slice(first, end) for first, end in pairwise(ends)]


@dataclass(frozen=True)
class Partition:
    """Says what the process `rank` of `size` holds: heads, key heads, features between gate and down, tokens."""

    rank: int
    size: int
    head_size: int
    heads: slice
    key_heads: slice
    feed_forward: slice
    vocabulary: slice

    def rows(self, name: str) -> slice:
        """Return rows of a weight, by the name of the layer."""
        part = {
            "q_proj": self._features(self.heads),
            "k_proj": self._features(self.key_heads),
            "v_proj": self._features(self.key_heads),
            "gate_proj": self.feed_forward,
            "up_proj": self.feed_forward,
            "embed_tokens": self.vocabulary,
            "lm_head": self.vocabulary,
        }
        return part.get(name.rpartition(".")[2], ALL)

    def columns(self, name: str) -> slice:
        """Return columns of a weight, by the name of the layer."""
        part = {"o_proj": self._features(self.heads), "down_proj": self.feed_forward}
        return part.get(name.rpartition(".")[2], ALL)

    def _features(self, heads: slice) -> slice:
        return slice(heads.start * self.head_size, heads.stop * self.head_size)

    def own(self, config: ModelConfig) -> ModelConfig:
        """Return the sizes of this part. The vocabulary stays that of the whole."""
        heads, keys, features = (part.stop - part.start for part in (self.heads, self.key_heads, self.feed_forward))
        return replace(config, heads=heads, key_heads=keys, feed_forward=features)


def partition(checkpoint: Checkpoint, rank: int, size: int, quantized: bool = False) -> Partition:
    """Return the part of one process.

    Query heads stay with the key head that they share. Parts need not be equal: of 3 key heads, the first of two
    processes gets 2. Where there are more processes than key heads, several hold the same one, each with some of its
    query heads. With `quantized`, parts of weights that are quantized in groups of columns have whole groups.

    Raises:
        ValueError: heads, features or groups are too few, or do not divide, for so many processes.
    """
    config, source = checkpoint.config, f"{checkpoint.path}: tensor parallel"
    if config.norm_of_all_heads:
        raise ValueError(f"{source}: {config.architecture} has a norm of all heads together, which cannot be divided")
    if config.experts:
        raise ValueError(f"{source}: a mixture of experts ({config.experts} of them) cannot be divided")
    shared = config.heads // config.key_heads
    if size <= config.key_heads:
        unit = _group_unit(checkpoint, "self_attn.o_proj", shared * config.head_size, quantized)
        if config.key_heads % unit or config.key_heads // unit < size:
            raise ValueError(
                f"{source}: {config.key_heads} key heads cannot be divided among {size} processes: o_proj is quantized "
                f"in groups of columns of {unit} key heads, which must stay whole; --weights float makes floats of them"
            )
        key_heads = shares(config.key_heads, size, unit)[rank]
        heads = slice(key_heads.start * shared, key_heads.stop * shared)
    else:
        if size % config.key_heads or shared % (size // config.key_heads):
            raise ValueError(
                f"{source}: {config.heads} heads that share {config.key_heads} keys cannot be divided among {size} "
                f"processes: there must be at most {config.key_heads}, or a multiple of that which divides "
                f"{config.heads}"
            )
        own = config.heads // size
        heads = slice(rank * own, (rank + 1) * own)
        key_heads = slice(heads.start // shared, heads.start // shared + 1)
    unit = _group_unit(checkpoint, "mlp.down_proj", 1, quantized)
    lines = math.lcm(unit, GROUP)  # rows of whole cache lines, where there are enough
    if config.feed_forward % lines == 0 and config.feed_forward // lines >= size:
        unit = lines
    if config.feed_forward % unit or config.feed_forward // unit < size:
        raise ValueError(
            f"{source}: {config.feed_forward} features of the feed-forward layer cannot be divided among {size} "
            f"processes in groups of {unit}"
        )
    if config.vocabulary < size:
        raise ValueError(f"{source}: a vocabulary of {config.vocabulary} cannot be divided among {size} processes")
    return Partition(
        rank, size, config.head_size, heads, key_heads, shares(config.feed_forward, size, unit)[rank],
        shares(config.vocabulary, size)[rank],
    )  # fmt: skip


def _group_unit(checkpoint: Checkpoint, name: str, columns: int, quantized: bool) -> int:
    """Count the pieces of so many columns with whole groups, in the first layer; other layers are checked when read."""
    weight = checkpoint.weight(f"model.layers.0.{name}.weight") if quantized else None
    if not isinstance(weight, QuantizedMatrix) or weight.group == weight.shape[1]:
        return 1
    return weight.group // math.gcd(weight.group, columns)


class Group:
    """Groups processes that hold the parts of a network, with MindSpore's collectives between them.

    Sums are float32, and rounded once.
    """

    def __init__(self) -> None:
        import mindspore as ms  # noqa: PLC0415 - takes seconds
        from mindspore.communication import get_group_size, get_rank, init  # noqa: PLC0415

        init()
        if os.environ.get("MS_ROLE") == "MS_SCHED":
            sys.exit(0)  # init returns when all others have ended
        if ms.get_context("device_target") == "CPU":
            # Otherwise each collective waits for threads that forward launches: 20 ms on a busy machine instead of 0.6.
            ms.runtime.launch_blocking()
        self.rank, self.size = get_rank(), get_group_size()
        self._tensor = ms.Tensor.from_numpy
        self._float32 = ms.float32
        self._reduce, self._gather = ms.ops.AllReduce(), ms.ops.AllGather()

    def summed(self, ops: Any, x: Any) -> Any:
        """Sum what the processes have, by the operators that the network runs on."""
        if hasattr(ops, "in_place"):  # a Recorder
            return ops.in_place(self.add_up, x)
        return self.summed_tensor(x)

    def summed_tensor(self, x: Any) -> Any:
        """Sum a tensor of MindSpore over all processes."""
        return self._reduce(x.astype(self._float32)).astype(x.dtype)

    def add_up(self, array: Array) -> None:
        """Write the sum over all processes into an array."""
        array[...] = self._reduce(self._tensor(np.ascontiguousarray(array, np.float32))).asnumpy()

    def joined(self, part: Array, count: int) -> Array:
        """Concatenate the last axis of all processes: of rows that were cut by `shares(count, size)`."""
        cuts = shares(count, self.size)
        widest = cuts[0].stop
        own = np.zeros((*part.shape[:-1], widest), np.float32)
        own[..., : part.shape[-1]] = part
        parts = self._gather(self._tensor(own)).asnumpy().reshape(self.size, *own.shape)
        return np.concatenate([one[..., : cut.stop - cut.start] for one, cut in zip(parts, cuts, strict=True)], -1)

    def shared(self, number: int) -> int:
        """Return the number that the first process has, which is below 2^24."""
        value = np.array([number % _MOST_SHARED if self.rank == 0 else 0], np.float32)
        self.add_up(value)
        return int(value[0])


def started_by_msrun() -> bool:
    """Tell whether this is a process of a job of msrun."""
    return "MS_ROLE" in os.environ and "MS_WORKER_NUM" in os.environ


def check_job(size: int, what: str) -> int:
    """Check that msrun started so many processes. Returns the number of this one, before it joined the others.

    Raises:
        RuntimeError: this process is none of msrun's.
        ValueError: there are more or fewer.
    """
    if not started_by_msrun():
        raise RuntimeError(
            f"{what}: this process must be one of {size} that msrun started: msrun --worker_num={size} "
            f"--local_worker_num={size} --join=True python ..."
        )
    if (started := int(os.environ["MS_WORKER_NUM"])) != size:
        raise ValueError(f"{what}: msrun must start {size} processes, got {started} (--worker_num)")
    return int(os.environ.get("RANK_ID", "0")) % size


def join(size: int, what: str = "tensor parallel") -> Group:
    """Wait for the other processes of a job of msrun.

    Raises:
        RuntimeError, ValueError: see `check_job`.
    """
    check_job(size, what)
    return Group()
