"""Connects emulated devices by HCCL: the process of a device talks with those of the other ranks by local sockets.

Ranks may be devices of one program or of several on this machine. Each connection has a thread that reads whatever
comes, so that sending never waits for the other side's program. A rank that ends closes its connections: whoever waits
for it is told, instead of waiting on.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import reduce
from typing import Any

import numpy as np

from ms_ascend_ops.device.operators.memory import DTYPES, Array, Tensor, from_bfloat16_bits, watchers

__all__ = ["PREFIX", "communicate"]

PREFIX = "hccl:"
_BFLOAT16, _FLOAT16 = 27, 1
_REDUCTIONS = (np.add, np.multiply, np.maximum, np.minimum)  # by HcclReduceOp
_HEADER = struct.Struct("<BQiQ32s")  # collective or not, number of the operation, dtype, bytes, name of the operation
_PEER = struct.Struct("<i")  # who connects
_CREDENTIALS = struct.Struct("<3i")  # SO_PEERCRED: process, user, group
_RETRY_SECONDS = 0.02

_communicators: dict[tuple[str, int], _Communicator] = {}


class CommunicationError(RuntimeError):
    """The other ranks are not there, or do something else."""


def communicate(name: str, values: list[Any]) -> None:
    """Carry out a call of kernels/device/hccl, which has the order of the values."""
    _CALLS[name](*values)


def _open(identity: str, rank: int, size: int, name: str) -> None:
    _communicators[identity, rank] = _Communicator(identity, rank, size, name)


def _close(identity: str, rank: int) -> None:
    if communicator := _communicators.pop((identity, rank), None):
        communicator.close()


def _exchange(
    identity: str,
    rank: int,
    name: str,
    collective: int,
    send_ranks: list[int],
    sent: list[Tensor],
    receive_ranks: list[int],
    received: list[Tensor],
) -> None:
    communicator = _communicator(identity, rank, name)
    with communicator.operation(name, bool(collective)) as operation:
        operation.send(send_ranks, sent)
        for peer, tensor in zip(receive_ranks, received, strict=True):
            memory = tensor.memory()
            memory[...] = operation.receive(peer, tensor)
            watchers.writes(memory)


def _reduce(
    identity: str, rank: int, name: str, reduction: int, ranks: list[int], sent: list[Tensor], results: list[Tensor]
) -> None:
    """Reduce in the order of the ranks; floats of 16 bits in float32, rounded once."""
    communicator = _communicator(identity, rank, name)
    with communicator.operation(name, collective=True) as operation:
        operation.send(ranks, sent)
        for tensor in results:
            pieces = (_computable(operation.receive(peer, tensor), tensor.code) for peer in range(communicator.size))
            tensor.write(reduce(_REDUCTIONS[reduction], pieces))


def _computable(stored: Array, code: int) -> Array:
    if code == _BFLOAT16:
        return from_bfloat16_bits(stored)
    return stored.astype(np.float32) if code == _FLOAT16 else stored


_CALLS: Mapping[str, Callable[..., None]] = {
    "hccl:open": _open,
    "hccl:close": _close,
    "hccl:exchange": _exchange,
    "hccl:reduce": _reduce,
}


def _communicator(identity: str, rank: int, name: str) -> _Communicator:
    try:
        return _communicators[identity, rank]
    except KeyError:
        raise CommunicationError(f"{name}: the communicator is not there any more, an error has closed it") from None


class _Communicator:
    """Connects a rank with the others of a group."""

    def __init__(self, identity: str, rank: int, size: int, name: str):
        self.identity, self.rank, self.size, self.name = identity, rank, size, name
        self._operations = 0
        self._numbers: dict[tuple[str, int], int] = defaultdict(int)  # of pieces between two ranks
        self._arrived = threading.Condition()
        self._messages: dict[tuple[int, bool, int], tuple[str, int, bytearray]] = {}
        self._ended: set[int] = set()
        self._peers = self._connect()
        self._sending = {peer: threading.Lock() for peer in self._peers}
        for peer, connection in self._peers.items():
            threading.Thread(target=self._read, args=(peer, connection), daemon=True).start()

    def close(self) -> None:
        for connection in self._peers.values():
            with suppress(OSError):  # the other side was faster
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def operation(self, name: str, collective: bool) -> _Operation:
        with self._arrived:
            number = self._operations
            self._operations += collective
        return _Operation(self, name, collective, number)

    def number(self, direction: str, peer: int) -> int:
        """Return the number of the next piece that goes to, or comes from, a rank outside collective operations."""
        with self._arrived:
            self._numbers[direction, peer] += 1
            return self._numbers[direction, peer]

    def send(self, peer: int, header: bytes, data: memoryview) -> None:
        with self._sending[peer]:
            self._peers[peer].sendall(header)
            self._peers[peer].sendall(data)

    def keep(self, key: tuple[int, bool, int], message: tuple[str, int, bytearray]) -> None:
        with self._arrived:
            self._messages[key] = message
            self._arrived.notify_all()

    def take(self, key: tuple[int, bool, int], what: str) -> tuple[str, int, bytearray]:
        """Wait for a message.

        Raises:
            CommunicationError: its sender has ended, or it does not come.
        """
        seconds = _seconds("HCCL_EXEC_TIMEOUT", 1836)
        peer = key[0]
        with self._arrived:
            self._arrived.wait_for(lambda: key in self._messages or peer in self._ended, seconds)
            if key in self._messages:
                return self._messages.pop(key)
            reason = "has ended" if peer in self._ended else f"sent nothing in {seconds:g} s (HCCL_EXEC_TIMEOUT)"
        raise CommunicationError(f"{what}: rank {peer} of {self.size} in {self.name} {reason}")

    def _read(self, peer: int, connection: socket.socket) -> None:
        try:
            while header := _receive(connection, _HEADER.size):
                collective, number, code, size, name = _HEADER.unpack(header)
                data = _receive(connection, size)
                self.keep((peer, bool(collective), number), (name.rstrip(b"\0").decode(), code, data))
        except OSError:  # it ended, or this side closes
            pass
        with self._arrived:
            self._ended.add(peer)
            self._arrived.notify_all()

    def _connect(self) -> dict[int, socket.socket]:
        """Connect with the ranks below this one, and wait for those above."""
        end = time.monotonic() + _seconds("HCCL_CONNECT_TIMEOUT", 120)
        peers: dict[int, socket.socket] = {}
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self._address(self.rank))
            listener.listen(self.size)
            for peer in range(self.rank):
                peers[peer] = self._dial(peer, end)
            while len(peers) < self.size - 1:
                listener.settimeout(max(end - time.monotonic(), _RETRY_SECONDS))
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    self._missing(set(range(self.size)) - peers.keys() - {self.rank})
                if _user(connection) != os.getuid():
                    connection.close()
                    continue
                connection.settimeout(None)
                (peer,) = _PEER.unpack(_receive(connection, _PEER.size))
                peers[peer] = connection
        return peers

    def _dial(self, peer: int, end: float) -> socket.socket:
        while time.monotonic() < end:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(self._address(peer))
            except ConnectionRefusedError:  # it is not there yet
                connection.close()
                time.sleep(_RETRY_SECONDS)
                continue
            if _user(connection) != os.getuid():
                raise CommunicationError(f"{self.name}: a program of another user answers for rank {peer}")
            connection.sendall(_PEER.pack(self.rank))
            return connection
        self._missing({peer})
        raise AssertionError

    def _missing(self, ranks: set[int]) -> None:
        names = ", ".join(map(str, sorted(ranks)))
        raise CommunicationError(
            f"rank {self.rank} of {self.size} in {self.name} waited for rank {names} "
            f"{_seconds('HCCL_CONNECT_TIMEOUT', 120):g} s (HCCL_CONNECT_TIMEOUT)"
        )

    def _address(self, rank: int) -> str:
        return f"\0ms_ascend_ops/hccl/{self.identity}/{rank}"  # an abstract one: no file is left behind


class _Operation:
    """Runs one call of HCCL; when it fails, the communicator is closed, so that the other ranks do not wait."""

    def __init__(self, communicator: _Communicator, name: str, collective: bool, number: int):
        self._communicator, self._name = communicator, name
        self._collective, self._number = collective, number

    def __enter__(self) -> _Operation:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            _close(self._communicator.identity, self._communicator.rank)

    def send(self, ranks: list[int], tensors: list[Tensor]) -> None:
        """Send pieces to ranks; that which is for this one is taken down as well."""
        own = self._communicator.rank
        for peer, tensor in zip(ranks, tensors, strict=True):
            memory = tensor.memory()
            watchers.reads(memory)
            data = memory.view(np.uint8).data
            number = self._number if self._collective else self._communicator.number("to", peer)
            if peer == own:
                self._communicator.keep((own, self._collective, number), (self._name, tensor.code, bytearray(data)))
                continue
            header = _HEADER.pack(self._collective, number, tensor.code, data.nbytes, self._name.encode())
            try:
                self._communicator.send(peer, header, data)
            except OSError:
                raise CommunicationError(
                    f"{self._name}: rank {peer} of {self._communicator.size} in {self._communicator.name} has ended"
                ) from None

    def receive(self, peer: int, tensor: Tensor) -> Array:
        """Return what a rank sent for a tensor, as it is stored.

        Raises:
            CommunicationError: it does not come, or is of another operation, dtype or size.
        """
        number = self._number if self._collective else self._communicator.number("from", peer)
        name, code, data = self._communicator.take((peer, self._collective, number), self._name)
        stored = DTYPES[tensor.code][1]
        differs = self._collective and name != self._name
        if differs or code != tensor.code or len(data) != tensor.size * stored.itemsize:
            raise CommunicationError(
                f"{self._name}: rank {self._communicator.rank} in {self._communicator.name} expects {tensor.size} "
                f"elements of {tensor.dtype}, but rank {peer} called {name} with "
                f"{len(data) // DTYPES[code][1].itemsize} of {DTYPES[code][0]}"
            )
        return np.frombuffer(data, stored)


def _receive(connection: socket.socket, size: int) -> bytearray:
    """Read so many bytes; none, where the other side has ended."""
    data = bytearray(size)
    view, at = memoryview(data), 0
    while at < size:
        count = connection.recv_into(view[at:])
        if count == 0:
            if at == 0 and size == _HEADER.size:
                return bytearray()
            raise ConnectionError("the connection ended in a message")
        at += count
    return data


def _user(connection: socket.socket) -> int:
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(data)[1])


def _seconds(variable: str, otherwise: float) -> float:
    try:
        return float(os.environ[variable])
    except (KeyError, ValueError):
        return otherwise
