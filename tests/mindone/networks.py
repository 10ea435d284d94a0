"""Networks of mindcv and mindone, on a CPU or an Ascend device, stock and after `optimize`: what they give, in a file.

    python -m tests.mindone.networks CPU FILE vit unet ...
    python -m ms_ascend_ops emulate -m tests.mindone.networks Ascend FILE vit unet ...

All weights are random, by the names of the parameters. A CPU has not all operators that mindone takes: it gets others
for them. On an NPU mindone casts to float16 for attention of diffusers, whatever the network is in.
"""
# ruff: noqa: PLC0415 - mindone takes names from mindspore.mint when it is imported, after they were replaced

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from ms_ascend_ops.benchmarks.networks.clients import _mint_on_cpu

from ms_ascend_ops import cpu_builtins, optimize

VOCABULARY = 128
TRAINED_TIMES = 40  # float32 has sin and cos of these to rounding, of 1000 to 1e-4


@dataclass
class Example:
    """A network, its inputs, a loss of them, and how it is used beside a call."""

    network: nn.Cell
    call: nn.Cell
    inputs: tuple[Tensor, ...]
    loss: Callable[..., Tensor]
    use: Callable[[], dict[str, Any]] = dict
    compiles: bool = True


class Scores(nn.Cell):  # type: ignore[misc]
    """A language model as a function of its tokens."""

    def __init__(self, network: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.network = network

    def construct(self, tokens: Tensor) -> Tensor:
        return self.network(tokens, use_cache=False, return_dict=False)[0]


class Sample(nn.Cell):  # type: ignore[misc]
    """A network of diffusers as a function of its inputs."""

    def __init__(self, network: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.network = network

    def construct(self, *given: Tensor) -> Tensor:
        return self.network(*given, return_dict=False)[0]


def random(*shape: int) -> Tensor:
    return Tensor(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))


def _vit() -> Example:
    from mindcv.models.vit import VisionTransformer

    network = VisionTransformer(image_size=64, patch_size=16, embed_dim=64, depth=3, num_heads=2, num_classes=10)
    labels = Tensor(np.array([1, 7, 0, 4], np.int32))
    return Example(network, network, (random(4, 3, 64, 64),), lambda x: ops.cross_entropy(network(x), labels))


def _language_model(name: str) -> Example:
    import mindone.transformers
    import transformers

    config = getattr(transformers, f"{name}Config")(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        attn_implementation="eager",
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=None,
    )
    network = getattr(mindone.transformers, f"{name}ForCausalLM")(config)
    ids = np.random.default_rng(1).integers(2, VOCABULARY, (2, 12))
    call = Scores(network)

    def loss(tokens: Tensor) -> Tensor:
        return ops.cross_entropy(call(tokens[:, :-1]).reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))

    def use() -> dict[str, Any]:
        """The likeliest tokens: by generate() and its cache, where its operators are there."""
        prompt, new = ids[:, :6], 6
        if ms.get_context("device_target") == "Ascend":
            mask = Tensor(np.ones_like(prompt))
            made = network.generate(Tensor(prompt), max_new_tokens=new, do_sample=False, attention_mask=mask).asnumpy()
            return {"tokens": made[:, -new:]}
        for _ in range(new):
            scores = call(Tensor(prompt.astype(np.int32))).asnumpy()
            prompt = np.concatenate([prompt, scores[:, -1:].argmax(-1)], 1)
        return {"tokens": prompt[:, -new:]}

    # MindSpore ends in the masks of Qwen2's graph.
    return Example(network, call, (Tensor(ids.astype(np.int32)),), loss, use, compiles=name != "Qwen2")


