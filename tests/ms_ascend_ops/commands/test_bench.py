import json
import subprocess
import sys

from click.testing import CliRunner
from ms_ascend_ops.benchmarks.providers import PROVIDERS

from ms_ascend_ops.__main__ import COMMANDS, main
from ms_ascend_ops.commands.bench import MEASURED


def test_help_lists_every_command():
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert all(name in result.output for name in COMMANDS)


def test_every_command_has_help():
    for name in COMMANDS:
        result = CliRunner().invoke(main, [name, "--help"])
        assert result.exit_code == 0
        assert result.output.startswith("Usage: ")


def test_an_unknown_operator_is_named():
    result = CliRunner().invoke(main, ["bench", "--ops", "nothing"])
    assert result.exit_code == 2
    assert "got nothing" in result.output


def test_help_names_every_provider():
    assert list(MEASURED) == [name for name, provider in PROVIDERS.items() if not provider.is_copy]


def bench(*arguments):
    """In a process of its own: the command fixes the CPUs and threads of its process."""
    command = [sys.executable, "-m", "ms_ascend_ops", "bench", "--quick", "--ops", "silu_mul", "--dtypes", "float32"]
    command += ["--providers", "library", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_compare_and_gate(tmp_path):
    """Against runs with impossible times, so that the outcome does not depend on the machine."""
    path = tmp_path / "new.json"
    done = bench("--shapes", "3x33", "--json", path, "--plot", tmp_path / "b.png", "--roofline", tmp_path / "r.png")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "b.png").stat().st_size > 1000
    assert (tmp_path / "r.png").stat().st_size > 1000
    run = json.loads(path.read_text())
    for time, code, message in [
        (1e9, 0, "gate: nothing is slower by more than 10%"),
        (1e-9, 1, "Error: slower by more than 10%:\n  silu_mul float32 3x33: ours, direct takes"),
    ]:
        run["cases"][0]["providers"]["library"]["median_us"] = time
        path.write_text(json.dumps(run))
        done = bench("--shapes", "3x33", "--compare", path, "--gate")
        assert done.returncode == code, done.stderr
        assert "Against the old run" in done.stdout
        assert message in done.stdout + done.stderr


def test_an_old_run_that_is_none(tmp_path):
    path = tmp_path / "old.json"
    path.write_text("{}")
    result = CliRunner().invoke(main, ["bench", "--compare", str(tmp_path / "missing.json")])
    assert result.exit_code == 2
    done = bench("--compare", path)
    assert done.returncode == 1
    assert "is no result of `bench --json`" in " ".join(done.stderr.split())
