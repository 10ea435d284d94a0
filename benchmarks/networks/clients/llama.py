"""Builds the decoder of examples/llama.py: prefill, decoding with a key/value cache, training."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from ms_ascend_ops.benchmarks.networks.target import Phase, Target

LABEL = "LLaMA (examples/llama.py)"
NEEDS = ()
SIZES = {
    "tiny": {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "length": 8, "past": 4, "batch": 1},
    "small": {"hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 4, "length": 128, "past": 128},
    "medium": {"hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 6, "length": 256, "past": 256},
    "large": {"hidden_size": 1024, "intermediate_size": 2752, "num_hidden_layers": 6, "length": 256, "past": 256},
}


def example() -> ModuleType:
    """Load the module. It is no part of the package: there is one beside a checkout of the sources."""
    name = "ms_ascend_ops_example_llama"
    if name not in sys.modules:
        path = Path(__file__).resolve().parents[3] / "examples" / "llama.py"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise ImportError(f"there is no {path}: this needs a checkout of the sources")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


class _Scores(nn.Cell):  # type: ignore[misc]
    """Computes prefill: the scores of all positions, and the keys and values of all tokens."""

    def __init__(self, net: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.net = net

    def construct(self, input_ids):  # type: ignore[no-untyped-def]
        return self.net(input_ids)


def build(size: dict[str, int], dtype: str) -> Target:
    """Build the network. `size` is that of a LlamaConfig, with the lengths of prompt and cache."""
    llama = example()
    sizes = dict(size)
    length, past, batch = sizes.pop("length"), sizes.pop("past"), sizes.pop("batch", 2)
    heads = max(2, sizes["hidden_size"] // 64)
    config = llama.LlamaConfig(
        vocab_size=1024, num_attention_heads=heads, num_key_value_heads=max(2, heads // 2), **sizes
    )
    ms.set_seed(0)
    net = llama.LlamaForCausalLM(config)
    kind = getattr(ms, dtype)
    if dtype != "float32":
        _convert(net, kind)
    random = np.random.default_rng(0)
    ids = Tensor(random.integers(0, config.vocab_size, (1, length)).astype(np.int32))
    shape = (config.num_hidden_layers, 2, 1, config.num_key_value_heads, past, config.head_dim)
    cache = Tensor(random.standard_normal(shape).astype(np.float32)).astype(kind)
    step = ids[:, :1]
    batch_ids = Tensor(random.integers(0, config.vocab_size, (batch, length + 1)).astype(np.int32))

    def loss(ids):  # type: ignore[no-untyped-def]
        logits, _ = net(ids[:, :-1])
        return ops.cross_entropy(logits.reshape(-1, config.vocab_size).astype(ms.float32), ids[:, 1:].reshape(-1))

    return Target(
        net,
        (
            Phase(f"prefill 1x{length}", _Scores(net), (ids,), length),
            Phase(f"decode after {past}", net, (step, cache)),
            Phase(f"decode after {past}, any sizes", net, (step, cache), dynamic={0: (0, 1), 1: (2, 4)}),
        ),
        ((ids,), (step, cache)),
        loss,
        (batch_ids,),
        batch * length,
    )


def _convert(net: nn.Cell, dtype: ms.Type) -> None:
    for parameter in net.get_parameters():
        parameter.set_dtype(dtype)
    model = net.model
    model.cos, model.sin, model.causal_mask = (t.astype(dtype) for t in (model.cos, model.sin, model.causal_mask))
