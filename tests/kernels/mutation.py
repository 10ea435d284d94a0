"""Seeded bugs: changes of text in copies of sources, and what notices them. For `bash build.sh check --mutations`.

checked/mutate.py seeds them into kernels, which run on the checked build; host/mutate.py into the host layer.
"""

from __future__ import annotations

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import click
import yaml

from tests import cover

VIOLATION_STATUS = 99
TIMEOUT_SECONDS = 1200  # many times what cases take, as the machine may be busy
FAILED = 1  # what pytest exits with when a test fails
NOTHING, VALUE, CRASH, TIMEOUT, ERROR = "nothing", "value", "crash", "timeout", "error"


@dataclass(frozen=True)
class Mutation:
    """One change of text in one file of kernels/."""

    bug: str
    file: str
    cases: str
    old: str
    new: str
    caught: tuple[str, ...]
    op: str = ""  # whose kernels are compiled with it
    unit: str = ""  # the source that is compiled with it, if it is in a header

    def count(self, source: Path) -> int:
        """How often the text stands in the file."""
        return (source / "kernels" / self.file).read_text().count(self.old)

    def write(self, source: Path, path: Path) -> None:
        """The file with the bug."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((source / "kernels" / self.file).read_text().replace(self.old, self.new))


@dataclass(frozen=True)
class Outcome:
    """What noticed the mutation: a rule of the checked build, a test of values, a crash, or nothing."""

    mutation: Mutation
    by: str
    detail: str = ""

    @property
    def expected(self) -> bool:
        """Whether it was noticed by what the list says."""
        return self.by in self.mutation.caught


def load(path: Path, caught: tuple[str, ...] = ()) -> tuple[dict[str, list[str]], list[Mutation]]:
    """Read a list of mutations. `caught`: by what, where the list does not say."""
    content = yaml.safe_load(path.read_text())
    mutations = []
    for entry in content["mutations"]:
        by = entry.get("caught", caught)
        mutations.append(Mutation(**{**entry, "caught": (by,) if isinstance(by, str) else tuple(by)}))
    return content["cases"], mutations


def expand(case: str) -> list[str]:
    """What pytest takes for `file`, `file::test[case]`, or `file::test[beginning`: all cases that begin so."""
    path, _, test = case.partition("::")
    if "[" not in test or test.endswith("]"):
        return [case]
    name, _, beginning = test.partition("[")
    module = import_module(path.removesuffix(".py").replace("/", "."))
    return [f"{path}::{name}[{id}]" for id in cover.ids_of(getattr(module, name)) if id.startswith(beginning)]


def compile_and_link(compile_command: list[str], link_command: list[str], folder: Path, cwd: Path) -> None:
    """Compiles one object into the folder, and links the target with it in place of the one that it was."""
    built = folder / "mutant.o"
    original = compile_command[compile_command.index("-o") + 1]
    compile_command[compile_command.index("-o") + 1] = str(built)
    _run([*compile_command, "-w"], cwd)
    link_command.remove(original)
    # Before the others: of an inline function that several hold, the linker takes the first.
    link_command.insert(link_command.index("-o"), str(built))
    _run(link_command, cwd)


def _run(command: list[str], cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise click.ClickException(f"does not compile: {done.stderr[:1000]}")


def run_cases(mutation: Mutation, cases: list[str], cwd: Path, variables: dict[str, str]) -> Outcome:
    """Runs cases, until one notices."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--capture=sys", "-p", "no:cacheprovider", "-p", "no:xdist"]
    try:
        done = subprocess.run(
            [*command, *(id for case in cases for id in expand(case))],
            cwd=cwd, env=os.environ | variables, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Outcome(mutation, TIMEOUT)
    rule = re.search(r"breaks the rule ([a-z-]+)", done.stderr)
    if done.returncode == VIOLATION_STATUS and rule:
        place = re.search(r"(\S+:\d+: \w+) on core", done.stderr)
        return Outcome(mutation, rule[1], place[1] if place else "")
    if done.returncode == FAILED and re.search("AssertionError|DID NOT RAISE", done.stdout):
        test = re.search(r"^FAILED (\S+)", done.stdout, re.MULTILINE)
        return Outcome(mutation, VALUE, test[1] if test else "")
    if done.returncode < 0:
        return Outcome(mutation, CRASH)
    if done.returncode == 0:
        return Outcome(mutation, NOTHING)
    return Outcome(mutation, f"status {done.returncode}", (done.stdout + done.stderr)[-400:])


def run(
    mutation: Mutation, folder: Path, build: Callable[[Mutation, Path], dict[str, str]], cases: list[str], cwd: Path
) -> Outcome:
    """Builds a mutant in a folder of its own and tests it. `build` returns the variables with which it runs."""
    mutant = folder / re.sub(r"\W+", "-", mutation.bug)
    shutil.rmtree(mutant, ignore_errors=True)
    mutant.mkdir(parents=True)
    try:
        return run_cases(mutation, cases, cwd, build(mutation, mutant))
    except click.ClickException as error:
        return Outcome(mutation, ERROR, error.message)
    finally:
        shutil.rmtree(mutant, ignore_errors=True)


def choose(mutations: list[Mutation], only: str, source: Path) -> list[Mutation]:
    """Those with the text in them; all of them must fit the sources."""
    chosen = [m for m in mutations if any(only in text for text in (m.bug, m.file, m.op, *m.caught))]
    stale = [m for m in chosen if m.count(source) != 1]
    if stale:
        lines = "\n".join(f"  {m.file}: {m.bug}: {m.count(source)} times: {m.old!r}" for m in stale)
        raise click.ClickException(f"the old text must stand in its file exactly once:\n{lines}")
    return chosen


def check_cases(chosen: list[Mutation], cases: dict[str, list[str]], cwd: Path, jobs: int) -> None:
    """What is not mutated must pass."""
    first = {m.cases: m for m in reversed(chosen)}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for outcome in pool.map(lambda m: run_cases(m, cases[m.cases], cwd, {}), first.values()):
            if outcome.by != NOTHING:
                name = outcome.mutation.cases
                raise click.ClickException(f"{name}: the cases fail without a mutation: {outcome.by} {outcome.detail}")


def report(chosen: list[Mutation], test: Callable[[Mutation], Outcome], jobs: int) -> None:
    """Tests them all, prints the score, and ends the process."""
    outcomes = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for outcome in pool.map(test, chosen):
            outcomes.append(outcome)
            mark = "caught " if outcome.by not in (NOTHING, ERROR) else "MISSED "
            surprise = "" if outcome.expected else f" (expected {' or '.join(outcome.mutation.caught)})"
            click.echo(f"{mark} {outcome.by:18} {outcome.mutation.file}: {outcome.mutation.bug}{surprise}")
            if not outcome.expected and outcome.detail:
                click.echo(f"        {outcome.detail}")
    click.echo("\ncaught by             mutations")
    for by, count in Counter(outcome.by for outcome in outcomes).most_common():
        click.echo(f"{by:18} {count:12}")
    good = sum(outcome.expected for outcome in outcomes)
    click.echo(f"\n{good} of {len(outcomes)} mutations were caught by what should catch them.")
    sys.exit(0 if good == len(outcomes) else 1)
