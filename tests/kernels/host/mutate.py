"""Seeds bugs into copies of the host layer's sources and counts how many the tests catch.

On the build of the source tree, where loops are compiled. Of each mutant one source is compiled, for host_calls or for
the kernel library.
"""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import click

from tests.kernels import mutation
from tests.kernels.host import module
from tests.kernels.mutation import CRASH, VALUE, Mutation

LIST = Path(__file__).parent / "mutations.yaml"
CAUGHT = (VALUE, CRASH)
LIBRARY = ("library", "panels", "groups", "sparse")  # cases that launch operators: by the kernel library


class Workshop:
    """Builds mutants beside the build of the source tree."""

    def __init__(self) -> None:
        self.host_calls = module.build()
        entries = json.loads((module.BUILD / "compile_commands.json").read_text())
        self.commands = {entry["file"]: entry["command"] for entry in entries}

    def make(self, mutant: Mutation, folder: Path) -> dict[str, str]:
        """One source compiled anew, and linked with the others into what the cases run."""
        source = module.ROOT / "kernels" / (mutant.unit or mutant.file)
        copy = folder / mutant.file
        mutant.write(module.ROOT, copy)
        command = shlex.split(self.commands[str(source)])
        if mutant.unit:  # its headers are named from this folder on
            command[1:1] = ["-I", str(folder / "host")]
        else:
            command[command.index(str(source))] = str(copy)
        target = "ms_ascend_ops" if mutant.cases in LIBRARY else "host_calls"
        link = shlex.split((module.BUILD / "CMakeFiles" / f"{target}.dir" / "link.txt").read_text().strip())
        result = folder / Path(link[link.index("-o") + 1]).name
        link[link.index("-o") + 1] = str(result)
        mutation.compile_and_link([*command, "-O1"], link, folder, module.BUILD)
        return {"LD_PRELOAD" if mutant.cases in LIBRARY else "MS_ASCEND_OPS_HOST_CALLS": str(result)}


def load() -> tuple[dict[str, list[str]], list[Mutation]]:
    """The list. The tests that catch a mutant say what is wrong, or it crashes."""
    return mutation.load(LIST, CAUGHT)


@click.command()
@click.option("--only", default="", help="Mutations whose description or file holds this text.")
@click.option("--jobs", default=2, show_default=True, help="Mutants at a time.")
def main(only: str, jobs: int) -> None:
    """Run the mutation suite and print its score."""
    cases, every = load()
    chosen = mutation.choose(every, only, module.ROOT)
    workshop = Workshop()
    os.environ["MS_ASCEND_OPS_HOST_CALLS"] = str(workshop.host_calls)
    mutation.check_cases(chosen, cases, module.ROOT, jobs)
    mutants = module.BUILD / "mutants"
    mutation.report(chosen, lambda m: mutation.run(m, mutants, workshop.make, cases[m.cases], module.ROOT), jobs)


if __name__ == "__main__":
    main()
