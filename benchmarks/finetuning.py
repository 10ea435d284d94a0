"""Measures a step of `llm finetune` beside the same network of MindSpore's own operators.

    python -m ms_ascend_ops.benchmarks.finetuning model.gguf text.txt --length 128 --batch 4

Both are TrainedNetwork in float32 and PyNative mode, with the same weights and examples; the second has, in the place
of this library's operators, the compositions of MindSpore's operators that they replace. A round is the loss and the
gradients of one batch in each; what is printed are medians, and how far losses and gradients are apart.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import click
import mindspore as ms
import numpy as np

from ms_ascend_ops import ops, set_num_threads
from ms_ascend_ops.llm import open_checkpoint
from ms_ascend_ops.llm.checkpoint_text import load_tokenizer
from ms_ascend_ops.llm.finetune import network as network_module
from ms_ascend_ops.llm.finetune.adapter import Lora
from ms_ascend_ops.llm.finetune.data import batches, padded, read_examples

_PRODUCT = {transposed: ms.ops.MatMul(transpose_b=transposed) for transposed in (False, True)}


def _matmul(x: Any, weight: Any, bias: Any = None, transpose_weight: bool = False) -> Any:
    product = _PRODUCT[transpose_weight](x.reshape(-1, x.shape[-1]), weight)
    y = product.reshape(*x.shape[:-1], product.shape[-1])
    return y if bias is None else y + bias


def _rms_norm(x: Any, gamma: Any, epsilon: float) -> tuple[Any]:
    return (x * ms.ops.rsqrt((x * x).mean(-1, keep_dims=True) + epsilon) * gamma,)


def _add_rms_norm(x1: Any, x2: Any, gamma: Any, epsilon: float) -> tuple[Any, None, Any]:
    total = x1 + x2
    return _rms_norm(total, gamma, epsilon)[0], None, total


def _rotary_embedding(x: Any, cos: Any, sin: Any) -> Any:
    cos, sin = cos.expand_dims(1), sin.expand_dims(1)
    first, second = ms.ops.chunk(x, 2, -1)
    return ms.ops.cat((first * cos - second * sin, second * cos + first * sin), -1)


def _flash_attention(query: Any, key: Any, value: Any, causal: bool, layout: str) -> tuple[Any]:
    assert causal
    assert layout == "BSND"
    shared = query.shape[2] // key.shape[2]
    query, key, value = (x.transpose(0, 2, 1, 3) for x in (query, key, value))
    key, value = (ms.ops.repeat_interleave(x, shared, 1) for x in (key, value))
    tokens = query.shape[2]
    mask = ms.Tensor(np.triu(np.full((tokens, tokens), -np.inf, np.float32), 1))
    scores = ms.ops.matmul(query, key.swapaxes(-1, -2)) * query.shape[-1] ** -0.5 + mask
    return (ms.ops.matmul(ms.ops.softmax(scores, -1), value).transpose(0, 2, 1, 3),)


def _silu_mul(gate: Any, up: Any) -> Any:
    return ms.ops.silu(gate) * up


def _cross_entropy(logits: Any, labels: Any, ignored: int, reduction: str) -> Any:
    rows = logits.reshape(-1, logits.shape[-1])
    return ms.ops.cross_entropy(rows, labels.reshape(-1), ignore_index=ignored, reduction=reduction)


STOCK = SimpleNamespace(
    matmul=_matmul, rms_norm=_rms_norm, add_rms_norm=_add_rms_norm, rotary_embedding=_rotary_embedding,
    flash_attention=_flash_attention, silu_mul=_silu_mul, cross_entropy=_cross_entropy,
)  # fmt: skip


@click.command()
@click.argument("model", type=click.Path(exists=True, path_type=Path))
@click.argument("data", type=click.Path(exists=True, path_type=Path))
@click.option("--method", type=click.Choice(["lora", "full"]), default="lora")
@click.option("--length", type=click.IntRange(2), default=128)
@click.option("--batch", type=click.IntRange(1), default=4)
@click.option("--rounds", type=click.IntRange(1), default=5)
@click.option("--threads", type=click.IntRange(1, 256), default=1)
def main(model: Path, data: Path, method: str, length: int, batch: int, rounds: int, threads: int) -> None:
    """Measure a training step of MODEL on the text DATA; weights are float32."""
    set_num_threads(threads)
    ms.runtime.launch_blocking()
    checkpoint = open_checkpoint(model)
    examples = read_examples(data, load_tokenizer(checkpoint), None, length)
    lora = Lora() if method == "lora" else None
    network = network_module.TrainedNetwork(checkpoint, lora, quantized=False, context=length)
    inputs = network.inputs(*padded(next(batches(examples, batch, 0))))
    step = ms.value_and_grad(network, None, network.learning())
    seconds: dict[str, list[float]] = {"ms_ascend_ops": [], "MindSpore": []}
    results: dict[str, tuple[float, list[Any]]] = {}
    for _ in range(rounds + 1):
        for name, operators in (("ms_ascend_ops", ops), ("MindSpore", STOCK)):
            with patch.object(network_module, "ops", operators):
                start = time.perf_counter()
                loss, gradients = step(*inputs)
                results[name] = float(loss), [gradient.asnumpy() for gradient in gradients]
                seconds[name].append(time.perf_counter() - start)
    (loss, ours), (other, theirs) = results.values()
    apart = max(float(np.abs(a - b).max() / (np.abs(b).max() or 1.0)) for a, b in zip(ours, theirs, strict=True))
    times = {name: statistics.median(values[1:]) for name, values in seconds.items()}
    for name, value in times.items():
        click.echo(f"{name:14} {value:.2f} s a step")
    click.echo(
        f"MindSpore / ms_ascend_ops {times['MindSpore'] / times['ms_ascend_ops']:.2f}; losses are "
        f"{abs(loss - other) / other:.1e} apart, gradients {apart:.1e} of the largest"
    )


if __name__ == "__main__":
    main()
