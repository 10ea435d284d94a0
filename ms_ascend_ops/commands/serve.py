"""Defines `serve`: models as a service."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ms_ascend_ops.commands.group import ExistingPath

__all__ = ["serve"]

_FILE = ExistingPath(dir_okay=False, path_type=Path)


@click.command()
@click.argument("models", nargs=-1, metavar="[NAME=]MODEL...")
@click.option("--repository", type=click.Path(exists=True, file_okay=False, path_type=Path), help="A folder of models.")
@click.option("--load", "names", multiple=True, metavar="NAME", help="Of the repository, load only these; repeatable.")
@click.option("--host", default="127.0.0.1", help="Address to listen at; 0.0.0.0: all.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, help="Of HTTP; 0: a free one.")
@click.option("--grpc-port", type=click.IntRange(0, 65535), default=8001, help="Of gRPC; 0: a free one.")
@click.option("--no-grpc", is_flag=True, help="HTTP only.")
@click.option("--api-keys", type=_FILE, help="A file of keys, one a line: requests need one of them.")
@click.option("--admin-keys", type=_FILE, help="Of those who may load and unload models, too.")
@click.option(
    "--host-name",
    "hosts",
    multiple=True,
    help="A name of this server, for browsers without a key; several are allowed.",
)
@click.option("--tls-certificate", type=_FILE, help="PEM; with --tls-key: HTTPS, and gRPC with TLS.")
@click.option("--tls-key", type=_FILE, help="PEM.")
@click.option("--max-batch-size", type=click.IntRange(1), default=1, help="Rows of networks that run together at most.")
@click.option(
    "--batch-delay-ms", type=click.FloatRange(0, 10000), default=2.0, help="A request waits so long for others."
)
@click.option("--queue", type=click.IntRange(1), default=128, help="Requests of a model that wait at most; then 429.")
@click.option(
    "--timeout", type=click.FloatRange(0, min_open=True), default=60.0, help="Seconds of a request; then 504."
)
@click.option("--body-mib", type=click.IntRange(1, 2047), default=64, help="Largest body of a request; then 413.")
@click.option("--requests", type=click.IntRange(1), default=1024, help="Requests that may be there at once; then 429.")
@click.option("--count-operators", is_flag=True, help="Calls, seconds and bytes of operators in /metrics, too.")
@click.option(
    "--grace", type=click.FloatRange(0), default=30.0, help="Seconds to finish what runs, when it is stopped."
)
@click.option(
    "--dtype", type=click.Choice(["float32", "float16", "bfloat16"]), default="float32", help="Of language models."
)
@click.option("--weights", type=click.Choice(["quantized", "float"]), default="quantized", help="Of language models.")
@click.option("--context", type=click.IntRange(2), help="Most tokens of a sequence; default: the model's, to 4096.")
@click.option("--batch", type=click.IntRange(1), default=8, help="Sequences that are worked on at once.")
@click.option("--threads", type=click.IntRange(1, 256), help="Default: one a CPU.")
def serve(models: tuple[str, ...], **options: Any) -> None:
    """Serve bundles and MindIRs over the Open Inference Protocol, language models over OpenAI's API.

    A MODEL is a .msbundle, .mindir or .gguf file, a directory that holds one, or a directory of Hugging Face's; its
    name is that of the file or directory unless NAME= says another. Models of --repository can be loaded and unloaded
    while the server runs, in several versions. Options of networks and language models are for those whose config.yaml
    does not say another value.

    SIGTERM and SIGINT stop it: what was begun is finished within --grace.
    """
    os.environ.setdefault("GLOG_v", "3")  # MindSpore: errors only

    from ms_ascend_ops.commands.errors import need_extra, reported

    need_extra("serve")
    if not models and options["repository"] is None:
        raise click.UsageError("give a MODEL, or --repository")
    if (options["tls_certificate"] is None) != (options["tls_key"] is None):
        raise click.UsageError("--tls-certificate and --tls-key go together")

    from ms_ascend_ops.library import set_num_threads
    from ms_ascend_ops.serving.server import Endpoint, run
    from ms_ascend_ops.serving.settings import Settings

    if options["threads"] is not None:
        set_num_threads(options["threads"])
    own = ("max_batch_size", "batch_delay_ms", "queue", "dtype", "weights", "context", "batch")
    with reported():
        settings = Settings(
            repository=options["repository"],
            models=_named(models),
            load=options["names"] or None,
            defaults={**{name: options[name] for name in own}, "timeout_s": options["timeout"]},
            api_keys=_keys(options["api_keys"]),
            admin_keys=_keys(options["admin_keys"]),
            hosts=tuple(name.lower() for name in options["hosts"]),
            body_bytes=options["body_mib"] * 2**20,
            requests=options["requests"],
            count_operators=options["count_operators"],
        )
        endpoint = Endpoint(
            options["host"], options["port"], None if options["no_grpc"] else options["grpc_port"],
            options["tls_certificate"], options["tls_key"], options["grace"],
        )  # fmt: skip
        run(settings, endpoint)


def _named(models: tuple[str, ...]) -> dict[str, Path]:
    named: dict[str, Path] = {}
    for text in models:
        name, separator, path = text.partition("=")
        if not separator or os.path.exists(text):
            name, path = Path(text).resolve().stem, text
        if not os.path.exists(path):
            raise click.BadParameter(f"there is no file {path}", param_hint="MODEL")
        if name in named:
            raise click.UsageError(f"there are two models of the name {name}: give them others, NAME=MODEL")
        named[name] = Path(path)
    return named


def _keys(file: Path | None) -> tuple[str, ...]:
    if file is None:
        return ()
    keys = tuple(line.strip() for line in file.read_text("utf-8").splitlines() if line.strip())
    if not keys:
        raise click.UsageError(f"{file} holds no key")
    return keys
