"""How long a step of a network takes on an Ascend chip, predicted: the sum of its launches.

The network is recorded as for a CPU (program.py), with weights that are broadcast from one element. Each different
launch goes through the timing model of the chip (ms_ascend_ops/profiler). Layers are alike: two networks of one and two
layers are recorded, and what the second adds is a layer.

The stock network is what a user of MindSpore writes, one operator of CANN after the other. Each takes what the roofline
gives (profiler/roofline.py), as in a trace of the emulated device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from ms_ascend_ops.llm.checkpoints.checkpoint import expected_shapes
from ms_ascend_ops.llm.config import ModelConfig
from ms_ascend_ops.llm.executor import BLOCK
from ms_ascend_ops.llm.layer import layers_of
from ms_ascend_ops.llm.linear import Experts, FloatLinear, Linear, QuantizedLinear
from ms_ascend_ops.llm.network import Network, StepInputs
from ms_ascend_ops.llm.program import Launch
from ms_ascend_ops.llm.program import Recorder as NetworkRecorder
from ms_ascend_ops.profiler.chip import Chip
from ms_ascend_ops.profiler.prediction import Prediction, predict
from ms_ascend_ops.profiler.record import Recorder, request
from ms_ascend_ops.profiler.roofline import roofline

__all__ = ["PRESETS", "TYPES", "StepPrediction", "launches_of", "predict_launch", "predict_step"]

Array = np.ndarray[Any, Any]

# Sizes of published models, by name, where there is no file at hand.
PRESETS: Mapping[str, ModelConfig] = {
    "llama-2-7b": ModelConfig(
        architecture="llama", layers=32, hidden=4096, feed_forward=11008, heads=32, key_heads=32, head_size=128,
        vocabulary=32000, context=4096, epsilon=1e-5, rope_base=10000.0, tied_embedding=False,
    ),
    "smollm2-135m": ModelConfig(
        architecture="llama", layers=30, hidden=576, feed_forward=1536, heads=9, key_heads=3, head_size=64,
        vocabulary=49152, context=8192, epsilon=1e-5, rope_base=100000.0,
    ),
}  # fmt: skip

# What the network calculates in, and the bits of its weights; 0: as floats.
TYPES: Mapping[str, tuple[Any, int]] = {
    "float16": (np.float16, 0),
    "bfloat16": (ml_dtypes.bfloat16, 0),
    "int8": (np.float16, 8),
    "int4": (np.float16, 4),
}
_GROUP = 32  # of columns of weights in 8 and 4 bits


@dataclass(frozen=True)
class StepPrediction:
    """A predicted step. Nothing here was measured.

    us: of all launches. launches: how many. parts: the time by operator, largest first. bound_us: every tensor of
    every launch once through HBM. bound_by: what bounds the operator that takes longest.
    """

    us: float
    launches: int
    parts: Mapping[str, float]
    bound_us: float
    bound_by: str
    stock_us: float
    stock_launches: int
    stock_parts: Mapping[str, float]


def predict_step(
    config: ModelConfig, kind: str, batch: int, tokens: int, context: int, chip: Chip, recorder: Recorder,
    tell: Callable[[str], None] = lambda operator: None,
) -> StepPrediction:  # fmt: skip
    """Predict a step.

    Args:
        config: sizes of the network.
        kind: one of `TYPES`.
        batch: sequences.
        tokens: new tokens of each: those of a prompt, or one.
        context: tokens of each in the cache, the new ones among them.
        chip: the chip.
        recorder: of the traced library.
        tell: is called with the operator before each different launch.

    Raises:
        ChipError, RecordError, ProgramError, ValueError, TypeError: see `ms_ascend_ops.profiler`.
    """
    if config.experts:
        raise ValueError(f"predict: a mixture of experts ({config.experts} of them) has no prediction")
    if len(set(config.windows)) > 1:
        raise ValueError(f"predict: the windows of all layers must be alike, got {sorted(set(config.windows))}")
    known: dict[Any, Prediction] = {}

    def predicted(launches: Iterable[Launch]) -> list[tuple[str, Prediction]]:
        found = []
        for launch in launches:
            key = _key(launch)
            if key not in known:
                tell(launch.operator)
                known[key] = predict_launch(launch, context, chip, recorder)
            found.append((launch.operator, known[key]))
        return found

    one, two = (
        predicted(
            launches_of(replace(config, layers=layers, windows=config.windows[:layers]), kind, batch, tokens, context)
        )
        for layers in (1, 2)
    )
    more = config.layers - 1
    us, bound = (
        _sum(one, value) + more * (_sum(two, value) - _sum(one, value))
        for value in (lambda p: p.us, lambda p: p.bound_us)
    )
    parts = {
        name: _time(one, name) + more * (_time(two, name) - _time(one, name))
        for name in dict.fromkeys(n for n, _ in two)
    }
    parts = dict(sorted(parts.items(), key=lambda part: -part[1]))
    longest = max((p for name, p in two if name == next(iter(parts))), key=lambda p: p.us)
    stock = _stock(config, kind, batch, tokens, context, chip)
    return StepPrediction(
        us=us,
        launches=len(one) + more * (len(two) - len(one)),
        parts=parts,
        bound_us=bound,
        bound_by=longest.bound_by,
        stock_us=sum(stock[0].values()),
        stock_launches=stock[1],
        stock_parts=stock[0],
    )


def _sum(launches: Iterable[tuple[str, Prediction]], value: Callable[[Prediction], float]) -> float:
    return sum(value(p) for _, p in launches)


def _time(launches: Iterable[tuple[str, Prediction]], operator: str) -> float:
    return sum(p.us for name, p in launches if name == operator)


def _hollow(dtype: Any, *shape: int) -> Array:
    """A read-only array of that shape, broadcast from one element."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def _linear(kind: str, rows: int, columns: int, bias: bool = False) -> Linear:
    dtype, bits = TYPES[kind]
    if not bits:
        return FloatLinear(_hollow(dtype, rows, columns), _hollow(dtype, rows) if bias else None)
    groups = columns // _GROUP if columns % _GROUP == 0 else 1
    scale = _hollow(np.float16, rows, groups)
    return QuantizedLinear(
        _hollow(np.int8, rows, columns * bits // 8), scale, scale if bits == 4 else None,
        _hollow(np.float32, rows) if bias else None, "none",
    )  # fmt: skip


def _network(config: ModelConfig, kind: str) -> Network:
    shapes = expected_shapes(config)

    def norm(name: str) -> Array:
        return _hollow(np.float32, *shapes[f"{name}.weight"])

    def linear(*names: str) -> Linear:
        rows = sum(shapes[f"{name}.weight"][0] for name in names)
        return _linear(kind, rows, shapes[f"{names[0]}.weight"][1], f"{names[0]}.bias" in shapes)

    dtype, _ = TYPES[kind]
    embedding = _hollow(dtype, config.vocabulary, config.hidden)

    def experts(name: str) -> Experts:
        raise AssertionError(f"{name}: predict_step let a mixture of experts pass")

    layers = layers_of(config, norm, linear, experts)
    return Network(config, dtype, embedding, layers, norm("model.norm"), linear("model.embed_tokens"))


def launches_of(config: ModelConfig, kind: str, batch: int, tokens: int, context: int) -> list[Launch]:
    """The launches of a step, with the arguments of `predict_step`."""
    network = _network(config, kind)
    recorder = NetworkRecorder()
    blocks = -(-context // BLOCK)
    cache = _hollow(network.dtype, batch * blocks, BLOCK, config.key_heads, config.head_size)
    angles = _hollow(np.float32, batch, tokens, config.rotary_pairs)
    step = StepInputs(
        x=_hollow(network.dtype, batch, tokens, config.hidden),
        angles=((angles, angles),) * (2 if config.local_base else 1),
        slots=_hollow(np.int32, batch, tokens), tables=_hollow(np.int32, batch, blocks),
        lengths=_hollow(np.int32, batch),
    )  # fmt: skip
    hidden = network.hidden(recorder, step, [(cache, cache)] * config.layers)
    rows = hidden.reshape(batch * tokens, -1)
    network.head(recorder, rows if tokens == 1 else rows.last_row())
    return recorder.launches


def _key(launch: Launch) -> Any:
    inputs = tuple(None if one is None else (one.shape, one.dtype.name) for one in launch.inputs)
    return launch.operator, inputs, tuple(sorted(launch.attributes.items()))


# Of inputs of integers: each token its own slot, each sequence its own blocks, all of the context in the cache.
_FILL: Mapping[str, Mapping[int, str]] = {"kv_cache_update": {4: "count"}, "paged_attention": {3: "count"}}
_LENGTHS = {"paged_attention": 4}


def predict_launch(launch: Launch, context: int, chip: Chip, recorder: Recorder) -> Prediction:
    """Predict one launch, with `context` tokens in the cache of each sequence."""
    fill = dict(_FILL.get(launch.operator, {}))
    if launch.operator in _LENGTHS:
        fill[_LENGTHS[launch.operator]] = str(context)
    asked = request(
        launch.operator,
        [None if one is None else one.shape for one in launch.inputs],
        ["float32" if one is None else one.dtype.name for one in launch.inputs],
        launch.attributes,
        chip.cores,
        chip.ub_bytes,
        fill=fill,
    )
    return predict(recorder.run(asked), chip)[0]


def _stock(
    config: ModelConfig, kind: str, batch: int, tokens: int, context: int, chip: Chip
) -> tuple[dict[str, float], int]:
    """Time by group of operators, and launches, of the network as one writes it with stock operators."""
    rows = batch * tokens
    query, keys = config.heads * config.head_size, config.key_heads * config.head_size
    hidden, inner = rows * config.hidden, rows * config.feed_forward
    heads, key_heads = rows * query, rows * keys
    cached, scores = batch * context * keys, batch * config.heads * tokens * context
    repeated = batch * context * query

    def product(rows: int, width: int, depth: int) -> float:
        bits = TYPES[kind][1]
        scales = {0: 0, 8: 1, 4: 2}[bits]  # of a group, and with 4 bits its offset
        weights = width * depth * ((bits or 16) / 8 + 2 * scales / _GROUP)
        return roofline(chip, weights + 2 * rows * (depth + width), 2 * rows * width * depth).us

    def batched(width: int, depth: int) -> float:
        count = batch * config.heads
        moved = 2 * count * (tokens * depth + depth * width + tokens * width)
        return roofline(chip, moved, 2 * count * tokens * width * depth).us

    def elementwise(elements: float) -> float:
        return roofline(chip, 2 * elements).us

    # Elements of 16 bits that an operator reads and writes; the norms and the softmax work in float32.
    norm = [3 * hidden, 4 * hidden, 2 * hidden, 2 * rows, 2 * rows, 4 * hidden, 3 * hidden, 2 * hidden]
    rotary = [
        operand
        for count in (heads, key_heads)
        for operand in [count, count, count, 2 * count, *[2 * count] * 2, 3 * count]
    ]
    layer: dict[str, list[float]] = {
        "RMSNorm in 8 operators": [elementwise(count) for count in norm * 2],
        "MatMul": [
            product(rows, query, config.hidden), product(rows, keys, config.hidden), product(rows, keys, config.hidden),
            product(rows, config.hidden, query), product(rows, config.feed_forward, config.hidden),
            product(rows, config.feed_forward, config.hidden), product(rows, config.hidden, config.feed_forward),
        ],
        "rotary embedding in 7 operators": [elementwise(count) for count in rotary],
        "cache": [elementwise(2 * key_heads)] * 2,
        "repeated keys and values": [elementwise(cached + repeated)] * 2 if query != keys else [],
        "attention: products": [batched(context, config.head_size), batched(config.head_size, context)],
        "attention: scale, mask, softmax, casts": [
            elementwise(count) for count in (2 * scores, 3 * scores, 3 * scores, 4 * scores, 3 * scores)
        ],
        "transposes": [elementwise(2 * count) for count in (heads, key_heads, key_heads, heads)] if tokens > 1 else [],
        "SiLU, Mul": [elementwise(2 * inner), elementwise(3 * inner)],
        "residual": [elementwise(3 * hidden)] * 2,
    }  # fmt: skip
    times = {name: config.layers * sum(times) for name, times in layer.items() if times}
    times["RMSNorm in 8 operators"] += sum(elementwise(count) for count in norm)
    times["MatMul"] += product(batch, config.vocabulary, config.hidden)
    launches = config.layers * sum(map(len, layer.values())) + len(norm) + 1
    return dict(sorted(times.items(), key=lambda part: -part[1])), launches
