"""Defines `llm`: language models. `commands/llm/<name>.py` holds the click command `<name>`."""

from __future__ import annotations

import click

from ms_ascend_ops.commands.group import LazyGroup

__all__ = ["llm"]

COMMANDS = {
    "bench": "Measure tokens a second, of prompts and of answers.",
    "chat": "Talk to a model.",
    "convert": "Write a model as a directory of safetensors, or as a bundle.",
    "finetune": "Train a model further: LoRA or all weights.",
    "generate": "Continue a text.",
    "quantize": "Write a model with rounded weights, of 4 or 8 bits.",
    "predict": "Predict tokens a second on an Ascend chip, stock and fused.",
    "perplexity": "Say how well a model predicts a text.",
}


@click.command(cls=LazyGroup, package="ms_ascend_ops.commands.llm", table=COMMANDS)
def llm() -> None:
    """Run language models of the LLaMA family: a GGUF file, a directory with config.json and safetensors, a bundle."""
