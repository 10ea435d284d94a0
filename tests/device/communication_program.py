"""The programs of test_communication.py: HCCL's functions between ranks that are threads of devices."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
from collections.abc import Callable
from ctypes import byref, c_int32, c_uint32, c_uint64, c_void_p
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ml_dtypes
import numpy as np

from tests.device.acl import LIBRARY, Acl

TYPES = {"int8": 0, "int32": 2, "float16": 3, "float32": 4, "int64": 5, "uint8": 7, "float64": 10, "bfloat16": 11}
SUM, PROD, MAX, MIN = range(4)


class Ranks:
    """All ranks of a communicator, each a device of this program; `call` lets every rank call a function."""

    def __init__(self, acl: Acl, size: int):
        self.acl, self.size = acl, size
        self.hccl = ctypes.CDLL(str(LIBRARY.with_name("libhccl.so")))
        self.communicators = (c_void_p * size)()
        assert self.hccl.HcclCommInitAll(c_uint32(size), (c_int32 * size)(*range(size)), self.communicators) == 0
        self.streams = [self._on(rank, acl.stream) for rank in range(size)]

    def _on(self, rank: int, do: Any) -> Any:
        self.acl.SetDevice(rank)
        return do()

    def put(self, arrays: list[np.ndarray]) -> list[int]:
        return [self._on(rank, lambda array=array: self.acl.put(array)) for rank, array in enumerate(arrays)]

    def get(self, addresses: list[int], like: list[np.ndarray]) -> list[np.ndarray]:
        pairs = enumerate(zip(addresses, like, strict=True))
        return [self._on(rank, lambda at=at, one=one: self.acl.get(at, one)) for rank, (at, one) in pairs]

    def call(self, name: str, *arguments: list[Any], ranks: list[int] | None = None) -> None:
        """Each list of arguments has one for each rank; the communicator and the stream come behind them."""
        for rank in range(self.size) if ranks is None else ranks:
            self.acl.SetDevice(rank)
            given = [argument[rank] for argument in arguments]
            code = getattr(self.hccl, name)(*given, c_void_p(self.communicators[rank]), self.streams[rank])
            assert code == 0, (name, code)

    def wait(self) -> None:
        for rank in range(self.size):
            self.acl.SetDevice(rank)
            self.acl.SynchronizeStream(self.streams[rank])

    def each(self, value: Any) -> list[Any]:
        return [value] * self.size

    def apply(self, name: str, inputs: list[np.ndarray], outputs: list[np.ndarray], *values: Any) -> list[np.ndarray]:
        """Results of a function that takes two buffers first."""
        sent, received = self.put(inputs), self.put(outputs)
        pointers = [[c_void_p(address) for address in addresses] for addresses in (sent, received)]
        self.call(name, *pointers, *map(self.each, values))
        self.wait()
        return self.get(received, outputs)


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def numbers(seed: int, size: int, count: int, name: str) -> list[np.ndarray]:
    """Numbers of each rank whose sums and products an int8 holds."""
    generator = np.random.default_rng(seed)
    whole = generator.integers(-4, 5, (size, count))
    values = whole if "int" in name else whole + generator.random((size, count))
    return list((abs(values) if name == "uint8" else values).astype(dtype_of(name)))


def same(given: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for rank, (one, other) in enumerate(zip(given, expected, strict=True)):
        np.testing.assert_array_equal(one, other, err_msg=f"rank {rank}")


def reduced(arrays: list[np.ndarray], function: Any) -> np.ndarray:
    """In the order of the ranks; floats of 16 bits in float32."""
    narrow = arrays[0].dtype.itemsize == 2 and arrays[0].dtype.kind not in "iu"
    result = arrays[0].astype(np.float32) if narrow else arrays[0]
    for array in arrays[1:]:
        result = function(result, array.astype(result.dtype)).astype(result.dtype)
    return result.astype(arrays[0].dtype)


def check_reductions(ranks: Ranks) -> None:
    size = ranks.size
    functions = (np.add, np.multiply, np.maximum, np.minimum)
    for place, (name, code) in enumerate(TYPES.items()):
        # Seven elements are no multiple of the ranks, two are fewer than three of them.
        count, kind = (7, 2)[place % 2], place % 4
        x = numbers(place, size, count, name)
        expected = reduced(x, functions[kind])
        same(ranks.apply("HcclAllReduce", x, x, c_uint64(count), code, kind), [expected] * size)
        zeros = [np.zeros_like(one) for one in x]
        root = place % size
        only = [expected if rank == root else zeros[rank] for rank in range(size)]
        same(ranks.apply("HcclReduce", x, zeros, c_uint64(count), code, kind, c_uint32(root)), only)
    x = numbers(50, size, size * 3, "float32")
    parts = np.split(reduced(x, np.add), size)
    outputs = [np.zeros(3, np.float32)] * size
    same(ranks.apply("HcclReduceScatter", x, outputs, c_uint64(3), TYPES["float32"], SUM), parts)


def check_in_place(ranks: Ranks) -> None:
    """AllReduce and AllGather whose results lie where their inputs do."""
    x = numbers(60, ranks.size, 100_000, "float16")
    addresses = ranks.put(x)
    pointers = [c_void_p(address) for address in addresses]
    ranks.call("HcclAllReduce", pointers, pointers, *map(ranks.each, (c_uint64(100_000), TYPES["float16"], SUM)))
    ranks.wait()
    same(ranks.get(addresses, x), [reduced(x, np.add)] * ranks.size)


def check_movement(ranks: Ranks) -> None:
    size, code = ranks.size, TYPES["bfloat16"]
    x = numbers(1, size, 5, "bfloat16")
    empty = [np.zeros(5 * size, x[0].dtype)] * size
    same(ranks.apply("HcclAllGather", x, empty, c_uint64(5), code), [np.concatenate(x)] * size)
    wide = numbers(2, size, 4 * size, "int64")
    given = ranks.apply(
        "HcclScatter", wide, [np.zeros(4, np.int64)] * size, c_uint64(4), TYPES["int64"], c_uint32(size - 1)
    )
    same(given, np.split(wide[-1], size))
    addresses = ranks.put(x)
    pointers = [c_void_p(address) for address in addresses]
    ranks.call("HcclBroadcast", pointers, *map(ranks.each, (c_uint64(5), code, c_uint32(1))))
    ranks.call("HcclBarrier")
    ranks.wait()
    same(ranks.get(addresses, x), [x[1]] * size)


def check_all_to_all(ranks: Ranks) -> None:
    """Rank i sends i + j elements to rank j."""
    size, code = ranks.size, TYPES["float32"]
    counts = np.add.outer(np.arange(size), np.arange(size)).astype(np.uint64)
    places = np.cumsum(counts, 1, dtype=np.uint64) - counts
    x = [numbers(rank, 1, int(counts[rank].sum()), "float32")[0] for rank in range(size)]
    pieces = [[x[i][int(places[i, j]) :][: int(counts[i, j])] for i in range(size)] for j in range(size)]
    expected = [np.concatenate(row) for row in pieces]
    outputs = [np.zeros_like(row) for row in expected]
    sent, received = ranks.put(x), ranks.put(outputs)
    rows = [[c_void_p(values[rank].ctypes.data) for rank in range(size)] for values in (counts, places)]
    pointers = [[c_void_p(address) for address in addresses] for addresses in (sent, received)]
    codes = ranks.each(code)
    ranks.call("HcclAlltoAllV", pointers[0], *rows, codes, pointers[1], *rows, codes)
    ranks.wait()
    same(ranks.get(received, outputs), expected)
    matrix, received = ranks.each(c_void_p(counts.ctypes.data)), ranks.put(outputs)
    ranks.call("HcclAlltoAllVC", pointers[0], matrix, codes, [c_void_p(one) for one in received], codes)
    ranks.wait()
    same(ranks.get(received, outputs), expected)
    x = numbers(5, size, 2 * size, "float32")
    outputs = [np.zeros_like(one) for one in x]
    sent, received = ranks.put(x), ranks.put(outputs)
    pointers = [[c_void_p(address) for address in addresses] for addresses in (sent, received)]
    two = ranks.each(c_uint64(2))
    ranks.call("HcclAlltoAll", pointers[0], two, codes, pointers[1], two, codes)
    ranks.wait()
    same(ranks.get(received, outputs), [np.concatenate([one[2 * j : 2 * j + 2] for one in x]) for j in range(size)])


def check_pieces_of_any_size(ranks: Ranks) -> None:
    size, code = ranks.size, TYPES["float32"]
    counts = np.arange(size, dtype=np.uint64) + np.uint64(1)
    places = np.cumsum(counts, dtype=np.uint64) - counts
    lists = [c_void_p(counts.ctypes.data), c_void_p(places.ctypes.data)]
    whole = int(counts.sum())
    x = [numbers(rank, 1, rank + 1, "float32")[0] for rank in range(size)]
    outputs = [np.zeros(whole, np.float32)] * size
    sent, received = ranks.put(x), ranks.put(outputs)
    pointers = [[c_void_p(address) for address in addresses] for addresses in (sent, received)]
    sizes = [c_uint64(rank + 1) for rank in range(size)]
    ranks.call("HcclAllGatherV", pointers[0], sizes, pointers[1], *map(ranks.each, (*lists, code)))
    ranks.wait()
    same(ranks.get(received, outputs), [np.concatenate(x)] * size)
    wide = numbers(9, size, whole, "float32")
    addresses, results = ranks.put(wide), [np.zeros_like(one) for one in x]
    received = ranks.put(results)
    pointers = [[c_void_p(address) for address in given] for given in (addresses, received)]
    ranks.call(
        "HcclReduceScatterV", pointers[0], *map(ranks.each, lists), pointers[1], sizes, *map(ranks.each, (code, MAX))
    )
    ranks.wait()
    same(ranks.get(received, results), np.split(reduced(wide, np.maximum), places[1:].astype(int)))


def check_between_two(ranks: Ranks) -> None:
    """Several sends come in their order, whoever is first."""
    x = numbers(3, 2, 6, "int32")
    code, count = ranks.each(TYPES["int32"]), ranks.each(c_uint64(3))
    address, there = ranks.put([x[0]] * ranks.size), ranks.put([x[1]] * ranks.size)
    for part in range(2):
        at = [c_void_p(one + 12 * part) for one in there]
        ranks.call("HcclRecv", at, count, code, ranks.each(c_uint32(0)), ranks=[1])
    for part in range(2):
        at = [c_void_p(one + 12 * part) for one in address]
        ranks.call("HcclSend", at, count, code, ranks.each(c_uint32(1)), ranks=[0])
    ranks.wait()
    same(ranks.get(there, [x[1]] * ranks.size)[1:2], [x[0]])


def check_batch(ranks: Ranks) -> None:
    """A ring: each rank sends to the next and gets from the one before."""

    class Item(ctypes.Structure):
        _fields_ = (
            ("kind", c_int32),
            ("buffer", c_void_p),
            ("count", c_uint64),
            ("dtype", c_int32),
            ("remote", c_uint32),
        )

    size = ranks.size
    x = numbers(4, size, 3, "uint8")
    outputs = [np.zeros_like(one) for one in x]
    sent, received = ranks.put(x), ranks.put(outputs)
    items = [
        (Item * 2)(
            Item(0, sent[rank], 3, TYPES["uint8"], (rank + 1) % size),
            Item(1, received[rank], 3, TYPES["uint8"], (rank - 1) % size),
        )
        for rank in range(size)
    ]
    ranks.call("HcclBatchSendRecv", items, ranks.each(c_uint32(2)))
    ranks.wait()
    same(ranks.get(received, outputs), [x[rank - 1] for rank in range(size)])


def check_groups(ranks: Ranks) -> None:
    """Ranks 0 and 2 of three are a group, whose operations those of the whole do not disturb."""
    members = (c_uint32 * 2)(0, 2)
    ids = ctypes.create_string_buffer(4108)
    assert ranks.hccl.HcclGetRootInfo(ids) == 0
    name = ctypes.create_string_buffer(128)
    ranks.hccl.HcclGetCommName(c_void_p(ranks.communicators[0]), name)
    assert len(name.value) == 36
    rank, size = c_uint32(), c_uint32()
    for place in range(ranks.size):
        ranks.hccl.HcclGetRankId(c_void_p(ranks.communicators[place]), byref(rank))
        ranks.hccl.HcclGetRankSize(c_void_p(ranks.communicators[place]), byref(size))
        assert (rank.value, size.value) == (place, ranks.size)

    def join(place: int, made: c_void_p) -> int:
        whole = c_void_p(ranks.communicators[members[place]])
        return int(
            ranks.hccl.HcclCreateSubCommConfig(
                byref(whole), c_uint32(2), members, c_uint64(7), c_uint32(place), None, byref(made)
            )
        )

    smallest_of(ranks, list(members), join)


def check_table(ranks: Ranks) -> None:
    """Communicators of those who read the same table of ranks, and what a table must not be."""
    devices = [{"device_id": str(rank), "rank_id": str(rank)} for rank in range(ranks.size)]
    servers = [{"server_id": "10.0.0.1", "device": devices[:1]}, {"server_id": "10.0.0.2", "device": devices[1:]}]
    with TemporaryDirectory() as folder:
        table, empty = Path(folder, "ranks.json"), Path(folder, "empty.json")
        table.write_text(json.dumps({"version": "1.0", "server_list": servers}))
        empty.write_text(json.dumps({"version": "1.0", "server_list": []}))
        functions = [ranks.hccl.HcclCommInitClusterInfo, ranks.hccl.HcclCommInitClusterInfoConfig]

        def join(place: int, made: c_void_p) -> int:
            config = [None] * (place % 2)  # of HcclCommInitClusterInfoConfig alone
            return int(functions[place % 2](bytes(table), c_uint32(place), *config, byref(made)))

        smallest_of(ranks, list(range(ranks.size)), join)
        made = c_void_p()
        for path, rank in ((table, ranks.size), (empty, 0), (Path(folder, "none.json"), 0), (table, None)):
            code = functions[0](bytes(path), c_uint32(rank or 0), None if rank is None else byref(made))
            assert code != 0, (path, rank)
            assert made.value is None


def smallest_of(ranks: Ranks, devices: list[int], join: Callable[[int, c_void_p], int]) -> None:
    """Find the smallest of each element by a communicator that `join` makes in a thread for each of its ranks."""
    made, codes = [c_void_p() for _ in devices], dict[int, int]()

    def on_its_device(place: int) -> None:
        Acl().SetDevice(devices[place])
        codes[place] = join(place, made[place])

    threads = [threading.Thread(target=on_its_device, args=(place,)) for place in range(len(devices))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == dict.fromkeys(range(len(devices)), 0)
    x = numbers(8, len(devices), 4, "float32")
    addresses = []
    for place, device in enumerate(devices):
        ranks.acl.SetDevice(device)
        addresses.append(ranks.acl.put(x[place]))
        at = c_void_p(addresses[place])
        stream = ranks.streams[device]
        assert ranks.hccl.HcclAllReduce(at, at, c_uint64(4), TYPES["float32"], MIN, made[place], stream) == 0
    ranks.wait()
    for place, device in enumerate(devices):
        ranks.acl.SetDevice(device)
        np.testing.assert_array_equal(ranks.acl.get(addresses[place], x[0]), np.min(x, 0))
        assert ranks.hccl.HcclCommDestroy(made[place]) == 0


CHECKS = (
    check_reductions,
    check_in_place,
    check_movement,
    check_all_to_all,
    check_pieces_of_any_size,
    check_between_two,
    check_batch,
    check_groups,
    check_table,
)


def main() -> None:
    """Print the name of each check that has passed."""
    acl = Acl()
    acl.aclInit(None)
    ranks = Ranks(acl, acl.device_count())
    for check in CHECKS:
        check(ranks)
        print(check.__name__, flush=True)


def one_rank(rank: int, code: str) -> None:
    """Be one of two ranks, each a program of its own: `call(name, *arguments)` puts operations into a stream."""
    acl = Acl()
    acl.aclInit(None)
    acl.SetDevice(0)
    hccl = ctypes.CDLL(str(LIBRARY.with_name("libhccl.so")))
    communicator, stream = c_void_p(), acl.stream()
    root = ctypes.create_string_buffer(os.environ["TEST_ROOT"].encode(), 4108)
    assert hccl.HcclCommInitRootInfo(c_uint32(2), root, c_uint32(rank), byref(communicator)) == 0
    address = acl.put(np.full(4, rank + 1, np.float32))

    def call(name: str, *arguments: Any) -> None:
        assert getattr(hccl, name)(*arguments, communicator, stream) == 0

    names = {"acl": acl, "call": call, "at": c_void_p(address), "stream": stream, "four": c_uint64(4), "os": os}
    exec(code, names)


if __name__ == "__main__":
    if sys.argv[1:]:
        one_rank(int(sys.argv[1]), sys.argv[2])
    else:
        main()
