"""Runs the load test: `python -m ms_ascend_ops.benchmarks.serving`."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import threading
from pathlib import Path

import click
from ms_ascend_ops.benchmarks.serving import network, servers
from ms_ascend_ops.benchmarks.serving.clients import Load, Result, language_questions, network_questions, run_load


@click.command(context_settings={"show_default": True})
@click.option(
    "--server",
    type=click.Choice(["ours", "ours-stock", "ray", "ray-stock"]),
    default="ours",
    help="Who serves; stock: MindSpore's operators.",
)
@click.option("--seconds", type=click.FloatRange(1), default=60.0)
@click.option("--clients", type=click.IntRange(1), default=64)
@click.option("--replicas", type=click.IntRange(1), default=1, help="Of Ray.")
@click.option("--queue", type=click.IntRange(1), default=128, help="Of ours.")
@click.option("--language", type=click.Path(exists=True), help="A language model instead of the network.")
@click.option("--kill", is_flag=True, help="Kill a replica of Ray in the middle.")
def main(
    server: str, seconds: float, clients: int, replicas: int, queue: int, language: str | None, kill: bool
) -> None:  # fmt: skip
    """Load a server, check every answer, and print rates, latencies and memory. Exit code 1: an answer was wrong."""
    os.environ.setdefault("GLOG_v", "3")
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        free.close()
        questions = network_questions() if language is None else language_questions(language)
        model = Path(language) if language else network.write(Path(folder, "network"), server != "ours-stock")
        if server.startswith("ours"):
            options = ["--queue", str(queue)]
            options += ["--max-batch-size", "16"] if language is None else ["--weights", "float"]
            running = servers.ours(model, port, *options)
        else:
            running = servers.ray(model, port, replicas, server == "ray-stock")
        with running as processes:
            run_load(Load(port, questions, clients, min(5, seconds), kill))  # warm up
            memory = servers.Memory(processes)
            memory.start()
            if kill:
                threading.Timer(seconds / 2, os.kill, (processes[0], signal.SIGKILL)).start()
            result = run_load(Load(port, questions, clients, seconds, kill))
            click.echo("\n".join([*result.lines(), memory.line()]))
    raise SystemExit(int(bad(result)))


def bad(result: Result) -> bool:
    """Tell whether something happened that must not."""
    return bool(set(result.outcomes) - {"right", "429", "hung up", "retried"})


if __name__ == "__main__":
    main()
