"""The command behind `bash build.sh ascend` and `bash build.sh check-cann`."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

from codegen.ascend import build, check, project, toolkit
from codegen.ascend.chips import CHIPS, Chip
from codegen.ascend.project import Source

ROOT = Path(__file__).resolve().parents[3]
SOURCE = Source(ROOT / "ms_ascend_ops" / "ops", ROOT / "kernels")
OUTPUT = ROOT / "build" / "ascend"

# Exit codes beside 0, and 2 for a wrong command line.
FAILED, NO_CANN = 1, 3

_cann = click.option(
    "--cann", type=click.Path(path_type=Path), help="Folder of the CANN toolkit; default: the environment's."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
def main() -> None:
    """The CANN package of ms_ascend_ops."""


@main.command()
@click.option(
    "--soc", multiple=True, default=["ascend910b"], type=click.Choice(list(CHIPS)), help="Chip; can be given again."
)
@_cann
@click.option("--generate-only", is_flag=True, help="Write the project and stop; needs no CANN.")
@click.option("--install", type=click.Path(path_type=Path), help="Install the package under this folder.")
@click.option("--output", type=click.Path(path_type=Path), default=OUTPUT, help="Where the project goes.")
def ascend(soc: Sequence[str], cann: Path | None, generate_only: bool, install: Path | None, output: Path) -> None:
    """Generate the CANN project of all operators, build it with CANN, and install the package."""
    found = _toolkit(cann)
    if found is None and not generate_only:
        click.echo(
            f"ascend: there is no CANN toolkit{f' at {cann}' if cann else ''}, so nothing was built. {toolkit.HELP}\n"
            "With --generate-only the project is written without CANN.",
            err=True,
        )
        sys.exit(NO_CANN)
    chips = [CHIPS[name] for name in dict.fromkeys(soc)]
    kernels, refused = project.collect(SOURCE, chips)
    _report_refused(refused)
    if not kernels:
        click.echo(f"ascend: no operator can run on {', '.join(chip.title for chip in chips)}", err=True)
        sys.exit(FAILED)
    output = output.resolve()
    # The template is there in later toolkits, too: find_package(ASC) first. Without a toolkit, the files of CANN 9.
    own_cmake = found is None or found.asc_package is not None or not found.template.is_dir()
    onnx = found is None or not own_cmake or found.packs_onnx_plugins
    if not onnx:
        click.echo(
            "This toolkit packs no ONNX plugins (CANN 9 does): ATC will not read optimised ONNX models.", err=True
        )
    project.write(kernels, SOURCE, output, found.root if found else None, own_cmake=own_cmake, onnx=onnx)
    kind = "find_package(ASC), CANN 8.5 and later"
    if found is not None and not own_cmake:
        build.add_template(found, output)
        kind = "the toolkit's own project template"
    click.echo(f"{len(kernels)} operators for {', '.join(soc)} in {output} (build files: {kind})")
    if generate_only:
        click.echo("Build it on a machine with CANN: `bash build.sh ascend` there, or cmake --preset=default in it.")
        return
    assert found is not None
    click.echo(f"building with CANN {found.version or '(version unknown)'} at {found.root} ...")
    try:
        installer = build.build(found, output, own_cmake)
        click.echo(f"built {installer}")
        if install is None:
            click.echo(f"Install it: bash build.sh ascend --install PATH, or bash {installer} --install-path=PATH")
            return
        folder = build.install(found, installer, install.resolve())
    except build.BuildError as error:
        click.echo(f"ascend: {error}", err=True)
        sys.exit(FAILED)
    click.echo(f"installed {folder}\nNow: source {folder}/bin/set_env.bash   # sets ASCEND_CUSTOM_OPP_PATH")


@main.command(name="check-cann")
@_cann
@click.option("--jobs", type=click.IntRange(min=1), default=2, help="Compilations at once.")
@click.option("--compiler", default="g++", help="The g++, e.g. aarch64-linux-gnu-g++ for hosts with such CPUs.")
def check_cann(cann: Path | None, jobs: int, compiler: str) -> None:
    """Compile every kernel, op_host file and the ONNX plugin against CANN's headers with g++, without an NPU."""
    if shutil.which(compiler) is None:
        raise click.UsageError(f"there is no compiler {compiler}")
    found = _toolkit(cann)
    if found is None or not found.has_headers:
        click.echo(f"check-cann: skipped, there is no CANN toolkit{f' at {cann}' if cann else ''}. {toolkit.HELP}")
        return
    chip: Chip = CHIPS["ascend910b"]
    kernels, _ = project.collect(SOURCE, [chip])
    click.echo(f"CANN {found.version or '(version unknown)'} at {found.root}, {found.architecture}")
    failures = 0
    with tempfile.TemporaryDirectory(prefix="ms_ascend_ops-") as folder, ThreadPoolExecutor(jobs) as pool:
        output = Path(folder, "project")
        project.write(kernels, SOURCE, output, found.root, own_cmake=True)
        steps = list(check.check(found, kernels, output, compiler))
        for outcome in pool.map(lambda step: step(), steps):
            click.echo(f"{'FAILED ' if outcome.error else 'ok     '} {outcome.what}")
            if outcome.error:
                failures += 1
                click.echo(outcome.error, err=True)
    click.echo(f"{len(steps) - failures} of {len(steps)} files compile")
    sys.exit(FAILED if failures else 0)


def _toolkit(cann: Path | None) -> toolkit.Toolkit | None:
    return toolkit.find(cann)


def _report_refused(refused: Sequence[project.Refused]) -> None:
    for one in refused:
        click.echo(f"{one.name}: not for {one.chip.name}: {one.reason}", err=True)


if __name__ == "__main__":
    main(prog_name="python -m codegen.ascend")
