"""Makes a network in the forms that are compared: as MindIR files for its use, as cells for its training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mindspore as ms
from mindspore import Tensor, nn
from ms_ascend_ops.benchmarks.networks.ablation import ablate_mindir, without_operators
from ms_ascend_ops.benchmarks.networks.target import Phase, Target
from ms_ascend_ops.export import export_mindir, load, optimize_mindir
from ms_ascend_ops.export.graphs.modes import pynative
from ms_ascend_ops.samples.network import flat

from ms_ascend_ops import optimize

__all__ = ["VARIANTS", "Variant", "files", "opened", "training_step"]


@dataclass(frozen=True)
class Variant:
    """Names a form of a network."""

    label: str
    level: str  # of `optimize`; O0 where nothing is replaced


STOCK, FUSED, JOINED, ABLATED = "stock", "fused", "joined", "ablated"
VARIANTS = {
    STOCK: Variant("stock", "O0"),
    FUSED: Variant("fused (O2)", "O2"),
    JOINED: Variant("fused (O3)", "O3"),
    ABLATED: Variant("without them", "O2"),
}


def files(phase: Phase, folder: Path) -> dict[str, Path]:
    """Return the phase's graph as MindIR files, one for each variant."""
    phase.cell.set_train(False)
    stock = export_mindir(phase.cell, *phase.inputs, path=folder / STOCK, dynamic=phase.dynamic)
    made = {STOCK: stock}
    for name in (FUSED, JOINED):
        made[name] = folder / f"{name}.mindir"
        optimize_mindir(stock, made[name], level=VARIANTS[name].level)
    made[ABLATED] = folder / f"{ABLATED}.mindir"
    ablate_mindir(stock, made[ABLATED])
    return made


def opened(path: Path, inputs: tuple[Any, ...]) -> Callable[[], list[Tensor]]:
    """Return a function that runs the graph of a file once and returns its outputs."""
    network = load(path)

    # Calling a graph returns when it has run.
    return lambda: flat(network(*inputs))


def training_step(target: Target, variant: str) -> Callable[[], list[Tensor]]:
    """Return a function that makes one step of AdamW with one batch and returns the loss.

    The network is changed for it.

    Training with operators removed is compiled here, since they are removed only for that long.
    """
    if target.loss is None:
        raise ValueError("it is not trained here")
    level = VARIANTS[variant].level
    if level != "O0":
        with pynative():  # nothing to compile
            optimize(target.net, verify=[list(call) for call in target.verify], level=level)
    target.net.set_train(True)
    parameters = target.net.trainable_params()
    optimizer = nn.AdamWeightDecay(parameters, 1e-5)
    gradient = ms.value_and_grad(target.loss, None, parameters)

    @ms.jit  # type: ignore[untyped-decorator]
    def step(*batch: Tensor) -> Tensor:
        loss, gradients = gradient(*batch)
        optimizer(gradients)
        return loss

    def run() -> list[Tensor]:
        return [step(*target.batch)]

    if variant == ABLATED:
        with without_operators():
            run()
    return run
