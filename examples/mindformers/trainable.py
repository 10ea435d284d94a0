"""Adapts a network that MindFormers has for inference only, as its Trainer takes one for training."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindformers.core.loss import CrossEntropyLoss
from mindformers.models.modeling_utils import PreTrainedModel
from mindformers.parallel_core.utils.model_mixin import ModelMixin
from mindspore import Parameter, ParameterTuple, Tensor, ops


class Trainable(PreTrainedModel, ModelMixin):  # type: ignore[misc]
    """Computes the loss of all tokens of a batch, as a prompt. Nothing is written to the cache: no token has a slot."""

    def __init__(self, net: Any, batch: int, length: int):
        super().__init__(net.config, auto_prefix=False)
        self.transformer_config = config = net.transformer_config
        net.add_flags_custom_mcore(is_prefill=True)
        self.model = net.model
        self.model.return_hidden_states = True  # of all tokens; the logits are those of the last ones
        for parameter in self.model.get_parameters():
            parameter.requires_grad = True
        cache = (1, 16, config.num_query_groups, config.kv_channels)
        self.keys, self.values = (
            ParameterTuple(
                [Parameter(ops.zeros(cache), name=f"{kind}_{i}", requires_grad=False) for i in range(config.num_layers)]
            )
            for kind in ("key_cache", "value_cache")
        )
        self.positions = Tensor(np.tile(np.arange(length), batch).astype(np.int32))
        self.lengths, self.before = Tensor(np.full(batch, length, np.int32)), Tensor(np.zeros(batch, np.int32))
        self.tables = Tensor(np.zeros((batch, 4), np.int32))
        self.slots = Tensor(np.full(batch * length, -1, np.int32))
        self.mask = Tensor(np.triu(np.ones((128, 128), np.float32), 1))
        self.every = Tensor(np.ones(batch * length, np.float32))
        self.cross_entropy = CrossEntropyLoss()

    def construct(self, input_ids: Tensor, labels: Tensor) -> Any:
        hidden = self.model(
            input_ids=input_ids.reshape(-1),
            positions=self.positions,
            batch_valid_length=self.lengths,
            context_lens_tensor=self.before,
            q_seq_lens=self.lengths,
            block_tables=self.tables,
            slot_mapping=self.slots,
            attention_mask=self.mask,
            key_cache=self.keys,
            value_cache=self.values,
        )
        logits = self.model.output_layer(hidden).astype(ms.float32)
        loss = self.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), self.every)
        none = Tensor(0.0, ms.float32)
        return loss, none, none, none  # of more tokens at once, of experts, of an indexer
