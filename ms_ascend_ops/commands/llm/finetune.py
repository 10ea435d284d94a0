"""Defines `llm finetune`, which trains a model further."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

import click

from ms_ascend_ops.commands.errors import need_extra, reported
from ms_ascend_ops.commands.llm.options import MODEL
from ms_ascend_ops.commands.llm.processes import on_processes, speak_for_all

__all__ = ["finetune"]


@click.command()
@click.argument("model", type=MODEL)
@click.argument("data", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--output", type=click.Path(path_type=Path), required=True, help="The directory to write.")
@click.option(
    "--method", type=click.Choice(["lora", "full"]), default="lora",
    help="Small factors beside the weights, which are written as an adapter; or all weights, written as a model.",
)  # fmt: skip
@click.option("--rank", type=click.IntRange(1), default=8, help="Of LoRA's factors.")
@click.option("--alpha", type=click.FloatRange(0, min_open=True), default=16.0, help="LoRA adds alpha / rank of them.")
@click.option(
    "--targets", default="q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj",
    help="The layers that get factors, with commas between.",
)  # fmt: skip
@click.option(
    "--weights", type=click.Choice(["quantized", "float"]), default="quantized",
    help="With lora: keep the matrices that the file has quantized, or make floats of them.",
)  # fmt: skip
@click.option("--length", type=click.IntRange(2), default=512, help="Tokens of an example at most.")
@click.option("--batch", type=click.IntRange(1), default=8, help="Examples of a step, of all processes together.")
@click.option("--micro-batch", type=click.IntRange(1), default=4, help="Examples at once in a process.")
@click.option("--epochs", type=click.FloatRange(0, min_open=True), default=1.0, help="How often to see each example.")
@click.option("--steps", type=click.IntRange(1), help="In the place of --epochs: how many steps.")
@click.option("--learning-rate", type=click.FloatRange(0), help="Default: 2e-4 with lora, 2e-5 with full.")
@click.option("--warmup", type=click.IntRange(0), default=0, help="Steps until that; then it falls as a cosine.")
@click.option("--weight-decay", type=click.FloatRange(0), default=0.0, help="Of AdamW.")
@click.option("--clip", type=click.FloatRange(0), default=1.0, help="The norm of the gradient at most; 0: any.")
@click.option("--seed", type=int, default=0, help="Of the order of examples, and of LoRA's factors.")
@click.option("--threads", type=click.IntRange(1, 256), help="Of a process. Default: one a CPU.")
@click.option(
    "--data-parallel", type=click.IntRange(1, 1024), default=1, metavar="N",
    help="Processes that share each batch; starts them by msrun, unless it was msrun that started this one.",
)  # fmt: skip
def finetune(  # noqa: PLR0915 - the names of a run, in order
    model: Path, data: Path, output: Path, method: str, rank: int, alpha: float, targets: str, weights: str,
    length: int, batch: int, micro_batch: int, epochs: float, steps: int | None, learning_rate: float | None,
    warmup: int, weight_decay: float, clip: float, seed: int, threads: int | None, data_parallel: int,
) -> None:  # fmt: skip
    """Train MODEL further on the examples of DATA, and write an adapter or a model. AdamW, float32.

    DATA is a text, or ends with .jsonl and has an object in each line: {"messages": [...]}, of which the answers are
    learnt by the model's chat template, {"prompt", "completion"}, or {"text"}.

    The adapter is a directory as Hugging Face's PEFT has it: `llm generate --adapter` and `llm convert --adapter` take
    it. It is not there before everything is written. Control-C ends the run behind its present step, and
    keeps what was learned in OUTPUT.kept: the same command goes on from there, to the same result.
    """
    need_extra("llm")
    if on_processes(data_parallel):
        return
    with reported():
        from ms_ascend_ops.llm.checkpoint_text import load_template, load_tokenizer
        from ms_ascend_ops.llm.checkpoints import open_checkpoint
        from ms_ascend_ops.llm.checkpoints.writer import check_target
        from ms_ascend_ops.llm.finetune.adapter import Lora
        from ms_ascend_ops.llm.finetune.data import read_examples
        from ms_ascend_ops.llm.model import is_bundle
        from ms_ascend_ops.llm.parallel import check_job, join

        check_target(output)
        if is_bundle(model):
            raise click.UsageError("a bundle cannot be trained: give the file or directory that it was made of")
        lora = Lora(rank, alpha, targets.split(",")) if method == "lora" else None
        checkpoint = open_checkpoint(model)
        length = min(length, checkpoint.config.context)
        tokenizer = load_tokenizer(checkpoint)
        end = checkpoint.config.end_tokens[0] if checkpoint.config.end_tokens else None
        examples = read_examples(data, tokenizer, load_template(checkpoint, tokenizer), length, end)
        if data_parallel > batch:
            raise click.UsageError(f"--batch must be at least {data_parallel}, an example for each process")
        if data_parallel > 1:
            check_job(data_parallel, "data parallel")  # before MindSpore is imported, which takes seconds
        group = join(data_parallel, "data parallel") if data_parallel > 1 else None
        if group is not None:
            speak_for_all(group.rank)

        # Import MindSpore from here on.
        from ms_ascend_ops.library import set_num_threads
        from ms_ascend_ops.llm.finetune.kept import Kept
        from ms_ascend_ops.llm.finetune.network import TrainedNetwork
        from ms_ascend_ops.llm.finetune.training import Step, Training, train
        from ms_ascend_ops.llm.finetune.writing import write

        if threads is None and data_parallel > 1:
            threads = max(1, len(os.sched_getaffinity(0)) // data_parallel)
        if threads is not None:
            set_num_threads(threads)
        settings = Training(
            steps or max(1, round(epochs * len(examples) / batch)), batch, micro_batch,
            (2e-4 if lora else 2e-5) if learning_rate is None else learning_rate, warmup, weight_decay, clip, seed,
        )  # fmt: skip
        network = TrainedNetwork(checkpoint, lora, weights == "quantized", seed, length)
        count = sum(parameter.size for parameter in network.learning())
        click.echo(
            f"{model.name}: {len(examples)} examples, {settings.steps} steps of {batch}; {count:,} numbers learn"
        )

        def on_step(number: int, step: Step) -> None:
            rate = step.tokens / step.seconds
            click.echo(
                f"step {number + 1:>5}  loss {step.loss:.4f}  gradient {step.norm:.3g}  rate {step.rate:.2e}  "
                f"{rate:.{0 if rate >= 10 else 1}f} tokens/s"
            )

        tokens = [(list(one.tokens), list(one.labels)) for one in examples]
        kept = Kept(output.with_name(f"{output.name}.kept"), [str(model.resolve()), lora, weights, settings, tokens])
        if group is None and kept.path.exists():
            click.echo(f"going on from {kept.path}")
        with kept.listening() if group is None else nullcontext():
            train(network, examples, settings, group, on_step, kept if group is None else None)
        if group is None or group.rank == 0:
            size = write(network, checkpoint, output, lora)
            click.echo(f"{output}: {size / 2**20:.1f} MiB of {'factors' if lora else 'weights'}")
            kept.path.unlink(missing_ok=True)
            use = f"{model} --adapter {output}" if lora else f"{output}"
            click.echo(f"Run it with: python -m ms_ascend_ops llm generate {use} --prompt 'Once upon a time'")
