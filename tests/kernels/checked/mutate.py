"""Seeds bugs into copies of the kernels and counts how many the checked build or a test of values catches.

Run by `bash build.sh check --mutations`, in the staged copy of the checked build.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import click
import yaml

VIOLATION_STATUS = 99
TIMEOUT_SECONDS = 300
FAILED = 1  # what pytest exits with when a test fails


@dataclass(frozen=True)
class Mutation:
    """One change of text in one file of the kernels."""

    bug: str
    file: str
    op: str
    cases: str
    caught: tuple[str, ...]
    old: str
    new: str

    def count(self, source: Path) -> int:
        """How often the text stands in the file."""
        return (source / "kernels" / self.file).read_text().count(self.old)


@dataclass(frozen=True)
class Outcome:
    """What noticed the mutation: a rule, `value`, or nothing."""

    mutation: Mutation
    by: str
    detail: str = ""

    @property
    def expected(self) -> bool:
        """Whether it was noticed by what the list says."""
        return self.by in self.mutation.caught


def load() -> tuple[dict[str, list[str]], list[Mutation]]:
    """Read mutations.yaml."""
    content = yaml.safe_load((Path(__file__).parent / "mutations.yaml").read_text())
    mutations = []
    for entry in content["mutations"]:
        caught = entry["caught"]
        mutations.append(Mutation(**{**entry, "caught": (caught,) if isinstance(caught, str) else tuple(caught)}))
    return content["cases"], mutations


class Workshop:
    """Builds and runs mutants beside a checked build."""

    def __init__(self, source: Path, cases: dict[str, list[str]]) -> None:
        self.source = source
        self.build = source / "build" / "check"
        self.stage = self.build / "stage"
        self.cases = cases
        entries = json.loads((self.build / "compile_commands.json").read_text())
        self.commands = {Path(entry["file"]).name: entry["command"] for entry in entries}
        self.link = (self.build / "CMakeFiles" / "ms_ascend_ops.dir" / "link.txt").read_text().strip()

    def library(self, mutation: Mutation, folder: Path) -> Path:
        """The kernel library with this mutation: one translation unit compiled anew, linked with the others."""
        kernels = folder / "kernels"
        shutil.copytree(self.source / "kernels", kernels, ignore=shutil.ignore_patterns("__pycache__"))
        path = kernels / mutation.file
        path.write_text(path.read_text().replace(mutation.old, mutation.new))
        command = self.commands[f"{mutation.op}_host.cpp"].replace(f"{self.source}/kernels", str(kernels))
        arguments = shlex.split(command)
        target = folder / "kernel.o"
        original = arguments[arguments.index("-o") + 1]
        arguments[arguments.index("-o") + 1] = str(target)
        self._run([*arguments, "-O0", "-w"])
        library = folder / "libms_ascend_ops.so"
        link = shlex.split(self.link)
        link[link.index("-o") + 1] = str(library)
        link.remove(original)
        # Before the others: of an inline function that several hold, the linker takes the first.
        link.insert(link.index("-o"), str(target))
        self._run(link)
        return library

    def _run(self, command: list[str]) -> None:
        done = subprocess.run(command, cwd=self.build, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise click.ClickException(f"does not compile: {done.stderr[:1000]}")

    def test(self, mutation: Mutation, library: Path | None) -> Outcome:
        """Run the cases on the library; every one, until one notices."""
        environment = dict(os.environ)
        if library is not None:
            environment["LD_PRELOAD"] = str(library)  # taken instead of the one beside _C: they have the same name
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "--capture=sys",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
        ]
        try:
            done = subprocess.run(
                [*command, *self.cases[mutation.cases]],
                cwd=self.stage,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=TIMEOUT_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return Outcome(mutation, "timeout")
        rule = re.search(r"breaks the rule ([a-z-]+)", done.stderr)
        if done.returncode == VIOLATION_STATUS and rule:
            place = re.search(r"(\S+:\d+: \w+) on core", done.stderr)
            return Outcome(mutation, rule[1], place[1] if place else "")
        if done.returncode == FAILED and "AssertionError" in done.stdout:
            return Outcome(mutation, "value")
        if done.returncode == 0:
            return Outcome(mutation, "nothing")
        return Outcome(mutation, f"status {done.returncode}", (done.stdout + done.stderr)[-400:])

    def run(self, mutation: Mutation) -> Outcome:
        """Build and test one mutant."""
        folder = self.build / "mutants" / re.sub(r"\W+", "-", mutation.bug)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            return self.test(mutation, self.library(mutation, folder))
        except click.ClickException as error:
            return Outcome(mutation, "error", error.message)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@click.command()
@click.option("--only", default="", help="Mutations whose description, file or expected rule holds this text.")
@click.option("--jobs", default=2, show_default=True, help="Mutants at a time.")
def main(only: str, jobs: int) -> None:
    """Run the mutation suite and print its score."""
    source = Path(os.environ["MS_ASCEND_OPS_SOURCE"])
    cases, every = load()
    chosen = [m for m in every if any(only in text for text in (m.bug, m.file, m.op, *m.caught))]
    stale = [m for m in chosen if m.count(source) != 1]
    if stale:
        lines = "\n".join(f"  {m.file}: {m.bug}: {m.count(source)} times: {m.old!r}" for m in stale)
        raise click.ClickException(f"the old text must stand in its file exactly once:\n{lines}")
    workshop = Workshop(source, cases)
    for name in sorted({m.cases for m in chosen}):  # what is not mutated must pass
        first = next(m for m in chosen if m.cases == name)
        outcome = workshop.test(first, None)
        if outcome.by != "nothing":
            raise click.ClickException(f"{name}: the cases fail without a mutation: {outcome.by} {outcome.detail}")
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        outcomes = []
        for outcome in pool.map(workshop.run, chosen):
            outcomes.append(outcome)
            mark = "caught " if outcome.by not in ("nothing", "error") else "MISSED "
            surprise = "" if outcome.expected else f" (expected {' or '.join(outcome.mutation.caught)})"
            click.echo(f"{mark} {outcome.by:18} {outcome.mutation.file}: {outcome.mutation.bug}{surprise}")
            if outcome.by == "error" or outcome.by.startswith("status"):
                click.echo(f"        {outcome.detail}")
    score = Counter(outcome.by for outcome in outcomes)
    click.echo("\ncaught by             mutations")
    for by, count in score.most_common():
        click.echo(f"{by:18} {count:12}")
    good = sum(outcome.expected for outcome in outcomes)
    click.echo(f"\n{good} of {len(outcomes)} mutations were caught by what should catch them.")
    sys.exit(0 if good == len(outcomes) else 1)


if __name__ == "__main__":
    main()
