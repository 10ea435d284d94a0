"""`llm`: language models. `commands/llm/<name>.py` holds the click command `<name>`."""

from __future__ import annotations

from importlib import import_module

import click

__all__ = ["llm"]

COMMANDS = {
    "bench": "Measure tokens a second, of prompts and of answers.",
    "chat": "Talk to a model.",
    "convert": "Write a model as a directory of safetensors, or as a bundle.",
    "finetune": "Train a model further: LoRA or all weights.",
    "generate": "Continue a text.",
    "quantize": "Write a model with smaller weights.",
    "predict": "Predict tokens a second on an Ascend chip, stock and fused.",
    "perplexity": "Say how well a model predicts a text.",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"ms_ascend_ops.commands.llm.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.command(cls=_Commands)
def llm() -> None:
    """Run language models of the LLaMA family: a GGUF file, a directory with config.json and safetensors, a bundle."""
