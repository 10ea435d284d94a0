"""Defines `certify`: the acceptance certificate of operators."""

from __future__ import annotations

import textwrap
from collections import Counter
from pathlib import Path

import click

from ms_ascend_ops.commands.bench import names_of
from ms_ascend_ops.commands.errors import MissingExtra, need_extra, reported

__all__ = ["certify"]


@click.command()
@click.argument("operators", nargs=-1)
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write everything here.")
@click.option("--page", type=click.Path(path_type=Path), help="Write a web page here, one file.")
@click.option(
    "--run", callback=names_of, default="", help="Of checks, mutations: run them now; minutes for each operator."
)
@click.option(
    "--without",
    callback=names_of,
    default="",
    help="Leave out, of accuracy, behaviour, checks, mutations, speed, prediction.",
)
@click.option("--quick", is_flag=True, help="Small shapes; speed and prediction of one case.")
@click.option("--chip", default="ascend910b2", help="Of the prediction; `profile --chips` lists them.")
@click.option("--tolerance", type=click.FloatRange(min=0), default=0.1, help="By which share a time may be longer.")
@click.pass_context
def certify(
    ctx: click.Context,
    operators: tuple[str, ...],
    json_path: Path | None,
    page: Path | None,
    run: list[str],
    without: list[str],
    quick: bool,
    chip: str,
    tolerance: float,
) -> None:
    """Examine OPERATORS, all without a name, and certify those that keep the rules.

    Accuracy against float64 and beside stock operators, equal bits, wrong inputs, special values, kernel tests on the
    checked build, seeded bugs, speed, and the predicted time on an NPU. Exit code 0: no rule is broken; 1: one is.
    Operators made by `new` are examined as all others.
    """
    from ms_ascend_ops.extras import source_tree

    root = source_tree()
    if root is None:
        raise MissingExtra(
            "certify needs the source tree, with references and kernels: run it from an editable install"
        )
    need_extra("certify")
    from ms_ascend_ops import registry
    from ms_ascend_ops.certificate.certificate import certify as examine
    from ms_ascend_ops.certificate.finding import RULES
    from ms_ascend_ops.certificate.page import write_page
    from ms_ascend_ops.profiler.report import console as terminal

    console = terminal()
    with reported(), console.status("looking at the operators") as status:
        names = list(operators or registry.names())
        found = examine(names, root, without, run, quick, chip, tolerance, status.update)
    for one in found.operators:
        words = ("passed", "FAILED", "not judged")
        counts = ", ".join(f"{one.counts[word]} {word}" for word in words if one.counts[word])
        click.echo(f"{one.name:<24} {one.verdict}: {counts}")
        for (rule, text), count in Counter((f.rule, f.text) for f in one.findings if f.passed is None).items():
            click.echo(textwrap.fill(f"{count} of {rule}: {text}", 80, initial_indent="  ", subsequent_indent="    "))
        for finding in one.failed:
            click.echo(f"  FAILED {finding.rule}: {finding.case}: {finding.text}\n         rule: {RULES[finding.rule]}")
    if json_path:
        found.write(json_path)
        click.echo(f"wrote {json_path}")
    if page:
        write_page(found, page, chip)
        click.echo(f"wrote {page}")
    why = f"left out: {', '.join(without)}" if without else "some parts were not run: --run"
    click.echo(f"{found.verdict}{'' if found.complete else f' ({why})'}")
    ctx.exit(0 if found.passed else 1)
