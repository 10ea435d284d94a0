"""Writes a language model as one file: the decoder as a MindIR, with tokenizer and chat template, in a bundle.

A bundle of `export/files/bundle.py` with three more files, llm/config.json, llm/tokenizer.json and llm/template.jinja.
The graph runs prompts and single tokens, on whatever this machine's `device_target` is.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from mindspore import Tensor

from ms_ascend_ops.llm.checkpoint_text import load_template, load_tokenizer
from ms_ascend_ops.llm.checkpoints.checkpoint import Checkpoint
from ms_ascend_ops.llm.config import ModelConfig, RopeScaling
from ms_ascend_ops.llm.executor import BLOCK, Chunk, check_memory
from ms_ascend_ops.llm.families import FAMILIES
from ms_ascend_ops.llm.linear import rounding_of
from ms_ascend_ops.llm.network import load_network
from ms_ascend_ops.llm.tokenizer import Tokenizer, read_tokenizer_json

__all__ = ["BundleExecutor", "OpenBundle", "open_bundle", "write_bundle"]

Array = np.ndarray[Any, Any]

_FORMAT = 2
_CONFIG, _TOKENIZER, _TEMPLATE = "llm/config.json", "llm/tokenizer.json", "llm/template.jinja"
_CHUNK = 256


def write_bundle(
    checkpoint: Checkpoint, target: Path, dtype: Any, quantized: bool, context: int, cache_tokens: int,
    chip: str | None = None, activations: str = "int8", cache_dtype: Any = None,
) -> Path:  # fmt: skip
    """Export a model. Returns the path of the bundle.

    Args:
        checkpoint: what to export.
        target: a file, .msbundle. It appears when it is complete, or not at all.
        dtype: what the network calculates in.
        quantized: keep quantized weights; an embedding becomes `dtype` in any case.
        context: positions of a sequence at most.
        cache_tokens: positions of all sequences. The empty cache is a part of the file.
        chip: the only chip it may run on; None: any.
        activations: "int8" or "float": what single tokens are where they meet quantized weights.
        cache_dtype: of keys and values in the cache; None: `dtype`.

    Raises:
        ValueError: an argument is not allowed, or the checkpoint cannot be read; bfloat16 for a CPU.
        FileExistsError: the target is there.
    """
    from ms_ascend_ops.export.files.bundle import bundle  # noqa: PLC0415
    from ms_ascend_ops.export.files.mindir import export_mindir  # noqa: PLC0415
    from ms_ascend_ops.llm.graph import Decoder  # noqa: PLC0415

    if target.exists():
        raise FileExistsError(f"{target}: it is there already; delete it, or name another file")
    if not 2 <= context <= checkpoint.config.context:
        raise ValueError(
            f"{checkpoint.path}: context must be 2 to {checkpoint.config.context}, which the model was made for, got "
            f"{context}"
        )
    if np.dtype(dtype).name == "bfloat16" and (chip is None or chip.lower() == "cpu"):
        raise ValueError(
            f"{checkpoint.path}: a bundle in bfloat16 needs the chip of an NPU (--chip): in graphs on a CPU, MindSpore "
            "reshapes and gathers none"
        )
    quantize_x = rounding_of(activations)
    tokenizer = load_tokenizer(checkpoint)
    load_template(checkpoint, tokenizer)  # one that cannot be used is found now
    blocks = -(-max(context, cache_tokens) // BLOCK)
    check_memory(str(checkpoint.path), checkpoint.config, blocks, context, np.dtype(cache_dtype or dtype).itemsize)
    decoder = Decoder(load_network(checkpoint, dtype, quantized, quantize_x), blocks, context, cache_dtype)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".export-", dir=target.parent) as name:
        folder = Path(name)
        tables = -(-context // BLOCK)
        shapes = ((1, 2), (1, 2), (1, 2), (1, tables), (1,))
        inputs = [Tensor(np.zeros(shape, np.int32)) for shape in shapes]
        open_sizes = {0: (0, 1), 1: (0, 1), 2: (0, 1), 3: (0,), 4: (0,)}
        mindir = export_mindir(decoder, *inputs, path=folder / "model", dynamic=open_sizes)
        about = {
            "format": _FORMAT, "config": asdict(checkpoint.config), "context": context, "blocks": blocks,
            "text": tokenizer.rules(), "activations": activations,
        }  # fmt: skip
        (folder / "config.json").write_text(json.dumps(about, indent=2) + "\n", "utf-8")
        tokenizer.backend.save(str(folder / "tokenizer.json"))
        extra = {_CONFIG: folder / "config.json", _TOKENIZER: folder / "tokenizer.json"}
        if checkpoint.chat_template is not None:
            extra[_TEMPLATE] = folder / "template.jinja"
            extra[_TEMPLATE].write_text(checkpoint.chat_template, "utf-8")
        return bundle(mindir, target, chip, extra)


class BundleExecutor:
    """Runs steps as `ProgramExecutor` does, by the graph of a bundle. With `every_row` each token takes a step."""

    def __init__(self, graph: Any, config: ModelConfig, blocks: int, context: int):
        self.config = config
        self.blocks = blocks
        self.context = context
        self.chunk = _CHUNK
        self._graph = graph
        self._tables = graph.inputs[3].shape[1]

    def step(self, chunks: Sequence[Chunk], every_row: bool = False) -> Array:
        """See `Executor`."""
        if every_row:
            (chunk,) = chunks
            rows = [
                self.step([Chunk([token], chunk.start + place, chunk.blocks)])
                for place, token in enumerate(chunk.tokens)
            ]
            return np.concatenate(rows)
        tokens = np.array([chunk.tokens for chunk in chunks], np.int32)
        starts = np.array([chunk.start for chunk in chunks], np.int32)
        positions = starts[:, None] + np.arange(tokens.shape[1], dtype=np.int32)
        tables = np.zeros((len(chunks), self._tables), np.int32)
        for row, chunk in enumerate(chunks):
            tables[row, : len(chunk.blocks)] = chunk.blocks
        slots = np.take_along_axis(tables, positions // BLOCK, axis=1) * BLOCK + positions % BLOCK
        lengths = starts + np.int32(tokens.shape[1])
        inputs = (tokens, positions, slots.astype(np.int32), tables, lengths)
        logits: Array = self._graph(*(np.ascontiguousarray(array) for array in inputs)).asnumpy()
        return logits


@dataclass(frozen=True)
class OpenBundle:
    """Holds the contents of a bundle."""

    executor: BundleExecutor
    tokenizer: Tokenizer
    template: str | None


def open_bundle(path: Path) -> OpenBundle:
    """Check a bundle and load it.

    Raises:
        ValueError: it is no bundle of a language model, it was changed, or its parts do not fit each other.
        RuntimeError: it needs an operator, a chip or a version that is not here.
    """
    from ms_ascend_ops.export.files.bundle import unpack  # noqa: PLC0415
    from ms_ascend_ops.export.files.load import load  # noqa: PLC0415
    from ms_ascend_ops.export.files.model import read_model  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="ms_ascend_ops-") as name:
        folder = Path(name, "bundle")
        mindir = unpack(path, folder)
        config, blocks, context, rules = _about(path, folder)
        graph = load(mindir)
        sizes = {one.name: tuple(one.dims) for one in read_model(mindir, "load", str(path)).graph.parameter}
        _check_graph(path, graph, sizes, config, blocks, context)
        try:
            backend = read_tokenizer_json(folder / _TOKENIZER)
        except ValueError as error:
            raise ValueError(f"{path}: {str(error).partition(': ')[2]}") from error
        template = folder / _TEMPLATE
        text = template.read_text("utf-8") if template.is_file() else None
    return OpenBundle(BundleExecutor(graph, config, blocks, context), Tokenizer(backend, **rules), text)


def _about(path: Path, folder: Path) -> tuple[ModelConfig, int, int, dict[str, Any]]:
    file = folder / _CONFIG
    if not file.is_file():
        raise ValueError(f"{path}: this is a bundle, but none of a language model: {_CONFIG} is missing")
    try:
        about = json.loads(file.read_text("utf-8"))
        if about["format"] != _FORMAT:
            raise ValueError(f"its format is {about['format']!r}, not {_FORMAT}: write it again by llm convert")
        config = _config(about["config"])
        blocks, context = _whole(about, "blocks"), _whole(about, "context")
        rules = _rules(about["text"])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path}: {_CONFIG} cannot be read ({type(error).__name__}: {error})") from error
    config.check(str(path))
    if not (2 <= context <= config.context and blocks * BLOCK >= context):
        raise ValueError(f"{path}: {_CONFIG}: a context of {context} does not fit {config.context} and {blocks} blocks")
    anchor = rules["anchor"]
    if anchor is not None and not 0 <= anchor < config.vocabulary:
        raise ValueError(f"{path}: {_CONFIG}: anchor must be >= 0 and < {config.vocabulary}, got {anchor}")
    return config, blocks, context, rules


def _rules(values: Mapping[str, Any]) -> dict[str, Any]:
    named, around = values["named"], values["around_chats"]
    if not isinstance(named, dict) or not all(isinstance(token, str) for token in named.values()):
        raise TypeError(f"named must be a map of texts, got {named!r:.60}")
    if not isinstance(around, bool):
        raise TypeError(f"around_chats must be true or false, got {around!r:.60}")
    anchor = None if values["anchor"] is None else _whole(values, "anchor")
    return {"named": named, "around_chats": around, "anchor": anchor}


def _config(values: Mapping[str, Any]) -> ModelConfig:
    given = dict(values)
    if given["rope_scaling"] is not None:
        scaling: dict[str, Any] = {
            key: tuple(one) if isinstance(one, list) else one for key, one in given["rope_scaling"].items()
        }
        given["rope_scaling"] = RopeScaling(**scaling)
    given["end_tokens"] = tuple(given["end_tokens"])
    given["windows"] = tuple(given.get("windows", ()))
    given.pop("query_key_norm", None)  # of older bundles: the architecture says it
    config = ModelConfig(**given)
    kinds: dict[str, Any] = {"int": int, "float": (int, float), "bool": bool, "str": str}
    kinds["int | None"] = (int, type(None))
    for field in fields(ModelConfig):
        kind = kinds.get(str(field.type))
        value = getattr(config, field.name)
        if kind is not None and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
            raise TypeError(f"{field.name} must be {field.type}, got {value!r:.60}")
    if config.rope_scaling is not None:
        values = asdict(config.rope_scaling)
        kind, lists = values.pop("kind"), [values.pop("short_factors"), values.pop("long_factors")]
        right = isinstance(kind, str) and all(isinstance(one, tuple) for one in lists)
        if not right or not all(isinstance(one, (int, float)) for one in [*values.values(), *sum(lists, ())]):
            raise TypeError(f"rope_scaling must have numbers, got {asdict(config.rope_scaling)!r:.100}")
    for name in ("end_tokens", "windows"):
        if not all(isinstance(one, int) for one in getattr(config, name)):
            raise TypeError(f"{name} must be ints, got {getattr(config, name)!r:.60}")
    if config.architecture not in FAMILIES:
        raise TypeError(f"architecture must be one of {', '.join(FAMILIES)}, got {config.architecture!r:.60}")
    return config


def _whole(values: Mapping[str, Any], key: str) -> int:
    value = values[key]
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{key} must be an int, got {value!r:.60}")
    return value


def _check_graph(
    path: Path, graph: Any, sizes: Mapping[str, tuple[int, ...]], config: ModelConfig, blocks: int, context: int
) -> None:
    """Check the graph: the kernels write where slots say, so the cache must be as large as the file says."""
    from ms_ascend_ops.llm.graph import COSINES, KEY_CACHE  # noqa: PLC0415

    shapes = [spec.shape for spec in graph.inputs]
    if (
        any(str(spec.dtype).lower() != "int32" for spec in graph.inputs)
        or shapes != [(-1, -1)] * 3 + [(-1, -(-context // BLOCK)), (-1,)]
    ):  # fmt: skip
        raise ValueError(f"{path}: its graph is none of a language model, or of another context: {shapes}")
    caches = [size for name, size in sizes.items() if name.endswith(f".{KEY_CACHE}")]
    expected = (blocks, BLOCK, config.key_heads, config.head_size)
    if caches != [expected] * config.layers:
        raise ValueError(f"{path}: the cache of its graph must have the shape {expected} in {config.layers} layers")
    angles = [size for name, size in sizes.items() if name.endswith(COSINES)]
    if angles != [(context, config.rotary_pairs)] * (2 if config.local_base else 1):
        raise ValueError(f"{path}: the angles of its graph must have the shape {(context, config.rotary_pairs)}")
    embedding = next((size for name, size in sizes.items() if name.endswith("embedding")), None)
    if embedding != (config.vocabulary, config.hidden):
        raise ValueError(f"{path}: its embedding must have the shape {(config.vocabulary, config.hidden)}")
