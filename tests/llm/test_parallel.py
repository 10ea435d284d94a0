"""A network cut into parts: which part of a layer goes where, and the parts together against a decoder in float64."""

from dataclasses import replace
from threading import Barrier, Thread

import numpy as np
import pytest

from ms_ascend_ops.llm.checkpoints import open_checkpoint
from ms_ascend_ops.llm.executor import Chunk, ProgramExecutor
from ms_ascend_ops.llm.model import LanguageModel
from ms_ascend_ops.llm.network import load_network
from ms_ascend_ops.llm.parallel import partition, shares
from tests.llm import packed, reference, tiny
from tests.llm.test_network import close, ids


class Threads:
    """Stands for a group of processes: threads of this one."""

    def __init__(self, size):
        self.size, self.barrier, self.parts = size, Barrier(size, timeout=60), {}

    def member(self, rank):
        return _Member(self, rank)


class _Member:
    def __init__(self, threads, rank):
        self.threads, self.rank, self.size = threads, rank, threads.size

    def _all(self, array):
        self.threads.parts[self.rank] = np.array(array, np.float32)
        self.threads.barrier.wait()
        parts = [self.threads.parts[rank] for rank in range(self.size)]
        self.threads.barrier.wait()
        return parts

    def summed(self, ops, x):
        return ops.in_place(self.add_up, x)

    def add_up(self, array):
        array[...] = sum(self._all(array))

    def joined(self, part, count):
        return np.concatenate(self._all(part), -1)


def logits(checkpoint, size, tokens, quantized=False):
    """Of every process, behind a prompt in one step and then behind one more token."""
    threads, results = Threads(size), {}

    def work(rank):
        member = threads.member(rank)
        part = partition(checkpoint, rank, size, quantized)
        runs = ProgramExecutor(load_network(checkpoint, np.float32, quantized, "none", part, member), 8, 64)
        runs.step([Chunk(tokens[:-1], 0, [0, 1])])
        results[rank] = runs.step([Chunk(tokens[-1:], len(tokens) - 1, [0, 1])])[0]

    workers = [Thread(target=work, args=(rank,), daemon=True) for rank in range(size)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert len(results) == size
    return [results[rank] for rank in range(size)]


# Parts that are equal; 3 key heads for 2 processes; more processes than key heads; biases, norms of heads.
@pytest.mark.parametrize(
    ("config", "size"),
    [
        (tiny.VARIANTS["llama"], 2),
        (replace(tiny.CONFIG, heads=6, key_heads=3), 2),
        (tiny.VARIANTS["mistral"], 4),
        (replace(tiny.VARIANTS["qwen2"], output_bias=True, architecture="llama"), 2),
        (tiny.VARIANTS["qwen3"], 2),
    ],
)
def test_together(tmp_path, config, size):
    weights = tiny.random_weights(config)
    checkpoint = open_checkpoint(tiny.write_directory(tmp_path / "m", config, weights))
    tokens = ids(21)
    expected = reference.logits(config, tiny.doubles(weights), tokens)[-1]
    for result in logits(checkpoint, size, tokens):
        close(result, expected)


def test_quantized(tmp_path):
    """GGUF reads parts of blocks, and of the pairs that it keeps alternating."""
    config = replace(tiny.CONFIG, head_size=32, heads=6, key_heads=3)
    checkpoint = open_checkpoint(tiny.write_gguf(tmp_path / "m.gguf", config, kind="Q4_1"))
    weights = {name: checkpoint.array(name).astype(np.float64) for name in checkpoint.shapes}
    tokens = ids(9)
    expected = reference.logits(config, weights, tokens)[-1]
    for result in logits(checkpoint, 2, tokens, quantized=True):
        np.testing.assert_allclose(result, expected, rtol=0, atol=5e-3 * np.abs(expected).max())


@pytest.mark.parametrize("kind", ["F32", "Q8_0", "Q4_0"])
def test_parts_of_a_file(tmp_path, kind):
    checkpoint = open_checkpoint(tiny.write_gguf(tmp_path / "m.gguf", kind=kind))
    for name, rows, columns in (
        ("self_attn.q_proj", slice(16, 48), slice(None)),
        ("mlp.down_proj", slice(None), slice(32, 96)),
    ):
        weight = f"model.layers.1.{name}.weight"
        part = checkpoint.array(weight, np.float32, rows, columns)
        np.testing.assert_array_equal(part, checkpoint.array(weight)[rows, columns])
    if kind != "F32":
        with pytest.raises(ValueError, match=r"blk.1.ffn_down.weight: columns 16 to 96 would cut a group of 32"):
            checkpoint.array("model.layers.1.mlp.down_proj.weight", np.float32, slice(None), slice(16, 96))


def test_shares():
    assert shares(10, 3) == [slice(0, 4), slice(4, 7), slice(7, 10)]
    assert shares(96, 2, 32) == [slice(0, 64), slice(64, 96)]


def test_groups_stay_whole(tmp_path):
    """o_proj has groups of 64 columns, four heads of 16: two key heads of four."""
    config = replace(tiny.CONFIG, heads=8, key_heads=4, hidden=64, feed_forward=128)
    tensors, _ = packed.model(tiny.random_weights(config), lambda name, weight: packed.awq(name, weight, 64))
    settings = {"quant_method": "awq", "bits": 4, "group_size": 64, "version": "gemm"}
    checkpoint = open_checkpoint(tiny.write_directory(tmp_path / "m", config, tensors, quantization_config=settings))
    part = partition(checkpoint, 1, 2, quantized=True)
    assert (part.key_heads, part.heads, part.feed_forward) == (slice(2, 4), slice(4, 8), slice(64, 128))
    with pytest.raises(ValueError, match="4 key heads cannot be divided among 3 processes: o_proj is quantized in"):
        partition(checkpoint, 0, 3, quantized=True)
    assert partition(checkpoint, 0, 3).key_heads == slice(0, 2)


def test_refused(tmp_path, monkeypatch):
    path = tiny.write_directory(tmp_path / "m")
    checkpoint = open_checkpoint(path)
    with pytest.raises(ValueError, match="4 heads that share 2 keys cannot be divided among 3 processes"):
        partition(checkpoint, 0, 3)
    with pytest.raises(RuntimeError, match="this process must be one of 2 that msrun started"):
        LanguageModel.from_file(path, tensor_parallel=2)
    monkeypatch.setenv("MS_ROLE", "MS_WORKER")
    monkeypatch.setenv("MS_WORKER_NUM", "4")
    with pytest.raises(ValueError, match=r"msrun must start 2 processes, got 4 \(--worker_num\)"):
        LanguageModel.from_file(path, tensor_parallel=2)
