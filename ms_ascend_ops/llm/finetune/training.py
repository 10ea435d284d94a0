"""Runs steps of training, on one process or, with the batch divided, on several of msrun."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor

from ms_ascend_ops.llm.finetune.data import Example, batches, padded
from ms_ascend_ops.llm.finetune.kept import Kept
from ms_ascend_ops.llm.finetune.network import TrainedNetwork
from ms_ascend_ops.llm.parallel import Group, shares

__all__ = ["AdamW", "Step", "Training", "train"]


_PARTS = ("parameter", "mean", "square")  # of each parameter, what is kept of an interrupted run


@dataclass(frozen=True)
class Training:
    """Says how to train.

    batch: examples of a step, of all processes together. micro_batch: of them at once, in one process; gradients are
    added up. rate: of learning, reached after `warmup` steps, from where it falls to 0 as a cosine. decay: of weights
    that are matrices. clip: the norm of the gradient at most; 0: any.
    """

    steps: int
    batch: int = 8
    micro_batch: int = 4
    rate: float = 2e-4
    warmup: int = 0
    decay: float = 0.0
    clip: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("batch", 1), ("micro_batch", 1), ("warmup", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"training: {name} must be at least {least}, got {getattr(self, name)}")
        for name in ("rate", "decay", "clip"):
            if not (getattr(self, name) >= 0 and math.isfinite(getattr(self, name))):
                raise ValueError(f"training: {name} must be >= 0, got {getattr(self, name)}")

    def rate_of(self, step: int) -> float:
        """Return the learning rate of a step; the first step is 0."""
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.rate * 0.5 * (1 + math.cos(math.pi * done))


@dataclass(frozen=True)
class Step:
    """Holds a step's results: the mean loss of a token, in nats, before it; how many tokens; the gradient's norm."""

    loss: float
    tokens: int
    norm: float
    rate: float
    seconds: float


class AdamW:
    """Implements Adam with corrected moments, and decay of weights beside it.

    MindSpore 2.10's own (mindspore.experimental.optim.AdamW) takes the gradients of a step as constants of a graph,
    which it compiles for each.

    Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019.
    """

    def __init__(
        self, parameters: Sequence[Parameter], decay: float = 0.0, beta1: float = 0.9, beta2: float = 0.999,
        epsilon: float = 1e-8,
    ):  # fmt: skip
        self.parameters = parameters
        self.decay, self.beta1, self.beta2, self.epsilon = decay, beta1, beta2, epsilon
        self._moments = [(_zeros(one), _zeros(one)) for one in parameters]
        self._steps = 0

    def step(self, gradients: Sequence[Tensor], rate: float, factor: float = 1.0) -> None:
        """Change the parameters; gradients are multiplied by a factor first."""
        self._steps += 1
        first = 1 - self.beta1**self._steps
        second = math.sqrt(1 - self.beta2**self._steps)
        for index, (parameter, gradient) in enumerate(zip(self.parameters, gradients, strict=True)):
            given = gradient * factor if factor != 1 else gradient
            mean, square = self._moments[index]
            mean = mean * self.beta1 + given * (1 - self.beta1)
            square = square * self.beta2 + given * given * (1 - self.beta2)
            self._moments[index] = mean, square
            change = mean / (square.sqrt() / second + self.epsilon) * (rate / first)
            if self.decay and parameter.ndim > 1:
                change = change + parameter * (rate * self.decay)
            parameter.set_data(parameter - change)

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return what a later optimizer goes on from."""
        found = {"steps": np.array(self._steps)}
        for index, (parameter, moments) in enumerate(zip(self.parameters, self._moments, strict=True)):
            for name, value in zip(_PARTS, (parameter, *moments), strict=True):
                found[f"{name}{index}"] = value.asnumpy()
        return found

    def restore(self, found: Mapping[str, np.ndarray[Any, Any]]) -> int:
        """Go on from there; returns how many steps were done."""
        self._steps = int(found["steps"])
        for index, parameter in enumerate(self.parameters):
            value, mean, square = (Tensor.from_numpy(found[f"{name}{index}"]) for name in _PARTS)
            parameter.set_data(value)
            self._moments[index] = mean, square
        return self._steps


def train(
    network: TrainedNetwork, examples: Sequence[Example], settings: Training, group: Group | None = None,
    on_step: Callable[[int, Step], None] | None = None, kept: Kept | None = None,
) -> list[Step]:  # fmt: skip
    """Train a network. Each process takes its share of every batch; what learns stays equal in all of them.

    With `kept`, of one process, it goes on from what an interrupted run has kept, to the same bits.

    The loss of a step is the mean over all tokens with a label in the whole batch, however it is divided: on several
    processes it is that of one, but for the order of float32 sums.

    Raises:
        ValueError: the batch is smaller than the number of processes.
        RuntimeError: the loss is not finite.
        KeyboardInterrupt: `kept.interrupted` was set, and what was learned until then is kept.
    """
    if ms.get_context("device_target") == "CPU":
        # Threads that pass launches on would wait busily for each other, and for kernels.
        ms.runtime.launch_blocking()
    rank, size = (0, 1) if group is None else (group.rank, group.size)
    if settings.batch < size:
        raise ValueError(f"training: batch must be at least {size}, the number of processes, got {settings.batch}")
    parameters = network.learning()
    optimizer = AdamW(parameters, settings.decay)
    gradient = ms.value_and_grad(lambda x, labels, weight: network(x, labels) * weight, None, parameters)
    steps = []
    done = optimizer.restore(found) if kept is not None and (found := kept.read()) is not None else 0
    for number, batch in zip(range(settings.steps), batches(examples, settings.batch, settings.seed), strict=False):
        if number < done:
            continue
        start = time.perf_counter()
        tokens = sum(example.predicted for example in batch)
        own = batch[shares(len(batch), size)[rank]]
        loss, sums = 0.0, [_zeros(one) for one in parameters]
        for first in range(0, len(own), settings.micro_batch):
            inputs = network.inputs(*padded(own[first : first + settings.micro_batch]))
            value, gradients = gradient(*inputs, 1.0 / tokens)
            loss += float(value)
            sums = [total + one for total, one in zip(sums, gradients, strict=True)]
        if group is not None:
            sums, loss = _summed(group, sums, loss)
        norm = math.sqrt(sum(float((one * one).sum()) for one in sums))
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise RuntimeError(
                f"training: loss and gradient must be finite, got {loss} and {norm} in step {number + 1}"
            )
        factor = min(1.0, settings.clip / norm) if settings.clip and norm else 1.0
        rate = settings.rate_of(number)
        optimizer.step(sums, rate, factor)
        steps.append(Step(loss, tokens, norm, rate, time.perf_counter() - start))
        if on_step is not None:
            on_step(number, steps[-1])
        if kept is not None and kept.interrupted and number + 1 < settings.steps:
            kept.write(optimizer.arrays())
            raise KeyboardInterrupt(f"{number + 1} of {settings.steps} steps are kept in {kept.path}")
    return steps


def _zeros(parameter: Parameter) -> Tensor:
    return Tensor.from_numpy(np.zeros(parameter.shape, np.float32))


def _summed(group: Group, gradients: Sequence[Tensor], loss: float) -> tuple[list[Tensor], float]:
    """Sum over all processes, by few large collectives."""
    flat = ms.ops.concat([*(one.reshape(-1) for one in gradients), Tensor([loss], ms.float32)])
    flat = group.summed_tensor(flat)
    result, first = [], 0
    for one in gradients:
        result.append(flat[first : first + one.size].reshape(one.shape))
        first += one.size
    return result, float(flat[first])
