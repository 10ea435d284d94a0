"""Seeds bugs into copies of the kernels and counts how many the checked build or a test of values catches.

Run by `bash build.sh check --mutations`, in the staged copy of the checked build.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from pathlib import Path

import click

from tests.kernels import mutation
from tests.kernels.mutation import Mutation

LIST = Path(__file__).parent / "mutations.yaml"


class Workshop:
    """Builds mutants beside a checked build."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self.build = source / "build" / "check"
        entries = json.loads((self.build / "compile_commands.json").read_text())
        self.commands = {Path(entry["file"]).name: entry["command"] for entry in entries}
        self.link = (self.build / "CMakeFiles" / "ms_ascend_ops.dir" / "link.txt").read_text().strip()

    def make(self, mutant: Mutation, folder: Path) -> dict[str, str]:
        """The kernel library with this mutation: one translation unit compiled anew, linked with the others."""
        kernels = folder / "kernels"
        shutil.copytree(self.source / "kernels", kernels, ignore=shutil.ignore_patterns("__pycache__"))
        mutant.write(self.source, kernels / mutant.file)
        command = shlex.split(self.commands[f"{mutant.op}_host.cpp"].replace(f"{self.source}/kernels", str(kernels)))
        library = folder / "libms_ascend_ops.so"
        link = shlex.split(self.link)
        link[link.index("-o") + 1] = str(library)
        mutation.compile_and_link([*command, "-O0"], link, folder, self.build)
        return {"LD_PRELOAD": str(library)}  # taken instead of the one beside _C: they have the same name


@click.command()
@click.option("--only", default="", help="Mutations whose description, file or expected rule holds this text.")
@click.option("--jobs", default=2, show_default=True, help="Mutants at a time.")
def main(only: str, jobs: int) -> None:
    """Run the mutation suite and print its score."""
    source = Path(os.environ["MS_ASCEND_OPS_SOURCE"])
    cases, every = mutation.load(LIST)
    chosen = mutation.choose(every, only, source)
    workshop = Workshop(source)
    stage, mutants = workshop.build / "stage", workshop.build / "mutants"
    mutation.check_cases(chosen, cases, stage, jobs)
    mutation.report(chosen, lambda m: mutation.run(m, mutants, workshop.make, cases[m.cases], stage), jobs)


if __name__ == "__main__":
    main()
