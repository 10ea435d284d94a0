"""Reductions, fills, rearrangement, copies to and from global memory, scalar access, queues."""

import numpy as np
import pytest

from tests.kernels.host.memory import STORAGE, Memory, bits
from tests.kernels.host.module import host_calls, program

DST, SRC = 0, 8192
ANY = ["float32", "int32", "float16", "bfloat16"]


def numbers(dtype, count):
    return np.arange(1, count + 1).astype(STORAGE[dtype])


def as_bits(array):
    return np.ascontiguousarray(array).view(np.uint8)


def tree_sum(row):
    """64 lanes as a binary tree; absent ones count as 0."""
    lanes = np.zeros(64, np.float32)
    lanes[: row.size] = row
    while lanes.size > 1:
        lanes = lanes[: lanes.size // 2] + lanes[lanes.size // 2 :]
    return lanes[0]


@pytest.mark.parametrize("mask", [1, 7, 33, 64])
@pytest.mark.parametrize(("dst_stride", "src_stride"), [(1, 8), (2, 9), (8, 1)])
def test_whole_reduce_sum(mask, dst_stride, src_stride):
    values = np.random.default_rng(mask).standard_normal(2048).astype(np.float32)
    memory = Memory().put(SRC, values)
    memory.run(("reduce_sum", DST, SRC, mask, 9, dst_stride, src_stride))
    expected = [tree_sum(values[i * src_stride * 8 :][:mask]) for i in range(9)]
    result = memory.get(DST, 9 * dst_stride, "float32").reshape(9, dst_stride)
    assert np.array_equal(result[:, 0], expected)
    assert np.isnan(result[:, 1:]).all()


@pytest.mark.parametrize("mask", [1, 7, 33, 64])
@pytest.mark.parametrize(("dst_stride", "src_stride"), [(1, 8), (2, 9), (8, 1)])
def test_whole_reduce_max(mask, dst_stride, src_stride):
    values = np.random.default_rng(mask).standard_normal(2048).astype(np.float32)
    values[[3 * src_stride * 8 + mask - 1, 5 * src_stride * 8]] = np.inf, -np.inf
    values[6 * src_stride * 8 + mask // 2] = np.nan
    memory = Memory().put(SRC, values)
    memory.run(("reduce_max", DST, SRC, mask, 9, dst_stride, src_stride))
    expected = [np.max(values[i * src_stride * 8 :][:mask]) for i in range(9)]  # np.max of a NaN is NaN
    result = memory.get(DST, 9 * dst_stride, "float32").reshape(9, dst_stride)
    assert np.array_equal(result[:, 0], expected, equal_nan=True)
    assert np.isnan(result[:, 1:]).all()


@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("is_or", [False, True])
@pytest.mark.parametrize("count", [1, 16, 31, 128, 1001])
def test_bitwise(count, is_or, block):
    a, b = np.random.default_rng(count).integers(0, 2**16, (2, count + 16), np.uint16)
    memory = Memory().put(SRC, a).put(2 * SRC, b)
    memory.run(("bitwise", is_or, DST, SRC, 2 * SRC, count, block))
    other = np.resize(b[:16], count) if block else b[:count]
    expected = a[:count] | other if is_or else a[:count] & other
    assert np.array_equal(memory.ub[0][: 2 * count].view(np.uint16), expected)
    assert (memory.ub[0][2 * count : 2 * count + 64] == 0xFF).all()


@pytest.mark.parametrize("dtype", ANY)
def test_duplicate(dtype):
    for count in (1, 15, 64, 1001):
        memory = Memory()
        memory.run(("fill", dtype, DST, bits(-3, dtype), count))
        assert (memory.get(DST, count, dtype) == -3).all()
        assert (memory.ub[0][count * STORAGE[dtype].itemsize :] == 0xFF).all()


@pytest.mark.parametrize("dtype", ANY)
@pytest.mark.parametrize(("blk", "rep"), [(1, 8), (2, 16), (1, 10), (3, 30)])
def test_brcb(blk, rep, dtype):
    values, per_block = numbers(dtype, 24), 32 // STORAGE[dtype].itemsize
    memory = Memory().put(SRC, values)
    memory.run(("broadcast", dtype, DST, SRC, 3, blk, rep))
    blocks = memory.get(DST, 100 * per_block, dtype).reshape(100, per_block)
    at = np.array([repeat * rep + lane * blk for repeat in range(3) for lane in range(8)])
    assert (blocks[at] == values[:, None]).all()
    untouched = np.delete(blocks, at, axis=0)
    assert (as_bits(untouched) == 0xFF).all()


@pytest.mark.parametrize("dtype", ANY)
@pytest.mark.parametrize("pattern", [1, 2])
def test_gather_mask(pattern, dtype):
    for read in (1, 2, 63, 64, 501):
        values = numbers(dtype, read)
        memory = Memory().put(SRC, values)
        expected = values[pattern - 1 :: 2]
        assert memory.run(("pattern", dtype, DST, SRC, pattern, True, read, 1)) == [expected.size]
        assert np.array_equal(memory.get(DST, expected.size, dtype), expected)
        assert (memory.ub[0][expected.nbytes : expected.nbytes + 64] == 0xFF).all()


def test_gather_mask_by_repeats():
    values = numbers("float32", 256)
    memory = Memory().put(SRC, values)
    assert memory.run(("pattern", "float32", DST, SRC, 2, False, 0, 4)) == [128]
    assert np.array_equal(memory.get(DST, 128, "float32"), values[1::2])


@pytest.mark.parametrize("dtype", ANY)
def test_gather(dtype):
    size, rng = STORAGE[dtype].itemsize, np.random.default_rng(0)
    values, index = numbers(dtype, 500), rng.integers(0, 490, 301)
    memory = Memory().put(SRC, values).put(16384, (index * size).astype(np.uint32))
    memory.run(("gather", dtype, DST, SRC, 16384, 10 * size, 301, 500))
    assert np.array_equal(memory.get(DST, 301, dtype), values[index + 10])


@pytest.mark.parametrize("dtype", ["float32", "int32", "float16"])
@pytest.mark.parametrize(("dst_step", "src_step"), [(1, 1), (2, 1), (1, 3)])
@pytest.mark.parametrize("repeats", [0, 1, 5])
def test_trans_data_to_5hd(repeats, dst_step, src_step, dtype):
    """The 16 blocks of a list are the rows of a matrix; its columns follow each other in the destination."""
    per_block, dst_stride, src_stride = 32 // STORAGE[dtype].itemsize, 16 * dst_step, 16 * src_step
    if repeats == 1:
        dst_stride = src_stride = 0
    values = numbers(dtype, 80 * src_step * per_block)
    memory = Memory().put(SRC, values)
    memory.run(("transpose", dtype, DST, dst_step, SRC, src_step, repeats, dst_stride, src_stride))
    blocks = values.reshape(80, src_step, per_block)[: 16 * repeats, 0].reshape(repeats, 16, per_block)
    result = memory.get(DST, 80 * dst_step * per_block, dtype).reshape(80, dst_step, per_block)
    expected = blocks.transpose(0, 2, 1).reshape(-1, per_block)
    assert np.array_equal(result[: 16 * repeats, 0], expected)
    untouched = np.concatenate([result[16 * repeats :].ravel(), result[:, 1:].ravel()])
    assert (as_bits(untouched) == 0xFF).all()


def test_trans_data_to_5hd_once_begins_a_stride_further_on():
    """CANN's page of the instruction: with repeatTimes 1 the repeat strides are added to the lists."""
    values = numbers("float32", 17 * 8)
    memory = Memory().put(SRC, values)
    memory.run(("transpose", "float32", DST, 1, SRC, 1, 1, 2, 1))
    expected = values.reshape(17, 8)[1:].T.ravel()
    assert np.array_equal(memory.get(DST + 64, 128, "float32"), expected)
    assert (memory.ub[0][:64] == 0xFF).all()


@pytest.mark.parametrize("dtype", ANY)
def test_data_copy_drops_what_fills_no_block(dtype):
    per_block = 32 // STORAGE[dtype].itemsize
    values = numbers(dtype, 3 * per_block + 1)
    memory = Memory().put_gm(64, values)
    memory.run(("copy_in", dtype, DST, 64, values.size), ("copy_out", dtype, 4096, DST, 2 * per_block + 1))
    assert np.array_equal(memory.get(DST, 3 * per_block, dtype), values[:-1])
    assert (memory.ub[0][96:] == 0xFF).all()
    assert np.array_equal(memory.get_gm(4096, 2 * per_block, dtype), values[: 2 * per_block])
    assert (memory.gm[4096 + 64 :] == 0xFF).all()


@pytest.mark.parametrize(("src_gap", "dst_gap"), [(0, 0), (2, 0), (0, 3), (1, 2)])
def test_data_copy_blocks(src_gap, dst_gap):
    rows, length = 5, 3
    values = np.arange(rows * (length + src_gap) * 8, dtype=np.float32)
    for direction in ("in", "out"):
        memory = Memory()
        if direction == "in":
            memory.put_gm(0, values).run(("copy_in_blocks", "float32", DST, 0, (rows, length, src_gap, dst_gap)))
            result = memory.get(DST, rows * (length + dst_gap) * 8, "float32")
        else:
            memory.put(SRC, values).run(("copy_out_blocks", "float32", 0, SRC, (rows, length, src_gap, dst_gap)))
            result = memory.get_gm(0, rows * (length + dst_gap) * 8, "float32")
        result = result.reshape(rows, -1)
        assert np.array_equal(result[:, : length * 8], values.reshape(rows, -1)[:, : length * 8])
        assert np.isnan(result[:, length * 8 :]).all()


@pytest.mark.parametrize("dtype", ANY)
@pytest.mark.parametrize(("left", "right"), [(0, 0), (3, 0), (0, 5), (2, 1)])
@pytest.mark.parametrize("length", [1, 13, 16, 40])
def test_data_copy_pad_in(length, left, right, dtype):
    """Padding: `left` elements before each row, and after it all up to the end of the row's last block."""
    rows, gm_gap, ub_gap, size = 4, 3, 2, STORAGE[dtype].itemsize
    values = numbers(dtype, rows * (length + gm_gap))
    memory = Memory().put_gm(size, values)
    shape = (rows, length * size, gm_gap * size, ub_gap)
    memory.run(("copy_in_pad", dtype, DST, size, shape, True, (left, right, bits(-7, dtype))))
    padded = -(-(left + length + right) * size // 32) * 32
    result = memory.get(DST, rows * (padded + ub_gap * 32) // size, dtype).reshape(rows, -1)
    expected = np.full((rows, padded // size), -7).astype(STORAGE[dtype])
    expected[:, left : left + length] = values.reshape(rows, -1)[:, :length]
    assert np.array_equal(result[:, : padded // size], expected)
    assert (as_bits(result[:, padded // size :]) == 0xFF).all()


@pytest.mark.parametrize("dtype", ANY)
@pytest.mark.parametrize("length", [1, 13, 16, 40])
def test_data_copy_pad_out(length, dtype):
    """Only the rows' own bytes reach global memory."""
    rows, gm_gap, ub_gap, size = 4, 3, 2, STORAGE[dtype].itemsize
    stride = (-(-length * size // 32) + ub_gap) * 32 // size
    values = numbers(dtype, rows * stride)
    memory = Memory().put(SRC, values)
    memory.run(("copy_out_pad", dtype, size, SRC, (rows, length * size, ub_gap, gm_gap * size)))
    result = memory.get_gm(size, rows * (length + gm_gap), dtype).reshape(rows, -1)
    assert np.array_equal(result[:, :length], values.reshape(rows, -1)[:, :length])
    assert (as_bits(result[:, length:]) == 0xFF).all()


def test_copies_of_nothing():
    memory = Memory()
    memory.run(
        ("copy_in_blocks", "float32", 0, 0, (0, 4, 0, 0)),
        ("copy_out_blocks", "float32", 0, 0, (4, 0, 0, 0)),
        ("copy_in_pad", "float32", 0, 0, (0, 16, 0, 0), False, (0, 0, 0)),
        ("copy_out_pad", "float32", 0, 0, (0, 16, 0, 0)),
        ("binary", "Add", "float32", 0, 0, 0, 0),
        ("fill", "float32", 0, 0, 0),
    )
    assert (memory.ub == 0xFF).all()
    assert (memory.gm == 0xFF).all()


@pytest.mark.parametrize("dtype", ANY)
def test_pad_inserted_rows_are_read_by_instructions(dtype):
    """Rows with padding act as one long operand: what tiles of several short rows do."""
    values = numbers(dtype, 3 * 13)
    memory, size = Memory().put_gm(0, values), STORAGE[dtype].itemsize
    pad = (0, -(13 * size) % 32 // size, bits(0, dtype))
    stride = 13 + pad[1]
    calls = [("copy_in_pad", dtype, DST, 0, (3, 13 * size, 0, 0), True, pad)]
    if dtype == "bfloat16":
        calls.append(("cast", "float32", dtype, SRC, DST, 0, 3 * stride))
        dtype = "float32"
    else:
        calls.append(("binary", "Add", dtype, SRC, DST, DST, 3 * stride))
        values = values + values
    memory.run(*calls)
    result = memory.get(SRC, 3 * stride, dtype).reshape(3, stride)
    assert np.array_equal(result[:, :13].ravel(), values.astype(STORAGE[dtype]))
    assert (result[:, 13:] == 0).all()


def test_atomic_add_within_a_core():
    values = np.random.default_rng(0).standard_normal(100).astype(np.float32)
    memory = Memory().put(SRC, values).put_gm(0, np.ones(100, np.float32))
    copy = ("copy_out_pad", "float32", 0, SRC, (1, 400, 0, 0))
    memory.run(("atomic", True), copy, copy, ("atomic", False), ("copy_out_pad", "float32", 512, SRC, (1, 400, 0, 0)))
    assert np.array_equal(memory.get_gm(0, 100, "float32"), (np.float32(1) + values) + values)
    assert np.array_equal(memory.get_gm(512, 100, "float32"), values)


def test_atomic_add_of_all_cores():
    """Integers, so that the order does not matter."""
    gm = np.zeros(1000, np.float32)
    ub = np.stack([np.full(1000, core + 1, np.float32).view(np.uint8) for core in range(4)])
    calls = [("atomic", True), ("copy_out_pad", "float32", 0, 0, (1, 4000, 0, 0))]
    host_calls().run([program(calls)] * 4, gm.view(np.uint8), ub)
    assert (gm == 10).all()


def test_scalar_access():
    """GetValue sees all that was recorded, a copy in before it was needed included; SetValue comes in order."""
    memory = Memory().put_gm(0, np.arange(64, dtype=np.float32))
    results = memory.run(
        ("copy_in", "float32", DST, 0, 64),
        ("get", DST + 4 * 5),
        ("scalar", "Adds", "float32", SRC, DST, bits(1.0, "float32"), 64),
        ("get", SRC + 4 * 5),
        ("set", DST + 4 * 5, bits(-1.0, "float32")),
        ("binary", "Add", "float32", SRC, SRC, DST, 64),
        ("copy_out", "float32", 512, SRC, 64),
        ("gm_get", 512 + 4 * 5),
        ("gm_set", 512 + 4 * 6, bits(0.5, "float32")),
        ("copy_in", "float32", 1024, 512, 64),
        ("get", 1024 + 4 * 6),
    )
    assert results == [bits(x, "float32") for x in (5.0, 6.0, 5.0, 0.5)]
    assert np.array_equal(memory.get(DST, 8, "float32"), [0, 1, 2, 3, 4, -1, 6, 7])


@pytest.mark.parametrize("buffers", [1, 2, 3])
def test_queues(buffers):
    values = np.arange(5 * 64, dtype=np.float32)
    memory = Memory(gm_bytes=2 * values.nbytes).put_gm(0, values)
    memory.run(("queues", values.nbytes, 0, 5, 64, buffers))
    assert np.array_equal(memory.get_gm(values.nbytes, values.size, "float32"), values + 1)
