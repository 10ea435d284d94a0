"""Builds Llama of mindone.transformers: prefill, one token, training."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from ms_ascend_ops.benchmarks.networks.target import Phase, Target

LABEL = "Llama (mindone.transformers)"
NEEDS = ("mindone", "transformers")
SIZES = {
    "tiny": {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "length": 8},
    "small": {"hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 4, "length": 128},
    "medium": {"hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 6, "length": 256},
}
VOCABULARY = 1024


class _Scores(nn.Cell):  # type: ignore[misc]
    def __init__(self, net: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.net = net

    def construct(self, input_ids):  # type: ignore[no-untyped-def]
        return self.net(input_ids, use_cache=False, return_dict=False)[0]


def build(size: dict[str, int], dtype: str) -> Target:
    """Build the network. `size` is that of a LlamaConfig, and the length of the prompt."""
    if dtype != "float32":
        raise ValueError("it is measured in float32")
    from ms_ascend_ops.benchmarks.networks.clients import _mint_on_cpu  # before mindone, which takes names from mint

    _mint_on_cpu.install()
    from mindone.transformers import LlamaForCausalLM
    from transformers import LlamaConfig

    sizes = dict(size)
    length = sizes.pop("length")
    heads = max(2, sizes["hidden_size"] // 64)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        num_attention_heads=heads,
        num_key_value_heads=max(2, heads // 2),
        max_position_embeddings=1024,
        attn_implementation="eager",
        **sizes,
    )
    ms.set_seed(0)
    net = _Scores(LlamaForCausalLM(config))
    random = np.random.default_rng(0)
    ids = Tensor(random.integers(0, VOCABULARY, (1, length)).astype(np.int32))
    batch = Tensor(random.integers(0, VOCABULARY, (2, length + 1)).astype(np.int32))

    def loss(ids):  # type: ignore[no-untyped-def]
        return ops.cross_entropy(net(ids[:, :-1]).reshape(-1, VOCABULARY), ids[:, 1:].reshape(-1))

    phases = (
        Phase(f"prefill 1x{length}", net, (ids,), length),
        Phase("one token, no cache", net, (ids[:, :1],)),
    )
    return Target(net, phases, ((ids,), (ids[:, :1],)), loss, (batch,), 2 * length)
