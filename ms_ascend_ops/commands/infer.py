"""Defines `infer`, which runs a MindIR or a bundle."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ms_ascend_ops.commands.group import ExistingPath
from ms_ascend_ops.commands.onnx_model import as_mindir
from ms_ascend_ops.commands.sizes import sizes_of

if TYPE_CHECKING:
    from ms_ascend_ops.export import InputSpec

__all__ = ["infer"]

Array = np.ndarray[Any, Any]


@click.command()
@click.argument("model", type=ExistingPath(dir_okay=False, path_type=Path))
@click.option("-i", "--input", "inputs", multiple=True, metavar="[NAME=]FILE", help="A .npy file for each input.")
@click.option("--shape", "shapes", multiple=True, metavar="SIZES", help="Random inputs of these shapes, e.g. 2,128.")
@click.option(
    "-o",
    "--output",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Save the outputs there, as output_0.npy and so on.",
)
@click.option("--profile", is_flag=True, help="Measure latency and throughput.")
@click.option(
    "--save-profile",
    is_flag=False,
    flag_value="profile.json",
    type=click.Path(dir_okay=False, path_type=Path),
    help="--profile, and write the figures here; without a name: profile.json.",
)
@click.option("--runs", type=click.IntRange(1), default=100, help="How often --profile runs it.")
@click.option("--warmup", type=click.IntRange(0), default=10, help="Runs before --profile measures.")
@click.option("--seed", default=0, help="Of random inputs.")
@click.option("--no-super-kernels", is_flag=True, help="Launch each operator by itself, on a CPU, too.")
def infer(
    model: Path,
    inputs: tuple[str, ...],
    shapes: tuple[str, ...],
    output: Path | None,
    profile: bool,
    save_profile: Path | None,
    runs: int,
    warmup: int,
    seed: int,
    no_super_kernels: bool,
) -> None:
    """Run MODEL, a MindIR, a bundle or an ONNX file, and print the shapes of what goes in and comes out.

    Inputs come from .npy files, in the order of the network or by name (`--input ids=ids.npy`); for a bfloat16 input
    the file may be float32. Without files they are random; a size that the network leaves open is then 1, or what
    `--shape` says, one for each input. An ONNX file is converted first (see `convert`); there, names of inputs are
    letters, digits and underscores.
    """
    from ms_ascend_ops.commands.errors import reported
    from ms_ascend_ops.export import load

    if inputs and shapes and model.suffix != ".onnx":
        raise click.UsageError("either --input or --shape, not both")
    with reported(), as_mindir(model, shapes, "infer") as file:
        start = time.perf_counter()
        network = load(file, super_kernels=not no_super_kernels)
        click.echo(f"loaded {model} in {time.perf_counter() - start:.2f} s")
        open_sizes = () if file != model else shapes  # of an ONNX file they are in the MindIR already
        arrays = _from_files(inputs, network.inputs) if inputs else _random(open_sizes, network.inputs, seed)
        tensors = [_tensor(array, spec) for array, spec in zip(arrays, network.inputs, strict=True)]
        start = time.perf_counter()
        results = _flat(network(*tensors))
        values = [_array(result) for result in results]
        first_s = time.perf_counter() - start
    for spec, tensor in zip(network.inputs, tensors, strict=True):
        click.echo(f"input  {spec}: {tuple(tensor.shape)}")
    for index, (result, value) in enumerate(zip(results, values, strict=True)):
        click.echo(f"output {index}: {str(result.dtype).lower()} {value.shape}{_statistics(value)}")
    with reported():
        if output:
            output.mkdir(parents=True, exist_ok=True)
            for index, value in enumerate(values):
                np.save(output / f"output_{index}.npy", value)
            click.echo(f"saved {len(values)} output{'s' if len(values) != 1 else ''} in {output}")
        if profile or save_profile:
            seconds = _measured(lambda: [value.asnumpy() for value in _flat(network(*tensors))], runs, warmup)
            figures = _figures(seconds, first_s, tensors[0].shape[0] if tensors and tensors[0].shape else 1)
            click.echo(_profile(figures))
            if save_profile:
                found = {"model": str(model), "inputs": [list(tensor.shape) for tensor in tensors], **figures}
                save_profile.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
                click.echo(f"wrote {save_profile}")


def _from_files(given: Sequence[str], specs: Sequence[InputSpec]) -> list[Array]:
    names = [spec.name for spec in specs]
    files: dict[str, Path] = {}
    for position, text in enumerate(given):
        name, separator, file = text.partition("=")
        if not separator or name not in names:  # a path may hold an equals sign
            if position >= len(names):
                raise click.UsageError(f"the network has {len(names)} inputs, got {len(given)} files")
            name, file = names[position], text
        if name in files:
            raise click.UsageError(f"--input: there are two files for {name}")
        files[name] = Path(file)
    if missing := [str(spec) for spec in specs if spec.name not in files]:
        raise click.UsageError(f"--input: no file for {'; '.join(missing)}")
    return [np.load(files[name], allow_pickle=False) for name in names]


def _random(shapes: Sequence[str], specs: Sequence[InputSpec], seed: int) -> list[Array]:
    if shapes and len(shapes) != len(specs):
        raise click.UsageError(f"--shape: one for each of the {len(specs)} inputs, got {len(shapes)}")
    rng = np.random.default_rng(seed)
    arrays: list[Array] = []
    for index, spec in enumerate(specs):
        shape = tuple(max(1, size) for size in spec.shape)
        if shapes:
            shape = sizes_of(shapes[index], form="2,128")
        if "float" in str(spec.dtype).lower():
            arrays.append(rng.standard_normal(shape).astype(np.float32))
        else:
            arrays.append(rng.integers(0, 2, shape))
    return arrays


def _tensor(array: Array, spec: InputSpec) -> Any:
    """Return what a file holds in the dtype of the network, if that loses nothing that the file is likely to mean."""
    from mindspore import Tensor, bfloat16
    from mindspore.common import dtype_to_nptype

    if spec.dtype == bfloat16:
        if array.dtype.kind == "V" and array.dtype.itemsize == 2:  # NumPy saves bfloat16 as two bytes without a name
            array = (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        if array.dtype.kind == "f":
            return Tensor(array.astype(np.float32), bfloat16)
    else:
        wanted = np.dtype(dtype_to_nptype(spec.dtype))
        if (
            array.dtype.kind in "iub" and wanted.kind in "iub" and np.array_equal(array, array.astype(wanted))
        ) or array.dtype.kind == wanted.kind == "f":
            array = array.astype(wanted)
    return Tensor(np.asarray(array, order="C"))


def _flat(result: Any) -> list[Any]:
    if isinstance(result, tuple | list):
        return [tensor for part in result for tensor in _flat(part)]
    return [result]


def _array(tensor: Any) -> Array:
    """Return bfloat16 as float32, which any NumPy can read."""
    from mindspore import bfloat16, float32

    array: Array = (tensor.astype(float32) if tensor.dtype == bfloat16 else tensor).asnumpy()
    return array


def _statistics(value: Array) -> str:
    if value.size == 0 or value.dtype.kind not in "fiu":
        return ""
    finite = value[np.isfinite(value)] if value.dtype.kind == "f" else value
    text = f", min {finite.min():.6g}, max {finite.max():.6g}, mean {finite.mean():.6g}" if finite.size else ""
    odd = value.size - finite.size
    return f"{text}, {odd} not finite" if odd else text


def _measured(call: Callable[[], Any], runs: int, warmup: int) -> list[float]:
    for _ in range(warmup):
        call()
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return seconds


def _figures(seconds: Sequence[float], first_s: float, batch: int) -> dict[str, float]:
    ms = np.array(seconds) * 1e3
    p50, p90, p99 = np.percentile(ms, (50, 90, 99))
    rate = len(seconds) / sum(seconds)
    found = {"first_ms": first_s * 1e3, "runs": len(seconds), "batch": batch, "min_ms": ms.min(), "p50_ms": p50}
    found |= {"p90_ms": p90, "p99_ms": p99, "max_ms": ms.max(), "runs_per_s": rate, "samples_per_s": rate * batch}
    return {name: value if isinstance(value, int) else float(value) for name, value in found.items()}


def _profile(figures: Mapping[str, float]) -> str:
    return (
        "first call {first_ms:.1f} ms (with compilation)\n"
        "latency over {runs} runs:\n  min {min_ms:.3f}  p50 {p50_ms:.3f}  p90 {p90_ms:.3f}  p99 {p99_ms:.3f}  "
        "max {max_ms:.3f} ms\n"
        "throughput: {runs_per_s:.1f} runs/s, {samples_per_s:.1f} samples/s (batch {batch})"
    ).format(**figures)
