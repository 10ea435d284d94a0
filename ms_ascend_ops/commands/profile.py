"""Defines `profile`: how long a kernel would take on a chip, predicted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ms_ascend_ops.commands.sizes import sizes_of

if TYPE_CHECKING:
    from ms_ascend_ops.profiler.launches import Case, Profile
    from ms_ascend_ops.profiler.prediction import Prediction
    from ms_ascend_ops.profiler.record import Recorder

__all__ = ["profile"]

_SETTINGS = ("cores", "ub_bytes", "buffers")


def _pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise click.BadParameter(f"must be of the form NAME=VALUE, got {text}", param_hint=option)
        pairs[name] = value
    return pairs


def _numbers(texts: tuple[str, ...], option: str) -> dict[str, int]:
    pairs = _pairs(texts, option)
    if wrong := [text for text in pairs.values() if not text.isascii() or not text.isdecimal()]:
        raise click.BadParameter(f"must be a whole number, got {wrong[0]}", param_hint=option)
    return {name: int(value) for name, value in pairs.items()}


def _axes(texts: tuple[str, ...]) -> dict[str, list[int]]:
    axes = {}
    for name, values in _pairs(tuple(text for text in texts if text != "auto"), "--sweep").items():
        if not all(value.isascii() and value.isdecimal() for value in values.split(",")):
            raise click.BadParameter(f"must be of the form tileRows=1,2,4, got {name}={values}", param_hint="--sweep")
        axes[name] = [int(value) for value in values.split(",")]
    return axes


@click.command()
@click.argument("op", required=False)
@click.option("--shape", metavar="SIZES", help="Of the first input, 2048,4096.")
@click.option("--dtype", type=click.Choice(["float16", "bfloat16", "float32"]), default="float32")
@click.option("--gradient", is_flag=True, help="The gradient's kernel instead of the forward's.")
@click.option("--chip", default="ascend910b2", help="A chip, or a .yaml of your own; --chips lists them.")
@click.option("--input", "shapes", multiple=True, metavar="NAME=SIZES", help="Shape of another input of the forward.")
@click.option("--input-dtype", "dtypes", multiple=True, metavar="NAME=DTYPE", help="Dtype of another input.")
@click.option("--attr", "attributes", multiple=True, metavar="NAME=VALUE", help="E.g. scheme=one_plus_gamma.")
@click.option("--warm", is_flag=True, help="The launch finds its tensors in L2, as far as they fit.")
@click.option("--hf32", is_flag=True, help="Products of float32 round their operands to HF32.")
@click.option(
    "--fill",
    multiple=True,
    metavar="NAME=VALUE",
    help="Values of an input of integers: a number, 'count' (0, 1, 2 ...), or a file that NumPy saved (.npy).",
)
@click.option("--cores", type=click.IntRange(1, 256), help="That the tiling is told, instead of the chip's.")
@click.option("--ub-bytes", type=click.IntRange(1024), help="That the tiling is told, instead of the chip's.")
@click.option("--buffers", type=click.IntRange(1, 8), help="At most so many in every queue.")
@click.option("--tiling", multiple=True, metavar="FIELD=VALUE", help="Overrule a field of the tiling data.")
@click.option(
    "--compare", multiple=True, metavar="WITH", help="Another operator, a saved .json, or chip=..., cores=..."
)
@click.option(
    "--sweep", multiple=True, metavar="auto|FIELD=1,2,4", help="Try tilings, print the best; may be repeated."
)
@click.option("--survey", is_flag=True, help="Every operator at the shapes of language and diffusion models.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write every figure here.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Of --survey: write the tables here.")
@click.option("--trace", is_flag=False, flag_value="auto", help="Write a Chrome / Perfetto trace [here].")
@click.option("--png", is_flag=False, flag_value="auto", help="Draw the pipes over time, a PNG [here].")
@click.option("--chips", is_flag=True, help="List the chips, and what is assumed of the chosen one.")
def profile(op: str | None, **options: Any) -> None:
    """Predict how long the kernel of OP takes on a chip, and why.

    The kernel runs in the traced build of the host layer (built on first use), which records what every core asks of
    its pipes; a timing model of the chip does the rest. Every figure is a prediction.

    \b
    profile rms_norm --shape 2048,4096 --dtype bfloat16 --trace --png
    profile rms_norm --shape 2048,4096 --gradient --compare chip=ascend910b4
    profile silu_mul --shape 2048,4096 --compare swiglu
    profile swiglu --shape 4096,8192 --sweep auto
    profile --survey
    """
    from ms_ascend_ops.commands.errors import MissingExtra, need_extra, reported
    from ms_ascend_ops.profiler.record import RecordError, need_sources

    try:
        if not options["chips"]:
            need_sources()  # before the extra: its advice includes that
    except RecordError as error:
        raise MissingExtra(str(error)) from error
    need_extra("profile")

    from ms_ascend_ops.profiler.report import console as terminal

    console = terminal()
    with reported():
        if options["chips"]:
            _list_chips(console, options["chip"])
        elif options["survey"]:
            _survey(console, op, options)
        elif op is None or options["shape"] is None:
            raise click.UsageError("name an operator and give its --shape, or ask for --survey or --chips")
        else:
            _profile(console, op, options)


def _list_chips(console: Any, name: str) -> None:
    from ms_ascend_ops.profiler.chip import chip_names, load_chip
    from ms_ascend_ops.profiler.report import assumptions, show

    for known in chip_names():
        chip = load_chip(known)
        console.print(
            f"{known:<14} {chip.name}: {chip.cores} vector cores at {chip.clock_ghz:g} GHz, "
            f"{chip.hbm_gb_per_s:g} GB/s, L2 {chip.l2_bytes / 2**20:g} MiB",
            highlight=False,
        )
    show(console, assumptions(load_chip(name)))


def _case(op: str, options: dict[str, Any]) -> Case:
    from ms_ascend_ops import registry
    from ms_ascend_ops.profiler.launches import Case

    gradient = options["gradient"]
    if op.endswith("_grad"):
        op, gradient = op.removesuffix("_grad"), True
    forward = registry.op_spec(op).forward
    attributes = {
        name: _attribute(forward, name, text) for name, text in _pairs(options["attributes"], "--attr").items()
    }
    return Case(
        operator=op,
        shape=sizes_of(options["shape"], "--shape", least=1),
        dtype=options["dtype"],
        gradient=gradient,
        chip=options["chip"],
        shapes={
            name: sizes_of(text, "--input", least=1) for name, text in _pairs(options["shapes"], "--input").items()
        },
        dtypes=_pairs(options["dtypes"], "--input-dtype"),
        attributes=attributes,
        cores=options["cores"] or 0,
        ub_bytes=options["ub_bytes"] or 0,
        buffers=options["buffers"] or 0,
        tiling=_numbers(options["tiling"], "--tiling"),
        warm=options["warm"],
        hf32=options["hf32"],
        fill=_pairs(options["fill"], "--fill"),
    )


def _attribute(forward: Any, name: str, text: str) -> Any:
    known = {spec.name: spec for spec in forward.attributes}
    if name not in known:
        raise ValueError(f"{forward.name}: there is no attribute {name}; it has {', '.join(known) or 'none'}")
    kind = known[name].type
    try:
        if kind == "bool":
            return {"true": True, "false": False}[text.lower()]
        return int(text) if kind == "int" else float(text) if kind == "float" else text
    except (KeyError, ValueError) as error:
        raise ValueError(f"{forward.name}: {name} must be a {kind}, got {text!r}") from error


def _recorder(console: Any) -> Recorder:
    from ms_ascend_ops.profiler.record import Recorder, build

    if not console.is_terminal:
        return Recorder(build(lambda text: click.echo(text, err=True)))
    with console.status("looking for the traced library") as status:
        library = build(status.update)
    return Recorder(library)


def _profile(console: Any, op: str, options: dict[str, Any]) -> None:
    from ms_ascend_ops.profiler.launches import profile as run
    from ms_ascend_ops.profiler.report import comparison, prediction, show

    case = _case(op, options)
    case.request(_chip(case))  # says what is wrong before anything is built
    with _recorder(console) as recorder:
        found = run(case, recorder)
        others = [_compared(text, case, recorder) for text in options["compare"]]
        if others:
            show(console, comparison(found.prediction, others, str(case)))
        else:
            show(console, prediction(found))
        saved = {"case": _as_dict(found), "compared": [{"name": name, **p.as_dict()} for name, p in others]}
        if options["sweep"]:
            saved["sweep"] = _sweep(console, found, options, recorder)
    _write(console, found, saved, options)


def _chip(case: Case) -> Any:
    from ms_ascend_ops.profiler.chip import load_chip

    return load_chip(case.chip)


def _as_dict(found: Profile) -> dict[str, Any]:
    return {"name": str(found.case), **found.prediction.as_dict()}


def _figures(prediction: Prediction | None) -> dict[str, Any]:
    return prediction.as_dict() if prediction else {}


def _compared(text: str, case: Case, recorder: Recorder) -> tuple[str, Prediction]:
    """Return what --compare names: a file, an operator, or the same case with changes."""
    from ms_ascend_ops.profiler.launches import profile as run

    if text.endswith(".json"):
        return _saved(Path(text))
    changes: dict[str, Any] = {}
    tiling = dict(case.tiling)
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals:
            gradient = part.endswith("_grad") or case.gradient
            changes |= {"operator": part.removesuffix("_grad"), "gradient": gradient}
        elif name in ("chip", "dtype"):
            changes[name] = value
        elif name == "shape":
            changes[name] = sizes_of(value, "--compare", least=1)
        elif name in _SETTINGS:
            changes[name] = _numbers((part,), "--compare")[name]
        else:
            tiling |= _numbers((part,), "--compare")
    other = case.changed(**changes, tiling=tiling)
    name = f"{other} on {other.chip}" if other.chip != case.chip else str(other)
    return name, run(other, recorder).prediction


def _saved(path: Path) -> tuple[str, Prediction]:
    from ms_ascend_ops.profiler.prediction import CubeUse, Hotspot, Prediction

    try:
        data = json.loads(path.read_text(encoding="utf-8"))["case"]
        name = f"{data.pop('name')} ({path.name})"
        data.pop("predicted")
        hotspots = [Hotspot(**spot) for spot in data.pop("hotspots")]
        cube = data.pop("cube", None)
        return name, Prediction(**data, hotspots=hotspots, cube=CubeUse(**cube) if cube else None)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path}: this is no result that `profile --json` of this version wrote ({error})") from error


def _sweep(console: Any, found: Profile, options: dict[str, Any], recorder: Recorder) -> list[dict[str, Any]]:
    from rich.progress import Progress

    from ms_ascend_ops.profiler.report import show, sweep_table
    from ms_ascend_ops.profiler.sweep import cases, default_axes, sweep

    axes = {**(default_axes(found) if "auto" in options["sweep"] else {}), **_axes(options["sweep"])}
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("sweep", total=len(list(cases(found.case, axes))))
        attempts = sweep(found, axes, recorder, lambda: progress.advance(task))
    show(console, sweep_table(found, attempts))
    return [
        {"changes": a.case.changes, "us": a.profile.prediction.us if a.profile else None, "problem": a.problem}
        for a in attempts
    ]


def _write(console: Any, found: Profile, saved: dict[str, Any], options: dict[str, Any]) -> None:
    from ms_ascend_ops.profiler.launches import default_path
    from ms_ascend_ops.profiler.timeline import write_chrome_trace, write_picture

    written = []
    if options["json_path"]:
        options["json_path"].write_text(json.dumps(saved, indent=2) + "\n", encoding="utf-8")
        written.append(options["json_path"])
    for option, ending, write in (("trace", "_trace.json", write_chrome_trace), ("png", ".png", write_picture)):
        if options[option]:
            path = default_path(found.case, ending) if options[option] == "auto" else Path(options[option])
            write(path, found.trace, found.runs, found.chip, found.prediction)
            written.append(path)
    for path in written:
        console.print(f"wrote {path}", highlight=False, markup=False)


def _survey(console: Any, op: str | None, options: dict[str, Any]) -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from ms_ascend_ops.profiler.report import show
    from ms_ascend_ops.profiler.survey import as_markdown, as_table, survey, survey_cases

    chosen = survey_cases(options["chip"], [op] if op else None)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with _recorder(console) as recorder, Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(chosen))

        def tell(case: Case) -> None:
            progress.update(task, advance=1, description=str(case))

        rows = survey(chosen, recorder, tell)
    show(console, as_table(rows, options["chip"]))
    if options["markdown"]:
        options["markdown"].write_text(as_markdown(rows, options["chip"]), encoding="utf-8")
    if options["json_path"]:
        data = [{"name": str(row.case), "problem": row.problem, **_figures(row.prediction)} for row in rows]
        options["json_path"].write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
