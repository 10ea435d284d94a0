"""Defines `debug`: the precision debugger."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import click

from ms_ascend_ops.commands.errors import need_extra, reported

__all__ = ["debug"]


@click.group()
def debug() -> None:
    """Find where two networks begin to differ."""


def _values(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> list[str]:
    for text in given:
        if not text.endswith((".npy", ".npz")) and "x" not in text and not text.partition(":")[0].isdigit():
            raise click.BadParameter(f"must be a file .npy or .npz, or a shape such as 2x8:float32, got {text!r}")
    return list(given)


@debug.command()
@click.argument("a")
@click.argument("b")
@click.option(
    "--inputs",
    multiple=True,
    callback=_values,
    help="A .npy, a .npz, or a shape such as 2x8 or 2x8:int32 for random numbers; one for each input.",
)
@click.option("--dtype-a", default="", help="Compute A in float16, bfloat16 or float32: its cells' to_float.")
@click.option("--dtype-b", default="", help="The same for B.")
@click.option("--seed", default=0, help="Of random numbers, and of parameters that are drawn.")
@click.option("--blame", is_flag=True, help="If they differ: which fused operators of A are to blame.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write everything here.")
@click.option("--page", type=click.Path(path_type=Path), help="Write a web page here, one file.")
@click.option("--dump", type=click.Path(path_type=Path), help="Write the layers of both here, as msprobe does.")
@click.pass_context
def compare(
    ctx: click.Context,
    a: str,
    b: str,
    inputs: list[str],
    dtype_a: str,
    dtype_b: str,
    seed: int,
    blame: bool,
    json_path: Path | None,
    page: Path | None,
    dump: Path | None,
) -> None:
    """Compare A with B layer by layer; B is the one to agree with.

    Each is a MindIR or a bundle; a folder with a dump of msprobe (`dump.json`); or a network, as
    `package.module:function` or `file.py:function`, where the function takes nothing and returns the network. Without a
    network nothing has to run: dumps of an NPU can be compared anywhere.

    Exit code 0: they differ by rounding only; 1: by more, or something overflows.
    """
    if page is not None:
        need_extra("debug")
    with reported():
        from ms_ascend_ops.debug.compare import compare as compared
        from ms_ascend_ops.debug.dump import write_dump
        from ms_ascend_ops.debug.page import verdict, write_json, write_page

        records, nets = [], []
        for text, dtype in ((a, dtype_a), (b, dtype_b)):
            record, net = _record(text, inputs, dtype, seed)
            records.append(record)
            nets.append(net)
        found = compared(*records)
        if blame:
            if nets[0] is None:
                raise click.UsageError("--blame needs a network as A: its operators are replaced and it runs again")
            from ms_ascend_ops.debug.bisect import blame as find

            found.blamed, found.blame_text = find(nets[0], _tensors(inputs, seed), records[1])
        for name, record in zip("ab", records, strict=True):
            if dump is not None:
                click.echo(f"wrote {write_dump(record, dump / name)}")
        if json_path is not None:
            write_json(found, json_path)
            click.echo(f"wrote {json_path}")
        if page is not None:
            write_page(found, page)
            click.echo(f"wrote {page}")
    _show(found, verdict(found))
    ctx.exit(0 if found.equal else 1)


def _show(found: Any, words: str) -> None:
    click.echo(f"{len(found.places)} layers: {words}")
    for label, names in (("A", found.only_a), ("B", found.only_b)):
        if names:
            listed = ", ".join(names[:5]) + (" ..." if names[5:] else "")
            click.echo(f"only in {label}: {listed}")
    if found.first is not None:
        click.echo(f"first: {found.first}")
        if found.first.isolated is not None:
            click.echo(f"       on the inputs of B it differs by {found.first.isolated:.2e}")
    if found.first_overflow is not None:
        click.echo(f"overflow: {found.first_overflow.name}: {found.first_overflow.overflow}")
    if found.blamed is not None:
        click.echo(f"to blame: {', '.join(found.blamed) or 'no fused operator'} ({found.blame_text})")


def _record(text: str, inputs: list[str], dtype: str, seed: int) -> tuple[Any, Any]:
    """Return the record of A or B, and the network, if it is one."""
    from ms_ascend_ops.debug.dump import read_dump

    path = Path(text)
    if path.is_dir() or path.name == "dump.json":
        return read_dump(path), None
    if ":" not in text:
        if not path.is_file():
            raise click.BadParameter(f"there is no {text}; a network is named as module:function", param_hint="A or B")
        if dtype:
            raise click.UsageError("a MindIR computes in the dtypes that it was exported with")
        from ms_ascend_ops.debug.capture import of_mindir

        return of_mindir(path, _tensors(inputs, seed)), None
    import mindspore as ms

    from ms_ascend_ops.debug.capture import of_cell

    ms.set_seed(seed)
    net = _network(text)
    net.set_train(False)
    if dtype:
        if dtype not in ("float16", "bfloat16", "float32"):
            raise click.BadParameter(f"must be float16, bfloat16 or float32, got {dtype}", param_hint="--dtype")
        net.to_float(getattr(ms, dtype))
    title = f"{text} in {dtype}" if dtype else text
    return of_cell(net, _tensors(inputs, seed), title), net


def _network(text: str) -> Any:
    place, _, name = text.rpartition(":")
    if place.endswith(".py"):
        spec = importlib.util.spec_from_file_location(Path(place).stem, place)
        if spec is None or spec.loader is None or not Path(place).is_file():
            raise click.BadParameter(f"there is no file {place}", param_hint="A or B")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, os.getcwd())
        module = importlib.import_module(place)
    function = getattr(module, name, None)
    if not callable(function):
        raise click.BadParameter(f"{place} has no function {name}", param_hint="A or B")
    return function()


def _tensors(inputs: list[str], seed: int) -> list[Any]:
    import numpy as np
    from mindspore import Tensor

    random, found = np.random.default_rng(seed), []
    for text in inputs:
        if text.endswith(".npz"):
            with np.load(text, allow_pickle=False) as file:
                found += [file[name] for name in file.files]
        elif text.endswith(".npy"):
            found.append(np.load(text, allow_pickle=False))
        else:
            sizes, _, dtype = text.partition(":")
            shape = tuple(int(size) for size in sizes.split("x"))
            if dtype.startswith("int"):
                found.append(random.integers(0, 16, shape).astype(dtype))
            else:
                found.append(random.standard_normal(shape).astype(dtype or "float32"))
    return [Tensor(array) for array in found]
