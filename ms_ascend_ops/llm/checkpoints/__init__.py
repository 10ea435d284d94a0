"""Reads checkpoints of several formats, each as a `Checkpoint`."""

from __future__ import annotations

from pathlib import Path

from ms_ascend_ops.llm.checkpoints.checkpoint import Checkpoint

__all__ = ["Checkpoint", "open_checkpoint"]


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Open a GGUF file, or a directory with config.json and safetensors.

    Args:
        path: the file or directory.

    Raises:
        FileNotFoundError: there is neither.
        ValueError: it cannot be read; the message names the file and what is wrong with it.
    """
    path = Path(path)
    if path.is_dir():
        from ms_ascend_ops.llm.checkpoints.hugging_face import read_directory  # noqa: PLC0415

        return read_directory(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file or directory")
    from ms_ascend_ops.llm.checkpoints.gguf_reader import read_gguf  # noqa: PLC0415

    return read_gguf(path)
