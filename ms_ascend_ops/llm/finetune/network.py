"""Computes the decoder with gradients: of all weights, or of LoRA's factors beside weights that stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn

from ms_ascend_ops import ops
from ms_ascend_ops.llm.checkpoints.checkpoint import ROPE_FACTORS, Checkpoint
from ms_ascend_ops.llm.config import ModelConfig
from ms_ascend_ops.llm.finetune.adapter import Lora
from ms_ascend_ops.llm.finetune.data import IGNORED
from ms_ascend_ops.llm.layer import Layer, decoder, layers_of
from ms_ascend_ops.llm.linear import FloatLinear, QuantizedLinear, load_linear
from ms_ascend_ops.llm.rope import rope_tables

__all__ = ["TrainedNetwork"]

Array = np.ndarray[Any, Any]


def _tensor(array: Array) -> Tensor:
    return Tensor.from_numpy(np.array(array, np.float32))


class _Trained(nn.Cell):  # type: ignore[misc]
    """Computes a layer whose weight learns."""

    def __init__(self, network: TrainedNetwork, name: str, weight: Parameter | None = None):
        super().__init__()
        self.weight = network.parameter(f"{name}.weight") if weight is None else weight
        self.bias = network.parameter(f"{name}.bias") if network.has(f"{name}.bias") else None

    def construct(self, x: Any) -> Any:
        return ops.matmul(x, self.weight, self.bias, transpose_weight=True)


class _Frozen(nn.Cell):  # type: ignore[misc]
    """Computes a layer that stays as it is: its gradient is that of x alone, which saves a third of the work."""

    def __init__(self, checkpoint: Checkpoint, name: str, quantized: bool):
        super().__init__()
        linear = load_linear(checkpoint, [name], np.float32, quantized)
        self.arrays: list[Any]
        self.unpacked: Callable[[], Any]
        if isinstance(linear, QuantizedLinear):
            self.quantized = True
            arrays = linear.weight, linear.scale, linear.offset, linear.bias
            self.arrays = [None if part is None else Tensor.from_numpy(np.array(part)) for part in arrays]
            # The product with the transposed weight has no kernel for packed ones: it is unpacked, and forgotten.
            self.unpacked = lambda: _tensor(checkpoint.array(f"{name}.weight"))
        else:
            assert isinstance(linear, FloatLinear)
            self.quantized = False
            weight = _tensor(linear.weight)
            self.arrays = [weight, None if linear.bias is None else _tensor(linear.bias)]
            self.unpacked = lambda: weight

    def construct(self, x: Any) -> Any:
        if self.quantized:
            weight, scale, offset, bias = self.arrays
            return ops.weight_quant_matmul(x, weight, scale, offset, bias)
        weight, bias = self.arrays
        return ops.matmul(x, weight, bias, transpose_weight=True)

    def bprop(self, x: Any, out: Any, dout: Any) -> tuple[Any]:
        return (ops.matmul(dout, self.unpacked()),)


class _Adapted(nn.Cell):  # type: ignore[misc]
    """Computes y = layer(x) + (alpha / rank) B A x."""

    def __init__(self, network: TrainedNetwork, layer: nn.Cell, shape: tuple[int, ...], name: str, lora: Lora):
        super().__init__()
        self.layer = layer
        rows, columns = shape
        # PEFT begins like this: A is uniform, by Kaiming's rule with a = sqrt(5); B is 0, so that nothing changes yet.
        bound = columns**-0.5
        a = network.random.uniform(-bound, bound, (lora.rank, columns))
        self.a = network.parameter(f"{name}.lora_A", a)
        self.b = network.parameter(f"{name}.lora_B", np.zeros((rows, lora.rank)))
        self.scale = lora.scale

    def construct(self, x: Any) -> Any:
        inner = ops.matmul(x, self.a, transpose_weight=True) * self.scale
        return self.layer(x) + ops.matmul(inner, self.b, transpose_weight=True)


@dataclass
class _Cells:
    """Calls layers with the same input, as the decoder calls them."""

    cells: Sequence[nn.Cell]

    def __call__(self, ops: Any, x: Any) -> Any:
        (cell,) = self.cells
        return cell(x)

    def gated(self, ops: Any, x: Any, activation: str) -> Any:
        gate, up = self.cells
        if activation == "gelu_tanh":
            return ops.gelu_mul(gate(x), up(x), "tanh")
        return ops.silu_mul(gate(x), up(x))


def _attend(layer: Layer, query: Any, key: Any, value: Any) -> Any:
    scale = layer.config.scale_of_scores
    return ops.flash_attention(query, key, value, None, scale, causal=True, window=layer.window, layout="BSND")[0]


def _check(config: ModelConfig, source: Path) -> None:
    """Refuse what has no gradient here."""
    if config.experts:
        raise ValueError(f"{source}: a mixture of experts ({config.experts} of them) cannot be trained here")
    if config.score_cap:
        raise ValueError(
            f"{source}: {config.architecture} has a soft cap of attention's scores ({config.score_cap:g}), which has "
            "no gradient here"
        )


def _no_experts(name: str) -> Any:
    raise AssertionError(f"{name}: _check let a mixture of experts pass")


class TrainedNetwork(nn.Cell):  # type: ignore[misc]
    """Computes the sum of the losses of all tokens with a label, in PyNative mode; float32.

    Args:
        checkpoint: where the weights come from.
        lora: the factors that learn; None: all weights learn.
        quantized: with lora: matrices that the file has in 4 or 8 bits stay so.
        seed: of the factors.
        context: positions at most.
    """

    def __init__(
        self, checkpoint: Checkpoint, lora: Lora | None = None, quantized: bool = True, seed: int = 0,
        context: int | None = None,
    ):  # fmt: skip
        super().__init__()
        self.config = config = checkpoint.config
        _check(config, checkpoint.path)
        self._checkpoint, self._lora, self._quantized = checkpoint, lora, quantized
        self.random = np.random.default_rng(seed)
        # These learn, under the names of Hugging Face: cells give names of their own.
        self._learning: list[tuple[str, Parameter]] = []
        factors = checkpoint.array(ROPE_FACTORS) if ROPE_FACTORS in checkpoint else None
        tables = rope_tables(config, context or config.context, factors)
        self._angles = [(_tensor(cos), _tensor(sin)) for cos, sin in tables]
        self.adapted: dict[str, _Adapted] = {}
        self.embedding = self.parameter("model.embed_tokens.weight") if lora is None else None
        self.layers = layers_of(config, self.norm_of, self.linear, _no_experts, separate=True)
        self.norm = self.norm_of("model.norm")
        head = "model.embed_tokens" if config.tied_embedding else "lm_head"
        if lora is not None:
            self.head = _Frozen(checkpoint, head, quantized)
        else:
            self.head = _Trained(self, head, self.embedding if config.tied_embedding else None)
        self._rows = None if lora is None else self._embedding_rows()

    def linear(self, *names: str) -> _Cells:
        """Return the layers of these names."""
        return _Cells([self._cell(name) for name in names])

    def _cell(self, name: str) -> nn.Cell:
        if self._lora is None:
            return _Trained(self, name)
        layer = _Frozen(self._checkpoint, name, self._quantized)
        if name.rpartition(".")[2] not in self._lora.targets:
            return layer
        shape = self._checkpoint.shapes[f"{name}.weight"]
        self.adapted[name] = _Adapted(self, layer, shape, name, self._lora)
        return self.adapted[name]

    def norm_of(self, name: str) -> Any:
        """Return the weight of a norm of this name."""
        if self._lora is None:
            return self.parameter(f"{name}.weight")
        return _tensor(self._checkpoint.array(f"{name}.weight"))

    def has(self, name: str) -> bool:
        """Tell whether the checkpoint has a weight of this name."""
        return name in self._checkpoint

    def parameter(self, name: str, values: Array | None = None) -> Parameter:
        """Return a parameter that learns, which begins as some values, or as the checkpoint's weight of this name."""
        made = Parameter(_tensor(self._checkpoint.array(name) if values is None else values), name=name)
        self._learning.append((name, made))
        return made

    def _embedding_rows(self) -> Any:
        weight = self._checkpoint.weight("model.embed_tokens.weight")
        if isinstance(weight, np.ndarray):
            return lambda tokens: weight[tokens].astype(np.float32)
        return lambda tokens: weight.take(tokens.ravel()).dequantized().reshape(*tokens.shape, -1)

    def inputs(self, tokens: Array, labels: Array) -> tuple[Tensor, Tensor]:
        """Return tensors for `construct`: of frozen embeddings the rows, else the tokens."""
        first = Tensor.from_numpy(tokens) if self._rows is None else _tensor(self._rows(tokens))
        return first, Tensor.from_numpy(labels)

    def construct(self, x: Any, labels: Any) -> Any:
        if self.embedding is not None:
            x = ms.ops.gather(self.embedding, x, 0)
        if self.config.embedding_scale != 1:
            x = x * self.config.embedding_scale
        count = labels.shape[1]
        angles = [(cos[:count], sin[:count]) for cos, sin in self._angles]
        logits = self.head(decoder(ops, self, x, angles, _attend))
        if cap := self.config.logit_cap:
            logits = cap * ms.ops.tanh(logits / cap)
        return ops.cross_entropy(logits, labels, IGNORED, "sum")

    def factors(self) -> dict[str, tuple[Array, Array]]:
        """Return A and B of every layer that has them."""
        return {name: (layer.a.asnumpy(), layer.b.asnumpy()) for name, layer in self.adapted.items()}

    def weights(self) -> dict[str, Array]:
        """Return the values of every parameter that learns."""
        return {name: one.asnumpy() for name, one in self._learning}

    def learning(self) -> list[Parameter]:
        """Return the parameters that learn."""
        return [one for _, one in self._learning]
