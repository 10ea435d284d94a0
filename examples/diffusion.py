"""Runs a diffusion U-Net of mindone (UNet2DConditionModel) on a CPU: a training step and a sampling step, stock
and with the operators of this library, in float32 and in mixed precision, and a run that stops and goes on to
the bit.

    pip install mindone==0.5.0 "transformers<4.58"
    python examples/diffusion.py --threads 1
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, amp, nn
from ms_ascend_ops.benchmarks.networks.clients import _mint_on_cpu

import ms_ascend_ops
from ms_ascend_ops import optimize

SIZE, BATCH, WORDS, FEATURES = 32, 2, 16, 64


class Denoiser(nn.Cell):  # type: ignore[misc]
    """Calls the network as a function of tensors."""

    def __init__(self, unet: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.unet = unet

    def construct(self, sample, timestep, text):  # type: ignore[no-untyped-def]
        return self.unet(sample, timestep, text, return_dict=False)[0]


def network(*, fused: bool) -> nn.Cell:
    """Makes the network, with the same initial weights each time; `fused`: with layers of this library."""
    from mindone.diffusers import UNet2DConditionModel  # noqa: PLC0415  (after mint has what a CPU lacks)

    ms.set_seed(0)
    net = Denoiser(
        UNet2DConditionModel(
            sample_size=SIZE,
            in_channels=4,
            out_channels=4,
            layers_per_block=1,
            block_out_channels=(64, 128),
            norm_num_groups=8,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
            cross_attention_dim=FEATURES,
            attention_head_dim=8,
        )
    )
    net.set_train(False)  # dropout: losses are compared
    if fused:
        # Run in PyNative, where more convolutions are faster than in a graph.
        report = optimize(net, verify=batch(0)[:3], level="O3", graph=False)
        print(f"{len(report.replaced)} places of optimize; {report.outputs}")
    return net


def batch(step: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Draw noisy latents, timesteps, a text and the noise in the latents."""
    random = np.random.default_rng(step)
    clean, noise = random.standard_normal((2, BATCH, 4, SIZE, SIZE), np.float32)
    times = random.integers(0, 1000, BATCH)
    kept = np.cos(times / 1000 * np.pi / 2).astype(np.float32)[:, None, None, None]
    text = random.standard_normal((BATCH, WORDS, FEATURES), np.float32)
    noisy = kept * clean + np.sqrt(1 - kept * kept) * noise
    return Tensor(noisy), Tensor(times, ms.int64), Tensor(text), Tensor(noise)


@dataclass
class Training:
    """Trains a network: `level` is that of `ms.amp`, with a scaled loss where it has half precision."""

    net: nn.Cell
    level: str

    def __post_init__(self) -> None:
        self.net = amp.auto_mixed_precision(self.net, self.level) if self.level != "O0" else self.net
        self.optimizer = nn.AdamWeightDecay(self.net.trainable_params(), 1e-4)
        self.scaler = amp.DynamicLossScaler(2**12, 2, 50) if self.level != "O0" else amp.StaticLossScaler(1)
        self._gradient = ms.value_and_grad(self._loss, None, self.optimizer.parameters)

    def _loss(self, noisy: Tensor, times: Tensor, text: Tensor, noise: Tensor) -> Tensor:
        error = self.net(noisy, times, text).astype(ms.float32) - noise
        return self.scaler.scale((error * error).mean())

    def step(self, number: int) -> float:
        """Make one update; return the loss before it. With gradients that are not finite nothing is updated."""
        loss, gradients = self._gradient(*batch(number))
        loss, gradients = self.scaler.unscale(loss), self.scaler.unscale(gradients)
        finite = amp.all_finite(gradients)
        self.scaler.adjust(finite)
        if finite:
            self.optimizer(gradients)
        return float(loss.asnumpy())

    def sample(self) -> Any:
        """Return the noise that the network sees in a batch."""
        return self.net(*batch(0)[:3]).asnumpy()

    def _state(self) -> list[Parameter]:
        # The optimizer's own state: moments and the number of steps.
        state = [*self.net.get_parameters(), *self.optimizer.get_parameters()]
        return list({id(parameter): parameter for parameter in state}.values())

    def save(self, path: Path) -> None:
        """Save weights, the optimizer and the scale of the loss."""
        # Name values by number: a first call renames some of mindone's parameters.
        values = [{"name": str(i), "data": parameter} for i, parameter in enumerate(self._state())]
        scale = {"scale": self.scaler.scale_value, "counter": getattr(self.scaler, "counter", Tensor(0))}
        ms.save_checkpoint([*values, *({"name": k, "data": Tensor(v)} for k, v in scale.items())], str(path))

    def load(self, path: Path) -> None:
        """Reads what `save` wrote."""
        values = ms.load_checkpoint(str(path))
        for i, parameter in enumerate(self._state()):
            parameter.set_data(values[str(i)])
        if hasattr(self.scaler, "counter"):
            self.scaler.scale_value.set_data(values["scale"])
            self.scaler.counter.set_data(values["counter"])