def _unet() -> Example:
    from mindone.diffusers import DDIMScheduler, UNet2DModel

    network = UNet2DModel(
        sample_size=16,
        in_channels=3,
        out_channels=3,
        layers_per_block=1,
        block_out_channels=(16, 32),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=4,
        attention_head_dim=8,
    )
    x, noise, times = random(2, 3, 16, 16), random(2, 3, 16, 16), Tensor(np.array([3, 30], np.int64))

    call = Sample(network)

    def use() -> dict[str, Any]:
        scheduler, sample = DDIMScheduler(num_train_timesteps=TRAINED_TIMES), noise
        scheduler.set_timesteps(4)
        for step in scheduler.timesteps.asnumpy():
            predicted = call(sample, Tensor(np.array([step, step], np.int64)))
            sample = scheduler.step(predicted, int(step), sample, return_dict=False)[0]
        return {"sample": sample.asnumpy()}

    return Example(network, call, (x, times), lambda *given: ((call(*given) - noise) ** 2).mean(), use)


def _vae() -> Example:
    from mindone.diffusers import AutoencoderKL

    network = AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        block_out_channels=(16, 32),
        norm_num_groups=4,
        sample_size=16,
    )
    x, latents = random(2, 3, 16, 16), random(2, 4, 8, 8)

    call = Sample(network)

    def use() -> dict[str, Any]:
        moments, decoded = network.encode(x, return_dict=False)[0], network.decode(latents, return_dict=False)[0]
        return {"decoded": decoded.asnumpy(), "moments": moments.asnumpy()}

    return Example(network, call, (x,), lambda x: ((call(x) - x) ** 2).mean(), use)


EXAMPLES: dict[str, Callable[[], Example]] = {
    "vit": _vit,
    "llama": lambda: _language_model("Llama"),
    "qwen2": lambda: _language_model("Qwen2"),
    "unet": _unet,
    "vae": _vae,
}


def set_weights(network: nn.Cell) -> None:
    for name, parameter in network.parameters_and_names():
        generator, shape = np.random.default_rng(zlib.crc32(name.encode())), parameter.shape
        values = generator.standard_normal(shape)
        if len(shape) >= 2:
            values /= np.sqrt(np.prod(shape[1:]))
        else:
            values = (0.0 if any(word in name for word in ("bias", "beta")) else 1.0) + values / 10
        if parameter.dtype == ms.float32:
            parameter.set_data(Tensor(values.astype(np.float32)))


def measured(example: Example) -> Iterator[tuple[str, Any]]:
    """Yield outputs, what it is used for, the loss and gradients of all weights, and losses of four steps of AdamW."""
    network = example.network
    set_weights(network)
    example.call.set_train(False)
    yield "output", example.call(*example.inputs).asnumpy()
    if example.compiles:
        ms.set_context(mode=ms.GRAPH_MODE, jit_config={"jit_level": "O0"})
        yield "graph", example.call(*example.inputs).asnumpy()
        ms.set_context(mode=ms.PYNATIVE_MODE)
    yield from example.use().items()
    network.set_train(True)
    for _, cell in network.cells_and_names():
        if "Drop" in type(cell).__name__:
            cell.set_train(False)
    parameters = network.trainable_params()
    gradient_of = ms.value_and_grad(example.loss, None, parameters)
    optimizer, losses = nn.AdamWeightDecay(parameters, 1e-4), []
    for step in range(4):
        loss, gradients = gradient_of(*example.inputs)
        if step == 0:
            yield "gradient", np.concatenate([gradient.asnumpy().reshape(-1) for gradient in gradients])
        optimizer(gradients)
        losses.append(loss.asnumpy())
    yield "losses", np.array(losses)
    set_weights(network)


def main() -> None:
    device, file, *names = sys.argv[1:]
    ms.set_device(device)
    found: dict[str, Any] = {}
    with cpu_builtins() if device == "CPU" else nullcontext():
        _mint_on_cpu.install()
        for name in names:
            example = EXAMPLES[name]()
            found |= {f"{name} stock {kind}": value for kind, value in measured(example)}
            example.network.set_train(False)
            report = optimize(example.network, verify=[list(example.inputs)], tolerance=1e-3)
            found[f"{name} places"] = np.array([f"{one.place}: {one.pattern}" for one in report.replaced])
            found |= {f"{name} optimized {kind}": value for kind, value in measured(example)}
    np.savez(file, **found)


if __name__ == "__main__":
    main()
