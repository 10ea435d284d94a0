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