def measured(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the median of CPU seconds, alternating."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            begin = time.process_time()
            call()
            times[name].append(time.process_time() - begin)
    return {name: median(values) for name, values in times.items()}


def resumes(level: str, steps: int) -> bool:
    """Says whether a run that goes on from a checkpoint half way ends with the bits of one that never stopped."""
    whole, first, second = (Training(network(fused=True), level) for _ in range(3))
    expected = [whole.step(i) for i in range(steps)]
    losses = [first.step(i) for i in range(steps // 2)]
    with tempfile.TemporaryDirectory() as folder:
        first.save(Path(folder, "half.ckpt"))
        second.load(Path(folder, "half.ckpt"))
    losses += [second.step(i) for i in range(steps // 2, steps)]
    ends = zip(whole.net.get_parameters(), second.net.get_parameters(), strict=True)
    return losses == expected and all(np.array_equal(a.asnumpy(), b.asnumpy()) for a, b in ends)


@click.command()
@click.option("--steps", default=10, show_default=True, help="Training steps whose losses are compared.")
@click.option("--rounds", default=7, show_default=True, help="Measured calls of each.")
@click.option("--threads", default=0, help="Threads of the kernels; 0: all.")
@click.option("--level", "levels", multiple=True, default=["O0", "O2"], show_default=True, help="Of ms.amp.")
def main(steps: int, rounds: int, threads: int, levels: tuple[str, ...]) -> None:
    """Train and sample, and print a table."""
    ms.set_device("CPU")
    _mint_on_cpu.install()
    if threads:
        ms_ascend_ops.set_num_threads(threads)
    rows = []
    for level in levels:
        runs = {name: Training(network(fused=name == "fused"), level) for name in ("stock", "fused")}
        losses = {name: [run.step(i) for i in range(steps)] for name, run in runs.items()}
        apart = max(abs(a - b) / abs(a) for a, b in zip(*losses.values(), strict=True))
        print(f"{level}: losses {losses['fused'][0]:.4f} to {losses['fused'][-1]:.4f}, at most {apart:.1e} from stock")
        rows += [
            (level, "training step", measured({name: partial(run.step, steps) for name, run in runs.items()}, rounds)),
            (level, "sampling step", measured({name: run.sample for name, run in runs.items()}, rounds)),
        ]
        print(f"{level}: resumed to the bit: {resumes(level, 4)}")
    print("\namp  what           stock ms  fused ms  times as fast (CPU time)")
    for level, what, found in rows:
        stock, fused = 1e3 * found["stock"], 1e3 * found["fused"]
        print(f"{level:4} {what:13} {stock:9.1f} {fused:9.1f}  {stock / fused:.2f}")


if __name__ == "__main__":
    main()
