"""Runs the command line: `ms-ascend-ops --help`, or `python -m ms_ascend_ops --help`."""

from __future__ import annotations

from ms_ascend_ops.entry import begin, run

if __name__ == "__main__":
    begin()  # before the imports

import click

from ms_ascend_ops.commands.group import LazyGroup
from ms_ascend_ops.scratch import failed_graphs_apart
from ms_ascend_ops.version import __version__

COMMANDS = {
    "bench": "Measure the operators on this CPU against memcpy, stock MindSpore and PyTorch.",
    "bench-networks": "Measure whole networks on this CPU: stock operators, fused ones, and the ceiling.",
    "bundle": "Pack a MindIR, its parameters and a manifest into one file.",
    "certify": "Examine operators by all rules of acceptance, and write the certificate.",
    "convert": "Write an ONNX file as MindIR.",
    "debug": "Find where two networks, MindIRs or dumps begin to differ.",
    "doctor": "Check that MindSpore, NumPy, the libraries, CANN and the environment fit together.",
    "emulate": "Run a program on an emulated Ascend device, with MindSpore's own Ascend backend.",
    "explain": "Say how an operator is split and scheduled for a shape on a chip, and why.",
    "infer": "Run a MindIR or a bundle, save the outputs, measure it.",
    "llm": "Run, measure and convert language models of the LLaMA family.",
    "new": "Write the files of a new operator: a working example to start from.",
    "operators": "List the operators, or renew their table in docs/operators.md.",
    "optimize": "Put fused operators into a MindIR, and report what was replaced.",
    "profile": "Predict how long a kernel takes on an Ascend chip, and why.",
    "run": "Run a script that was written for an NPU on a CPU.",
    "serve": "Serve networks over the Open Inference Protocol, language models over OpenAI's API.",
}


@click.command(
    cls=LazyGroup,
    package="ms_ascend_ops.commands",
    table=COMMANDS,
    root=True,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, prog_name="ms_ascend_ops")
@click.pass_context
def main(context: click.Context) -> None:
    """Fused operators for MindSpore on Ascend NPUs and CPUs."""
    if context.invoked_subcommand not in ("emulate", "run"):  # programs of the user's
        context.with_resource(failed_graphs_apart())


if __name__ == "__main__":
    run(name="python -m ms_ascend_ops")
