"""Predicts how long a step of a network takes on an Ascend chip: the sum of its launches.

The network is recorded as for a CPU (program.py), with weights that are broadcast from one element. Each different
launch goes through the timing model of the chip (ms_ascend_ops/profiler). Layers with the same window are alike:
networks of one and two layers are recorded, and what the second of them adds is a layer of its kind. Of a mixture of
experts each gets as many tokens as the others.

The stock network is what a user of MindSpore writes, one operator of CANN after the other. Each takes what the roofline
gives (profiler/roofline.py), as in a trace of the emulated device.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from ms_ascend_ops.llm.checkpoints.checkpoint import expected_shapes
from ms_ascend_ops.llm.config import ModelConfig
from ms_ascend_ops.llm.executor import BLOCK
from ms_ascend_ops.llm.families import NORMS
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

# The network calculates in the first; its weights have so many bits, 0: as floats.
TYPES: Mapping[str, tuple[Any, int]] = {
    "float16": (np.float16, 0),
    "bfloat16": (ml_dtypes.bfloat16, 0),
    "int8": (np.float16, 8),
    "int4": (np.float16, 4),
}
_GROUP = 32  # of columns of weights in 8 and 4 bits


@dataclass(frozen=True)
class StepPrediction:
    """Describes a predicted step. Nothing here was measured.

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

    def network(*windows: int) -> list[tuple[str, Prediction]]:
        few = replace(config, layers=len(windows), windows=windows if config.windows else ())
        return predicted(launches_of(few, kind, batch, tokens, context))

    windows = config.windows or (0,) * config.layers
    one = network(windows[0])
    more = [(count, network(windows[0], window)) for window, count in Counter(windows[1:]).items()]
    # How often each counts in the sum: all but the layers that were recorded twice.
    recorded = [(1 - (config.layers - 1), one), *more]
    us, bound = (_sum(recorded, value) for value in (lambda p: p.us, lambda p: p.bound_us))
    names = dict.fromkeys(name for _, launches in recorded for name, _ in launches)
    parts = {name: _sum([(n, [one for one in some if one[0] == name]) for n, some in recorded]) for name in names}
    parts = dict(sorted(parts.items(), key=lambda part: -part[1]))
    first = next(iter(parts))
    longest = max((p for _, launches in recorded for name, p in launches if name == first), key=lambda p: p.us)
    stock = _stock(config, kind, batch, tokens, context, chip)
    return StepPrediction(
        us=us,
        launches=sum(count * len(launches) for count, launches in recorded),
        parts=parts,
        bound_us=bound,
        bound_by=longest.bound_by,
        stock_us=sum(stock[0].values()),
        stock_launches=stock[1],
        stock_parts=stock[0],
    )


def _sum(
    recorded: Iterable[tuple[int, Sequence[tuple[str, Prediction]]]],
    value: Callable[[Prediction], float] = lambda p: p.us,
) -> float:
    return sum(count * value(p) for count, launches in recorded for _, p in launches)


def _hollow(dtype: Any, *shape: int) -> Array:
    """Return a read-only array of that shape, broadcast from one element."""
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
        router, inner, outer = _hollow(dtype, config.experts, config.hidden), config.feed_forward, config.hidden
        gate, down = (_hollow(dtype, config.experts, *shape) for shape in ((inner, outer), (outer, inner)))
        return Experts(router, gate, gate, down, config.experts_used, config.normalized_experts)

    layers = layers_of(config, norm, linear, experts)
    return Network(config, dtype, embedding, layers, norm("model.norm"), linear("model.embed_tokens"))


def launches_of(config: ModelConfig, kind: str, batch: int, tokens: int, context: int) -> list[Launch]:
    """Return the launches of a step, with the arguments of `predict_step`."""
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


# Inputs of integers hold this: each token its own slot, each sequence its own blocks, all of the context in the cache.
_FILL: Mapping[str, Mapping[int, str]] = {"kv_cache_update": {4: "count"}, "paged_attention": {3: "count"}}
_LENGTHS = {"paged_attention": 4}


def _filled(launch: Launch, context: int) -> dict[int, str | Array]:
    """Return the inputs of integers, by their position. Experts get the same numbers of tokens."""
    given: list[Any] = launch.inputs
    fill: dict[int, str | Array] = dict(_FILL.get(launch.operator, {}))
    if launch.operator in _LENGTHS:
        fill[_LENGTHS[launch.operator]] = str(context)
    elif launch.operator == "moe_token_permute":
        chosen = given[1].shape
        fill[1] = (np.arange(math.prod(chosen)) % launch.attributes["num_experts"]).reshape(chosen)
    elif launch.operator == "grouped_matmul":
        rows, experts = math.prod(given[0].shape[:-1]), given[1].shape[0]
        fill[2] = np.cumsum(np.bincount(np.arange(rows) % experts, minlength=experts))
    elif launch.operator == "moe_token_unpermute":
        fill[1] = "count"
    return fill


def _unread_bytes(launch: Launch, context: int) -> float:
    """Return the bytes of inputs that are not looked at: of experts without a token, and of a cache in front of
    the window.
    """
    given: list[Any] = launch.inputs
    if launch.operator == "grouped_matmul":
        rows, weight = math.prod(given[0].shape[:-1]), given[1]
        return float(max(0, weight.shape[0] - rows) * math.prod(weight.shape[1:]) * weight.dtype.itemsize)
    window = launch.attributes["window"] if launch.operator == "paged_attention" else 0
    if window == 0:
        return 0.0
    tokens, cache = given[0].shape[1], given[1]
    seen = min(context, window + tokens - 1)
    return float(2 * math.prod(cache.shape) * cache.dtype.itemsize * (1 - seen / context))


