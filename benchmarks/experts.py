"""Measures the layer MoEFeedForward beside loops over experts, in stock MindSpore and in PyTorch, where it is
installed.

    python -m ms_ascend_ops.benchmarks.experts --threads 2

Every expert gets the rows of its tokens, as Mixtral's and Qwen3-MoE's blocks do it: which ones is asked of the device.
A round calls each of them once; what is printed are medians. Weights are the same.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import click
import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from ms_ascend_ops import MoEFeedForward, set_num_threads

# Tokens, hidden size, expert's intermediate size, experts, experts per token.
SHAPES = ((1, 512, 1024, 8, 2), (16, 512, 1024, 8, 2), (256, 512, 1024, 8, 2), (256, 512, 256, 64, 8))


class Expert(nn.Cell):  # type: ignore[misc]
    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.w1, self.w3 = (nn.Dense(hidden, inner, has_bias=False) for _ in range(2))
        self.w2 = nn.Dense(inner, hidden, has_bias=False)

    def construct(self, x: Tensor) -> Tensor:
        return self.w2(ops.silu(self.w1(x)) * self.w3(x))


class Loop(nn.Cell):  # type: ignore[misc]
    """Runs in PyNative mode: how many rows an expert has is known while the loop runs."""

    def __init__(self, hidden: int, inner: int, experts: int, k: int) -> None:
        super().__init__()
        self.top_k = k
        self.gate = nn.Dense(hidden, experts, has_bias=False)
        self.experts = nn.CellList([Expert(hidden, inner) for _ in range(experts)])

    def construct(self, x: Tensor) -> Tensor:
        tokens = x.reshape(-1, x.shape[-1])
        weights, chosen = ops.topk(ops.softmax(self.gate(tokens), -1), self.top_k)
        weights, numbers = weights / weights.sum(-1, keepdims=True), chosen.asnumpy()
        y = ops.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            rows, places = (Tensor(found.astype(np.int32)) for found in np.nonzero(numbers == number))
            if rows.size:
                weight = ops.gather_nd(weights, ops.stack((rows, places), 1)).expand_dims(1)
                y = ops.index_add(y, rows, expert(ops.gather(tokens, rows, 0)) * weight, 0)
        return y.reshape(x.shape)


def pytorch(loop: Loop, x: np.ndarray[Any, Any]) -> Callable[[], Any] | None:
    """Return the loop in PyTorch."""
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

    def weight(dense: nn.Dense) -> Any:
        return torch.from_numpy(dense.weight.asnumpy())

    gate, tokens = weight(loop.gate), torch.from_numpy(x)
    experts = [tuple(weight(dense) for dense in (e.w1, e.w3, e.w2)) for e in loop.experts]
    linear, silu = torch.nn.functional.linear, torch.nn.functional.silu

    def call() -> Any:
        with torch.no_grad():
            weights, chosen = torch.softmax(linear(tokens, gate), -1).topk(loop.top_k)
            weights, y = weights / weights.sum(-1, keepdim=True), torch.zeros_like(tokens)
            for number, (w1, w3, w2) in enumerate(experts):
                rows, places = torch.where(chosen == number)
                if len(rows):
                    part = tokens[rows]
                    part = linear(silu(linear(part, w1)) * linear(part, w3), w2) * weights[rows, places, None]
                    y.index_add_(0, rows, part)
            return y

    def without_gradients() -> Any:
        with torch.no_grad():
            return call()

    return without_gradients


def measure(shape: tuple[int, ...], rounds: int) -> dict[str, float]:
    """Return the milliseconds of a call, by provider."""
    tokens, hidden, inner, experts, k = shape
    loop = Loop(hidden, inner, experts, k)
    loop.set_train(False)
    layer = MoEFeedForward.of(loop)
    x = np.random.default_rng(0).normal(size=(tokens, hidden)).astype(np.float32)
    given = Tensor(x)
    calls: dict[str, Callable[[], Any]] = {
        "ours": lambda: layer(given).asnumpy(),
        "MindSpore": lambda: loop(given).asnumpy(),
    }
    in_pytorch = pytorch(loop, x)
    if in_pytorch is not None:
        calls["PyTorch"] = in_pytorch
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 3):
        for name, call in calls.items():
            start = time.perf_counter()
            result = call()
            if number < 3:  # the first ones compile
                np.testing.assert_allclose(result, calls["ours"](), rtol=1e-3, atol=1e-4)
            else:
                times[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(found) for name, found in times.items()}


@click.command()
@click.option("--threads", default=1, show_default=True)
@click.option("--rounds", default=9, show_default=True)
def main(threads: int, rounds: int) -> None:
    """Print a table of milliseconds."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    ms.runtime.dispatch_threads_num(threads)
    set_num_threads(threads)
    for shape in SHAPES:
        found = measure(shape, rounds)
        beside = ", ".join(f"{n} {t:.2f} ms ({t / found['ours']:.2f}x)" for n, t in found.items() if n != "ours")
        click.echo(f"{'x'.join(map(str, shape))}, {threads} threads: ours {found['ours']:.2f} ms, {beside}")


if __name__ == "__main__":
    main()
