"""Defines `explain`: which kernel runs for a shape, how it is split, and why."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import click

from ms_ascend_ops.commands.group import is_verbose
from ms_ascend_ops.commands.sizes import sizes_of

if TYPE_CHECKING:
    from ms_ascend_ops.explain import Explanation
    from ms_ascend_ops.registry import Signature

__all__ = ["explain"]

_WIDTH = 80


@click.command()
@click.argument("op")
@click.option("--shape", "shapes", multiple=True, required=True, metavar="SIZES", help="Of the first input, 2048,4096.")
@click.option("--dtype", "dtypes", default="float32", help="Of the inputs in order; the others follow.")
@click.option("--attr", "attributes", multiple=True, metavar="NAME=VALUE", help="E.g. scheme=one_plus_gamma.")
@click.option("--target", default="cpu", help="cpu, or a chip, e.g. ascend910b.")
def explain(op: str, shapes: tuple[str, ...], dtypes: str, attributes: tuple[str, ...], target: str) -> None:
    """Say which kernel runs for OP (rms_norm, rms_norm_grad ...) on a shape, how it is split over cores and tiles, why.

    `--shape` may be given again for further inputs whose shape does not follow from the first. Nothing is run, so this
    answers for a chip that is not here. --verbose adds the plan of the kernel and what the numbers of the tiling mean.
    """
    from ms_ascend_ops import registry
    from ms_ascend_ops.commands.errors import reported
    from ms_ascend_ops.explain import explain as explanation
    from ms_ascend_ops.explain import find_target

    with reported():
        signature = registry.signature(op)
        values = dict(_attribute(signature, text) for text in attributes)
        names = [name.strip() for name in dtypes.split(",")]
        found = explanation(signature, [sizes_of(text) for text in shapes], names, values, find_target(target))
    _print(found, is_verbose())


def _attribute(signature: Signature, text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    known = {spec.name: spec for spec in signature.attributes}
    if name not in known:
        raise ValueError(f"{signature.name}: there is no attribute {name}; it has {', '.join(known) or 'none'}")
    kind = known[name].type
    try:
        if kind == "bool":
            return name, {"true": True, "false": False}[value.lower()]
        return name, {"int": int, "float": float, "string": str}[kind](value)
    except (KeyError, ValueError) as error:
        raise ValueError(f"{signature.name}: {name} must be a {kind}, got {value!r}") from error


def _print(found: Explanation, verbose: bool) -> None:
    notes = found.notes

    def line(title: str, text: str) -> None:
        for paragraph in text.splitlines():
            click.echo(textwrap.fill(paragraph, _WIDTH, initial_indent=f"{title:<10} ", subsequent_indent=" " * 11))
            title = ""

    tensors = [f"{name} {dtype} {shape}" for name, dtype, shape in found.inputs]
    results = [f"{name} {dtype} {shape}" for name, dtype, shape in found.outputs]
    values = "".join(f", {name}={value}" for name, value in found.attributes.items())
    line(found.signature.name, f"{', '.join(tensors)}{values} -> {', '.join(results)}")
    line("kernel", f"{found.instance}, kernels/{notes.get('kernel', '?')}")
    if verbose:
        line("", str(notes.get("plan", "")))
    where = found.target
    line("target", f"{where.name}: {where.cores} cores, {where.ub_bytes:,} bytes of Unified Buffer each")
    if found.choice is not None:
        line("computed", f"by {found.choice}; change it with MS_ASCEND_OPS_PREFER or ms_ascend_ops.ascend.prefer")
    if found.library:
        line("computed", f"by {found.library} in the place of the kernel; MS_ASCEND_OPS_ONEDNN=0 leaves it to that")
    line("launch", f"{found.block_dim} cores, workspace of {found.workspace_bytes:,} bytes")
    line("memory", f"{found.bytes_in:,} bytes in, {found.bytes_out:,} bytes out, each moved once at best")
    if not verbose:
        line("tiling", ", ".join(f"{name} {value:,.8g}" for name, value in found.tiling.items() if value))
    for index, reason in enumerate(found.reasons):
        line("why" if index == 0 else "", reason)
    if not verbose:
        click.echo("\n--verbose: the plan of the kernel, and what each number of the tiling means")
        return
    line("tiling", f"kernels/{notes.get('tiling', '?')}\n{notes.get('tiling_plan', '')}")
    fields = notes.get("fields", {})
    width = max(map(len, found.tiling), default=0)
    for name, value in found.tiling.items():
        text = f"{'':<11}{name:<{width}} {value:>12,.8g}  "
        click.echo(textwrap.fill(f"{text}{fields.get(name, '')}", _WIDTH, subsequent_indent=" " * len(text)).rstrip())