def predict_launch(launch: Launch, context: int, chip: Chip, recorder: Recorder) -> Prediction:
    """Predict one launch, with `context` tokens in the cache of each sequence."""
    asked = request(
        launch.operator,
        [None if one is None else one.shape for one in launch.inputs],
        ["float32" if one is None else one.dtype.name for one in launch.inputs],
        launch.attributes,
        chip.cores,
        chip.ub_bytes,
        fill=_filled(launch, context),
    )
    found = predict(recorder.run(asked), chip)[0]
    return replace(found, bound_us=found.bound_us - _unread_bytes(launch, context) / (chip.hbm_gb_per_s * 1e3))


def _stock(
    config: ModelConfig, kind: str, batch: int, tokens: int, context: int, chip: Chip
) -> tuple[dict[str, float], int]:
    """Return time by group of operators, and launches, of the network as one writes it with stock operators."""
    rows = batch * tokens
    query, keys = config.query_size, config.key_size
    hidden = rows * config.hidden
    heads, key_heads = rows * query, rows * keys

    def product(rows: int, width: int, depth: int, weights: str = kind) -> float:
        bits = TYPES[weights][1]
        scales = {0: 0, 8: 1, 4: 2}[bits]  # of a group, and with 4 bits its offset
        held = width * depth * ((bits or 16) / 8 + 2 * scales / _GROUP)
        return roofline(chip, held + 2 * rows * (depth + width), 2 * rows * width * depth).us

    def batched(width: int, depth: int) -> float:
        count = batch * config.heads
        moved = 2 * count * (tokens * depth + depth * width + tokens * width)
        return roofline(chip, moved, 2 * count * tokens * width * depth).us

    def moving(*elements: float) -> list[float]:
        """Return the times of operators that move so many elements of 16 bits."""
        return [roofline(chip, 2 * count).us for count in elements]

    def norm(elements: int, rows: int) -> list[float]:
        """Return the times of its 8 operators: elements of 16 bits that they read and write, half of them as floats."""
        many = (3, 4, 2, 4, 3, 2)
        return moving(*(count * elements for count in many), 2 * rows, 2 * rows)

    def attention(window: int) -> dict[str, list[float]]:
        """Return the times of what depends on the window: of one token the keys in it are sliced off."""
        seen = min(context, window) if window and tokens == 1 else context
        cached, repeated = batch * seen * keys, batch * seen * query
        scores = batch * config.heads * tokens * seen
        return {
            "repeated keys and values": moving(cached + repeated) * 2 if query != keys else [],
            "attention: products": [batched(seen, config.head_size), batched(config.head_size, seen)],
            "attention: scale, mask, softmax, casts": moving(*(count * scores for count in (2, 3, 3, 4, 3))),
        }

    def feed_forward() -> dict[str, list[float]]:
        size, width = config.feed_forward, config.hidden
        if not config.experts:
            products = [product(rows, size, width), product(rows, size, width), product(rows, width, size)]
            return {"MatMul": products, "SiLU, Mul": moving(2 * rows * size, 3 * rows * size)}
        # Run experts that have tokens one after the other: gather the tokens, weight and add the results.
        entries = rows * config.experts_used
        experts = min(config.experts, entries)
        own, weights = entries // experts, "bfloat16" if kind == "bfloat16" else "float16"
        products = [product(own, size, width, weights)] * 2 + [product(own, width, size, weights)]
        scores = rows * config.experts
        return {
            "MatMul": [product(rows, config.experts, width, weights), *products * experts],
            "SiLU, Mul": moving(2 * own * size, 3 * own * size) * experts,
            "experts: softmax, top k": moving(2 * scores, scores + 3 * entries, 2 * entries, 3 * entries),
            "experts: gather, weights, add": moving(*(count * own * width for count in (2, 2, 3))) * experts,
        }

    norms = len(NORMS[config.family.norms]) * norm(hidden, rows)
    if config.query_key_norm:
        norms += norm(heads, rows * config.heads) + norm(key_heads, rows * config.key_heads)
    rotary = [count * part for count in (heads, key_heads) for part in (1, 1, 1, 2, 2, 2, 3)]
    alike: dict[str, list[float]] = {
        "RMSNorm in 8 operators": norms,
        "MatMul": [
            product(rows, query, config.hidden), product(rows, keys, config.hidden), product(rows, keys, config.hidden),
            product(rows, config.hidden, query),
        ],
        "rotary embedding in 7 operators": moving(*rotary),
        "cache": moving(2 * key_heads) * 2,
        "transposes": moving(*(2 * count for count in (heads, key_heads, key_heads, heads))) if tokens > 1 else [],
        "residual": moving(3 * hidden) * 2,
    }  # fmt: skip
    last = norm(hidden, rows)
    groups = [(config.layers, alike), (config.layers, feed_forward()), (1, {"RMSNorm in 8 operators": last})]
    groups += [(count, attention(w)) for w, count in Counter(config.windows or (0,) * config.layers).items()]
    groups += [(1, {"MatMul": [product(batch, config.vocabulary, config.hidden)]})]
    times: dict[str, float] = defaultdict(float)
    for count, group in groups:
        for name, some in group.items():
            if some:
                times[name] += count * sum(some)
    launches = sum(count * len(some) for count, group in groups for some in group.values())
    return dict(sorted(times.items(), key=lambda part: -part[1])), launches
