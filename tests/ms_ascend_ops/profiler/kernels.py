"""Traces written by hand: what a core asks of its pipes, call by call."""

import numpy as np

from ms_ascend_ops.profiler.trace import EVENT, Argument, Kind, Pipe, Product, Queue, Sync, Trace


class Core:
    """The calls of one core."""

    def __init__(self, trace):
        self.trace = trace
        self.events = []

    def _event(self, kind, name, **values):
        event = np.zeros((), EVENT)
        event["kind"], event["name"] = kind, self.trace.name(name)
        for key, value in values.items():
            event[key] = value
        self.events.append(event)

    def vector(self, name, elements, element_bytes=4, write=(0, 0), reads=()):
        lanes = 256 // element_bytes
        ranges = np.zeros((4, 2))
        for row, part in enumerate((write, *reads)):
            ranges[row] = part
        self._event(
            Kind.VECTOR,
            name,
            pipe=Pipe.V,
            element_bytes=element_bytes,
            repeats=-(-elements // lanes),
            repeat_lanes=lanes,
            elements=elements,
            ranges=ranges,
        )

    def copy(self, argument, offset, size, write=0, pieces=1, stride=0):
        """`size` bytes in each of `pieces`."""
        name, pipe = ("CopyOut", Pipe.MTE3) if write else ("CopyIn", Pipe.MTE2)
        self._event(
            Kind.COPY,
            name,
            pipe=pipe,
            argument=argument,
            offset=offset,
            piece_bytes=size,
            pieces=pieces,
            stride=stride,
            written=write,
        )

    def queue(self, call, buffer, producer, consumer):
        self._event(Kind.QUEUE, call.name, call=call, buffer=buffer, producer=producer, consumer=consumer)

    def flag(self, call, producer, consumer, flag=0):
        self._event(Kind.SYNC, call.name, call=call, producer=producer, consumer=consumer, id=flag)

    def barrier(self, pipe):
        self._event(Kind.SYNC, "PipeBarrier", call=Sync.PIPE_BARRIER, pipe=pipe)

    def sync_all(self):
        self._event(Kind.SYNC, "SyncAll", call=Sync.SYNC_ALL)

    def init_products(self):
        self._event(Kind.PRODUCT, "REGIST_MATMUL_OBJ", call=Product.INIT)

    def product(self, sizes, base, arguments, *, offsets=(0, 0, 0), element_bytes=2, wait=True, whole=0, atomic=False):
        """(m, k) times (k, n), not transposed, into float; returns its number. `wait`: until it is there."""
        m, n, k = sizes
        number = sum(event["kind"] == Kind.PRODUCT and event["call"] == Product.ITERATE_ALL for event in self.events)
        self._event(
            Kind.PRODUCT,
            "IterateAll",
            call=Product.ITERATE_ALL,
            id=number,
            is_local=wait,
            element_bytes=element_bytes,
            ranges=[(m, n), (k, whole), (base[0], base[1]), (base[2], 0)],
        )
        shapes = ((m, k, element_bytes, 0), (k, n, element_bytes, 0), (m, n, 4, 2 if atomic else 1))
        for argument, offset, (rows, cols, size, written) in zip(arguments, offsets, shapes, strict=True):
            self._event(
                Kind.OPERAND,
                "ABC"[len(self.events) % 3],
                argument=argument,
                offset=offset,
                pieces=rows,
                piece_bytes=cols * size,
                stride=cols * size,
                element_bytes=size,
                written=written,
            )
        return number

    def wait_for_product(self, number):
        self._event(Kind.PRODUCT, "WaitIterateAll", call=Product.WAIT, id=number)

    def get_value(self):
        self._event(Kind.SCALAR, "GetValue", is_local=1)


class Launch:
    """A trace in the making."""

    def __init__(self, *sizes, kernel="synthetic"):
        self.kernel = kernel
        self.arguments = [Argument(f"t{i}", size, i > 0) for i, size in enumerate(sizes)]
        self.names = []
        self.cores = []

    def name(self, text):
        if text not in self.names:
            self.names.append(text)
        return self.names.index(text)

    def core(self):
        self.cores.append(Core(self))
        return self.cores[-1]

    def trace(self):
        cores = [np.array(core.events, dtype=EVENT) if core.events else np.zeros(0, EVENT) for core in self.cores]
        return Trace(self.kernel, cores, self.arguments, 0, self.names, ["synthetic.h:1"], 0)


def streaming(total_bytes, cores, tile_bytes, passes=4, buffers=2, element_bytes=4):
    """A kernel that reads a tensor, works on it `passes` times, and writes it: queues of `buffers` buffers."""
    launch = Launch(total_bytes, total_bytes)
    share = total_bytes // cores
    for index in range(cores):
        core = launch.core()
        for tile, offset in enumerate(range(index * share, (index + 1) * share, tile_bytes)):
            size = min(tile_bytes, (index + 1) * share - offset)
            loaded, stored = 1 + tile % buffers, 9 + tile % buffers
            core.queue(Queue.ALLOC, loaded, Pipe.MTE2, Pipe.V)
            core.copy(0, offset, size)
            core.queue(Queue.ENQUE, loaded, Pipe.MTE2, Pipe.V)
            core.queue(Queue.DEQUE, loaded, Pipe.MTE2, Pipe.V)
            core.queue(Queue.ALLOC, stored, Pipe.V, Pipe.MTE3)
            for _ in range(passes):
                core.vector("Add", size // element_bytes, element_bytes, write=(0, 8), reads=[(0, 8)])
            core.queue(Queue.FREE, loaded, Pipe.MTE2, Pipe.V)
            core.queue(Queue.ENQUE, stored, Pipe.V, Pipe.MTE3)
            core.queue(Queue.DEQUE, stored, Pipe.V, Pipe.MTE3)
            core.copy(1, offset, size, write=1)
            core.queue(Queue.FREE, stored, Pipe.V, Pipe.MTE3)
    return launch.trace()
