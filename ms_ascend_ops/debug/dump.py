"""Holds what the layers of a network took and gave, and dumps it in the layout of `mindstudio-probe` (msprobe).

    <folder>/step0/rank0/dump.json                every layer in order, with statistics of its tensors
    <folder>/step0/rank0/dump_tensor_data/*.npy   the tensors; bfloat16 as float32
    <folder>/step0/rank0/construct.json           the layer that each one is part of
    <folder>/step0/rank0/stack.json

A layer is called `Cell.<name>.<class>.forward.<number of the call>`. Dumps of statistics alone (task "statistics") are
read, too: they have no values. Needs no MindSpore.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Layer", "MindIRNode", "Record", "Value", "read_dump", "write_dump"]

_NAME = re.compile(r"(?:Cell|Module|Functional|Primitive|Mint|Tensor|Jit)\.(.+)\.(forward|backward)(?:\.(\d+))?")
_SAFE = re.compile(r"[^\w.\-]")


@dataclass(frozen=True)
class Value:
    """Holds one tensor: its values, where they are known, and its statistics.

    Args:
        dtype: float16 and so on.
        shape: its sizes.
        values: an array, bfloat16 as float32; None: only the statistics are known.
        statistics: Max, Min, Mean and Norm.
    """

    dtype: str
    shape: tuple[int, ...]
    values: NDArray[Any] | None
    statistics: Mapping[str, float | None] = field(default_factory=dict)

    @classmethod
    def of(cls, values: NDArray[Any], dtype: str) -> Value:
        """Make one of an array, with its statistics.

        Args:
            values: an array, in float32 or in a type that NumPy has.
            dtype: the name of the dtype that they stand for.
        """
        finite = values.astype(np.float64) if values.dtype.kind in "fiub" and values.size else None
        if finite is None:
            return cls(dtype, values.shape, values, {})
        with np.errstate(all="ignore"):
            found = {"Max": finite.max(), "Min": finite.min(), "Mean": finite.mean(), "Norm": np.linalg.norm(finite)}
        return cls(dtype, values.shape, values, {name: float(value) for name, value in found.items()})


@dataclass(frozen=True)
class MindIRNode:
    """Says where a value of a MindIR stands in its graph."""

    name: str  # of the value
    taken: tuple[str, ...]  # the values and parameters that it is computed from; of a constant it is empty
    parameters: tuple[str, ...]  # those of them that are parameters
    fused: bool  # an operator of this package
    put_in: bool  # by `optimize_mindir`, under the name of the value that it replaces


@dataclass
class Layer:
    """Records one call of one layer."""

    name: str  # model.layers.0.mlp
    kind: str  # its class
    number: int  # of the call
    inputs: list[Value]
    outputs: list[Value]
    cell: Any = None  # the layer itself, where it is at hand: it can be called again
    arguments: tuple[Any, ...] = ()  # what it was called with
    node: MindIRNode | None = None  # where it is a value of a MindIR

    @property
    def full_name(self) -> str:
        return f"Cell.{self.name}.{self.kind}.forward.{self.number}"

    @property
    def label(self) -> str:
        return self.name if self.number == 0 else f"{self.name} (call {self.number + 1})"


@dataclass
class Record:
    """Holds the layers of a network in the order in which they ended; what is part of another comes before it.

    Args:
        title: what reports call it.
        layers: their calls.
    """

    title: str
    layers: list[Layer] = field(default_factory=list)

    @property
    def outputs(self) -> list[Value]:
        """Return the outputs of the network."""
        return self.layers[-1].outputs if self.layers else []


def write_dump(record: Record, folder: Path) -> Path:
    """Write a dump.

    Args:
        record: what is written.
        folder: where to; it is made.

    Returns:
        The path of `dump.json`.
    """
    place = folder / "step0" / "rank0"
    tensors = place / "dump_tensor_data"
    tensors.mkdir(parents=True, exist_ok=True)
    data = {}
    for layer in record.layers:
        described = {
            key: [_write(value, f"{layer.full_name}.{role}.{i}", tensors) for i, value in enumerate(values)]
            for key, role, values in (("input_args", "input", layer.inputs), ("output", "output", layer.outputs))
        }
        data[layer.full_name] = {
            "input_args": described["input_args"],
            "input_kwargs": {},
            "output": described["output"],
        }
    names = {layer.name: layer.full_name for layer in record.layers}
    parents = {layer.full_name: names.get(layer.name.rpartition(".")[0]) for layer in record.layers}
    head = {"task": "tensor", "level": "L0", "framework": "mindspore", "dump_data_dir": str(tensors.resolve())}
    for name, content in (("dump", {**head, "data": data}), ("construct", parents), ("stack", {})):
        (place / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return place / "dump.json"


def _write(value: Value, name: str, folder: Path) -> dict[str, Any]:
    described: dict[str, Any] = {
        "type": "mindspore.Tensor",
        "dtype": "BFloat16" if value.dtype == "bfloat16" else value.dtype.capitalize(),
        "shape": list(value.shape),
        **{key: value.statistics.get(key) for key in ("Max", "Min", "Mean", "Norm")},
    }
    if value.values is not None:
        described["data_name"] = f"{_SAFE.sub('_', name)}.npy"
        np.save(folder / described["data_name"], value.values)
    return described


def read_dump(path: Path, title: str = "") -> Record:
    """Read a dump: its `dump.json`, or a folder that holds one.

    Args:
        path: `dump.json`, or a folder that holds one.
        title: what the record is called; empty: as the folder.

    Raises:
        FileNotFoundError: there is none.
        ValueError: there are several, or it is no dump.
    """
    file = path
    if path.is_dir():
        files = sorted(path.rglob("dump.json"))
        if not files:
            raise FileNotFoundError(f"read_dump: there is no dump.json in {path}")
        if len(files) > 1:
            listed = ", ".join(str(one.parent.relative_to(path)) for one in files[:5])
            raise ValueError(f"read_dump: {path} holds several dumps, name one of them: {listed}")
        file = files[0]
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        data = content["data"]
        folder = file.parent / "dump_tensor_data"
        given = Path(content.get("dump_data_dir") or folder)
        layers = list(_layers(data, folder if folder.is_dir() else given))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"read_dump: {file} is no dump of msprobe ({type(error).__name__}: {error})") from error
    return Record(title or str(path), layers)


def _layers(data: Mapping[str, Any], folder: Path) -> Iterator[Layer]:
    for full_name, described in data.items():
        match = _NAME.fullmatch(full_name)
        if match is None or match[2] != "forward":
            continue
        name, _, kind = match[1].rpartition(".")
        if full_name.startswith(("Cell.", "Module.")):
            number = int(match[3] or 0)
        else:  # Functional.softmax.3.forward: the number stands before
            name, kind, number = match[1], match[1].partition(".")[0], 0
        given = [*_tensors(described.get("input_args")), *_tensors(described.get("input_kwargs"))]
        inputs = [_value(one, folder) for one in given]
        outputs = [_value(one, folder) for one in _tensors(described.get("output"))]
        yield Layer(name or kind, kind, number, inputs, outputs)


def _tensors(described: Any) -> list[Mapping[str, Any]]:
    """Return descriptions of tensors, within lists and dicts."""
    if isinstance(described, Mapping):
        if str(described.get("type", "")).endswith(("Tensor", "Parameter", "ndarray")) and "shape" in described:
            return [described]
        return [one for value in described.values() for one in _tensors(value)]
    if isinstance(described, list):
        return [one for value in described for one in _tensors(value)]
    return []


def _value(described: Mapping[str, Any], folder: Path) -> Value:
    dtype = str(described.get("dtype", "")).rpartition(".")[2].lower()
    statistics = {key: described.get(key) for key in ("Max", "Min", "Mean", "Norm")}
    values = None
    name = described.get("data_name")
    if isinstance(name, str) and name.endswith(".npy") and Path(name).name == name and (folder / name).is_file():
        values = np.load(folder / name, allow_pickle=False)
    return Value(dtype, tuple(int(size) for size in described["shape"]), values, statistics)
