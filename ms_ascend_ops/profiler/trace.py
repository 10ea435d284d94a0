"""Reads what the traced library tells of a launch: the calls of every core, as arrays.

`EVENT` is the layout of `TraceRecord` in kernels/host/traced/recorder.cpp. A product of matrices is a PRODUCT, followed
by its OPERANDs A, B and C, which tell of memory what a COPY does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    "CUBE_PIPES",
    "EVENT",
    "PIPES",
    "WORKSPACE",
    "Argument",
    "Array",
    "Event",
    "Kind",
    "Pipe",
    "Product",
    "Queue",
    "Sync",
    "Trace",
    "rows",
]


Array = npt.NDArray[Any]


class Kind(IntEnum):
    VECTOR = 0
    COPY = 1
    SCALAR = 2
    QUEUE = 3
    SYNC = 4
    SETTING = 5
    INIT = 6
    PRODUCT = 7
    OPERAND = 8


class Pipe(IntEnum):
    """Names pipes as pipe_t of Ascend C does. MTE1 and FIX are a cube core's; a vector core's M: requests to that."""

    S = 0
    V = 1
    M = 2
    MTE1 = 3
    MTE2 = 4
    MTE3 = 5
    ALL = 6
    FIX = 10


PIPES = (Pipe.S, Pipe.V, Pipe.MTE2, Pipe.MTE3)  # of a vector core
CUBE_PIPES = (Pipe.S, Pipe.MTE2, Pipe.MTE1, Pipe.M, Pipe.FIX)  # of a cube core


class Queue(IntEnum):
    ALLOC = 0
    ENQUE = 1
    DEQUE = 2
    FREE = 3


class Sync(IntEnum):
    SET_FLAG = 0
    WAIT_FLAG = 1
    PIPE_BARRIER = 2
    SYNC_ALL = 3


class Product(IntEnum):
    INIT = 0
    ITERATE_ALL = 1
    WAIT = 2
    END = 3


WORKSPACE = -1  # as `argument`
MAX_RANGES = 4

EVENT = np.dtype(
    [
        ("kind", np.uint8),
        ("pipe", np.uint8),  # where it runs; of a barrier: which pipe waits
        ("call", np.uint8),  # Queue, Sync or Product
        ("producer", np.uint8),  # of a queue or flag: the pipe that is waited for
        ("consumer", np.uint8),  # and the one that waits
        ("element_bytes", np.uint8),  # of the widest operand
        ("written", np.uint8),  # a copy or a scalar access to memory; an atomic add is 2
        # It tells of a scalar access whether it is local, of a product whether the core waits for it at once, and of an
        # operand whether it is transposed.
        ("is_local", np.uint8),
        ("name", np.uint32),  # index of Trace.names
        ("place", np.uint32),  # index of Trace.places
        ("repeats", np.uint32),
        ("repeat_lanes", np.uint32),
        ("elements", np.uint64),  # active lanes in all repeats
        ("pieces", np.uint32),
        ("piece_bytes", np.uint32),
        ("stride", np.int64),  # in global memory, from a piece's start to the next
        ("offset", np.uint64),  # in the argument
        ("argument", np.int32),  # index of Trace.arguments
        ("buffer", np.uint32),  # of a queue's call
        ("id", np.int32),  # of a flag (with producer and consumer); of a product its number, of its wait, too
        # These are begin and end in the Unified Buffer, those of the destination first; empty: begin == end. A product
        # has (m, n), (k, whether several base blocks are loaded at once), (baseM, baseN), (baseK, 0) instead.
        ("ranges", np.uint32, (MAX_RANGES, 2)),
    ],
    align=True,
)


class Event(NamedTuple):
    """Unpacks a row of EVENT: quicker to read than NumPy's."""

    kind: int
    pipe: int
    call: int
    producer: int
    consumer: int
    element_bytes: int
    written: int
    is_local: int
    name: int
    place: int
    repeats: int
    repeat_lanes: int
    elements: int
    pieces: int
    piece_bytes: int
    stride: int
    offset: int
    argument: int
    buffer: int
    id: int
    ranges: list[list[int]]


def rows(events: Array) -> list[Event]:
    """Return the calls one by one."""
    return [Event(*values) for values in zip(*(events[name].tolist() for name in Event._fields), strict=True)]


@dataclass(frozen=True)
class Argument:
    """Describes a tensor of the launch."""

    name: str
    bytes: int
    output: bool
    dtype: str = ""  # as in C++


@dataclass
class Trace:
    """Records one launch."""

    kernel: str
    cores: list[Array]  # of EVENT
    arguments: list[Argument]
    workspace_bytes: int
    names: list[str]
    places: list[str]  # "rms_norm_kernel.h:97"
    ub_used_bytes: int
    tiling: dict[str, float] = field(default_factory=dict)

    @property
    def has_products(self) -> bool:
        """Tell whether it multiplies matrices."""
        return any((events["kind"] == Kind.PRODUCT).any() for events in self.cores)

    @property
    def minimal_bytes(self) -> int:
        """Return the least that has to move: every input once, every output once."""
        return sum(argument.bytes for argument in self.arguments)
