"""Measures networks of transformers and diffusers in PyTorch and in ONNX Runtime, with and without our operators.

    python -m ms_ascend_ops.benchmarks.frameworks --threads 2

The extras torch and onnx, transformers, diffusers and onnxscript must be installed. Variants run in one process, in
turn; outputs are compared before anything is timed. Weights are random.
"""

from __future__ import annotations

import copy
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

# Calls a variant and returns its results as NumPy arrays.
Call = Callable[[], Any]


@dataclass(frozen=True)
class Network:
    """Holds a module, and example inputs of one call."""

    module: Any
    inputs: tuple[Any, ...]


def _llama(past: int) -> Network:
    """Return the scores of 256 tokens, or of one behind as many as `past` in a cache of fixed size."""
    import torch
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=4096, hidden_size=512, intermediate_size=1376, num_hidden_layers=4, num_attention_heads=8,
        num_key_value_heads=4, attn_implementation="sdpa",
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    if not past:

        class Prefill(torch.nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.model = model

            def forward(self, ids: Any) -> Any:
                return self.model(input_ids=ids, use_cache=False).logits

        return Network(Prefill(), (torch.randint(0, 4096, (1, 256)),))

    class Step(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.cache = transformers.StaticCache(config=config, max_cache_len=past + 8)

        def forward(self, ids: Any) -> Any:
            for layer in self.cache.layers:  # each call is the same step
                layer.cumulative_length.fill_(past)
            return self.model(input_ids=ids, past_key_values=self.cache).logits

    step = Step()
    with torch.no_grad():
        model(input_ids=torch.randint(0, 4096, (1, past)), past_key_values=step.cache)
    return Network(step, (torch.randint(0, 4096, (1, 1)),))


def _vit() -> Network:
    import torch
    import transformers

    config = transformers.ViTConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536, image_size=224
    )
    return Network(_first(transformers.ViTModel(config)), (torch.randn(1, 3, 224, 224),))


def _unet() -> Network:
    import diffusers
    import torch

    model = diffusers.UNet2DModel(
        sample_size=64, layers_per_block=1, block_out_channels=(64, 128, 256), norm_num_groups=32,
        down_block_types=("DownBlock2D", "AttnDownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    return Network(_first(model), (torch.randn(1, 3, 64, 64), torch.tensor([5])))


def _first(model: Any) -> Any:
    """Return a module whose result is the first one of `model`."""
    import torch

    class First(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *inputs: Any) -> Any:
            return self.model(*inputs)[0]

    return First()


NETWORKS: dict[str, Callable[[], Network]] = {
    "llama-prefill": lambda: _llama(0),
    "llama-step": lambda: _llama(128),
    "vit": _vit,
    "unet": _unet,
}


def in_pytorch(network: Network, level: str) -> Iterator[tuple[str, Call]]:
    """Yield the model in four forms: eager, compiled, with the operators, and compiled around these."""
    import torch

    from ms_ascend_ops.torch import optimize

    def call(module: Any) -> Call:
        def run() -> Any:
            with torch.no_grad():
                return module(*network.inputs).numpy()

        return run

    yield "eager", call(network.module)
    yield "torch.compile", call(torch.compile(copy.deepcopy(network.module)))
    for name, backend in (("optimize", "eager"), ("optimize, inductor", "inductor")):
        module = copy.deepcopy(network.module)
        if not optimize(module, network.inputs, level=level, backend=backend).replaced:
            raise click.ClickException("optimize replaced nothing")
        yield name, call(module)


def in_onnx_runtime(network: Network, level: str, threads: int, folder: Path) -> Iterator[tuple[str, Call]]:
    """Optimise with all of its own passes, and with the operators."""
    import onnxruntime
    import torch

    from ms_ascend_ops.onnx import library_path, optimize

    path, fused = folder / "model.onnx", folder / "fused.onnx"
    torch.onnx.export(network.module, network.inputs, str(path), dynamo=True, external_data=False, verbose=False)
    optimize(path, fused, level=level)
    for name, file in (("ONNX Runtime", path), ("optimize", fused)):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.register_custom_ops_library(library_path())
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        feeds = {value.name: x.numpy() for value, x in zip(session.get_inputs(), network.inputs, strict=True)}
        yield name, partial(_run, session, feeds)


def _run(session: Any, feeds: dict[str, Any]) -> Any:
    return session.run(None, feeds)[0]


def measure(calls: dict[str, Call], rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    """Return the milliseconds of a call: medians of rounds in which the candidates alternate."""
    expected = next(iter(calls.values()))()
    for name, call in calls.items():
        for _ in range(3):  # the first ones compile
            error = np.abs(call() - expected).max() / np.abs(expected).max()
        if not error < 1e-4:
            raise click.ClickException(f"{name} computes something else: differs by {error:.1e} of the largest")
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = clock()
            call()
            times[name].append(1e3 * (clock() - start))
    return {name: statistics.median(found) for name, found in times.items()}


@click.command(context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.option("--threads", type=click.IntRange(1), default=1, help="Of everything.")
@click.option("--rounds", type=click.IntRange(1), default=25)
@click.option("--networks", default=",".join(NETWORKS), help="Some of these.")
@click.option("--level", type=click.Choice(["O1", "O2", "O3"]), default="O2", help="Of `optimize`.")
@click.option("--cpu-time", is_flag=True, help="CPU time in place of the clock's, where others use the machine.")
def main(threads: int, rounds: int, networks: str, level: str, cpu_time: bool) -> None:
    """Print milliseconds of each network and variant, and times as multiples of that of `optimize`."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    warnings.filterwarnings("ignore")  # of torch's exporter and compiler
    import torch

    torch.set_num_threads(threads)
    clock = time.process_time if cpu_time else time.perf_counter
    for name in networks.split(","):
        if name not in NETWORKS:
            raise click.BadParameter(f"there is no {name}, but {', '.join(NETWORKS)}", param_hint="--networks")
        torch.manual_seed(0)
        network = NETWORKS[name]()
        network.module.eval()
        with tempfile.TemporaryDirectory() as folder:
            groups = [dict(in_pytorch(network, level))]
            if name != "llama-step":  # whose cache would be constants of the file
                groups.append(dict(in_onnx_runtime(network, level, threads, Path(folder))))
            for calls in groups:
                found = measure(calls, rounds, clock)
                ours = found["optimize"]
                shown = ", ".join(f"{variant} {value:.2f} ms ({value / ours:.2f}x)" for variant, value in found.items())
                click.echo(f"{name}, {threads} threads: {shown}")


if __name__ == "__main__":
    main()
