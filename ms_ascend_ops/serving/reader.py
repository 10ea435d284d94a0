"""Reads requests: small ones at once, large ones in a process of its own.

While a large JSON is read nothing else of Python runs in a process, not even an answer that it is alive.
"""

from __future__ import annotations

import asyncio
import pickle
import resource
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

from ms_ascend_ops.serving.errors import BadRequest, Deadline, ServingError, TooLarge
from ms_ascend_ops.serving.reading import Inference, checked_length, parsed, read_inference

if TYPE_CHECKING:
    from ms_ascend_ops.serving.reading_grpc import Call

__all__ = ["Reader"]

_MUCH_BYTES = 65536
_MEMORY = 4 * 2**30  # bytes of the process
_SECONDS = 20  # of the processor, for a request
_WALL = 120.0  # seconds in all, also if the machine is busy


class Reader:
    """Reads the requests of a server. `close` ends its process, if it has one."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, "read requests")
        self._process: subprocess.Popen[bytes] | None = None
        self._end: weakref.finalize[..., Reader] | None = None

    async def object(self, body: bytes) -> dict[str, Any]:
        """Parse the object of a body of JSON.

        Raises:
            ServingError: it cannot be read.
        """
        if len(body) <= _MUCH_BYTES:
            return parsed(body)
        fields: dict[str, Any] = await self._elsewhere("object", None, body)
        return fields

    async def inference(self, body: bytes, header_length: str | None) -> Inference:
        """Read a request of the Open Inference Protocol over HTTP.

        Raises:
            ServingError: it cannot be read.
        """
        much = len(body) if header_length is None else checked_length(header_length, len(body))
        if much <= _MUCH_BYTES:
            return read_inference(body, header_length)
        read: Inference = await self._elsewhere("inference", header_length, body)
        return read

    async def call(self, data: bytes) -> Call:
        """Read a request of the Open Inference Protocol over gRPC.

        Raises:
            ServingError: it cannot be read.
        """
        from ms_ascend_ops.serving.reading_grpc import read_call  # noqa: PLC0415 - gRPC may be missing

        if len(data) <= _MUCH_BYTES or _raw_bytes(data) > len(data) - _MUCH_BYTES:
            return read_call(data)
        read: Call = await self._elsewhere("call", None, data)
        return read

    def close(self) -> None:
        """End the process. What it reads is an error then."""
        if self._end is not None:
            self._end()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _elsewhere(self, name: str, argument: str | None, body: bytes) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._exchange, name, argument, body)

    def _exchange(self, name: str, argument: str | None, body: bytes) -> Any:
        process = self._started()
        late = threading.Timer(_WALL, process.kill)
        late.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            _send(process.stdin, pickle.dumps((name, argument)))
            _send(process.stdin, body)
            answer = pickle.loads(_receive(process.stdout))
        except (OSError, EOFError) as error:
            process.kill()
            raise Deadline(f"the body could not be read within {_SECONDS} s", True) from error
        finally:
            late.cancel()
        if isinstance(answer, ServingError):
            raise answer
        return answer

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            code = f"import sys; sys.path[:] = {sys.path!r}; from ms_ascend_ops.serving.reader import main; main()"
            self._process = subprocess.Popen(
                [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            self._end = weakref.finalize(self, _stop, self._process)
        return self._process


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):
            pipe.close()  # type: ignore[union-attr]
    process.wait()


def _raw_bytes(data: bytes) -> int:
    """Return bytes of the tensors that a request over gRPC has as bytes (field 7), which cost nothing to read."""
    place, total = 0, 0

    def number() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128 or shift > 63:
                return value

    with suppress(IndexError):
        while place < len(data):
            tag = number()
            if tag & 7 != 2:  # fields of other kinds than lengths are not in this message
                break
            size = number()
            total += size if tag >> 3 == 7 else 0
            place += size
    return total if place == len(data) else 0


def _send(sink: IO[bytes], data: bytes) -> None:
    sink.write(len(data).to_bytes(8, "little"))
    sink.write(data)
    sink.flush()


def _receive(source: IO[bytes]) -> bytes:
    head = source.read(8)
    if len(head) < 8:
        raise EOFError
    return source.read(int.from_bytes(head, "little"))


def _read_call(data: bytes, argument: None) -> Any:
    from ms_ascend_ops.serving.reading_grpc import read_call  # noqa: PLC0415 - gRPC may be missing

    return read_call(data)


_READ: Mapping[str, Callable[[bytes, Any], Any]] = {
    "object": lambda body, _: parsed(body),
    "inference": read_inference,
    "call": _read_call,
}


def main() -> None:
    """Run in the process: answer until there is nothing more to read."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    with suppress(EOFError):
        while True:
            name, argument = pickle.loads(_receive(source))
            body = _receive(source)
            signal.setitimer(signal.ITIMER_PROF, _SECONDS)  # which ends the process, wherever it is
            answer: Any
            try:
                answer = pickle.dumps(_READ[name](body, argument), 5)
            except ServingError as error:
                answer = pickle.dumps(error)
            except MemoryError:
                answer = pickle.dumps(TooLarge("the body takes too much memory to read: send tensors as bytes"))
            except Exception as error:
                answer = pickle.dumps(BadRequest(f"the body cannot be read: {type(error).__name__}"))
            signal.setitimer(signal.ITIMER_PROF, 0)
            del body
            _send(sink, answer)
