"""Puts fused operators into MindFormers' Llama as stock MindSpore runs it on a CPU, and into its MindIR.

python substitute.py
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor

from ms_ascend_ops import export_mindir, load, optimize, optimize_mindir

PLACES = Counter({"RMSNorm": 9, "SwiGLU": 4, "rotary embedding": 8, "attention": 4})


def network() -> Any:
    """Build a network of 4 layers with hidden size 256."""
    from mindformers.models.llama import LlamaConfig, LlamaForCausalLM

    dtypes = ("compute_dtype", "layernorm_compute_type", "softmax_compute_type", "rotary_dtype", "param_init_type")
    config = LlamaConfig(
        batch_size=1,
        seq_length=128,
        hidden_size=256,
        num_layers=4,
        num_heads=8,
        vocab_size=512,
        intermediate_size=704,
        use_past=False,
        use_flash_attention=False,
        fused_rms_norm=False,
        use_rope_slice=True,
        **dict.fromkeys(dtypes, "float32"),
    )
    net = LlamaForCausalLM(config)
    net.set_train(False)
    return net


def report(found: Any, where: str) -> None:
    places = Counter(entry.pattern for entry in found.replaced)
    count = sum(min(places[name], number) for name, number in PLACES.items())
    print(found)
    print(f"{count} of {sum(PLACES.values())} places in {where}")
    if count < sum(PLACES.values()):
        sys.exit(1)


def latencies(models: dict[str, Any], ids: Tensor) -> dict[str, float]:
    """Return medians of alternating runs, in milliseconds."""
    times: dict[str, list[float]] = {name: [] for name in models}
    for i in range(60):
        for name, model in models.items():
            start = time.perf_counter()
            outputs = model(ids)
            (outputs[0] if isinstance(outputs, tuple) else outputs).asnumpy()
            if i >= 20:
                times[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    net = network()
    ids = Tensor(np.random.default_rng(0).integers(1, 500, (1, 128)).astype(np.int32))
    with tempfile.TemporaryDirectory() as folder:
        files = {"stock": export_mindir(net, ids, path=Path(folder) / "stock")}
        for level in ("O2", "O3"):
            files[level] = Path(folder) / f"{level}.mindir"
            found = optimize_mindir(files["stock"], files[level], level=level)
            if level == "O2":
                report(found, "its MindIR")
        medians = latencies({name: load(path) for name, path in files.items()}, ids)
    for name, value in medians.items():
        print(f"{name}: prefill of 128 tokens in {value:.1f} ms, {medians['stock'] / value:.2f}x")
    report(optimize(net, verify=[ids]), "the network")


if __name__ == "__main__":
    main()
