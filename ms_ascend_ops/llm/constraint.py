"""Constrains decoding: which tokens may follow, by llguidance (`pip install 'ms_ascend_ops[structured]'`).

Schemas come from strangers, so grammars are matched in a process for each request (constraint_process.py), which has
limits of memory and time. It finds out what may follow a token while the network works on that token.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ms_ascend_ops.llm.constraint_process import frame, send
from ms_ascend_ops.llm.tokenizer import Tokenizer

__all__ = ["Constraint", "ConstraintError", "Grammars", "json_grammar", "lark_grammar"]

Array = np.ndarray[Any, Any]

_MEMORY = 2**30  # bytes of a process
_SECONDS = 2.0  # of the processor, to compile a grammar
_WALL = 15.0  # seconds in all, also if the machine is busy
_MOST_OPEN = 256  # processes at once
_WHITESPACE = r"[ \n\r\t]{1,20}"  # without a bound, small models write nothing else


class ConstraintError(ValueError):
    """Reports that a schema cannot be used, or took too much."""


def json_grammar(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the grammar of JSON texts of a schema."""
    options = {"whitespace_flexible": True, "whitespace_pattern": _WHITESPACE}
    return [{"json_schema": {**schema, "x-guidance": options}}]


def lark_grammar(begin: str, schema: Mapping[str, Any], end: str) -> list[dict[str, Any]]:
    """Return the grammar of such a text between two others. `begin` and `end` are terms of Lark, or empty."""
    return [{"lark_grammar": f"start: {begin} @value {end}"}, {"name": "value", **json_grammar(schema)[0]}]


class Grammars:
    """Compiles the grammars of a model. Any thread may use it.

    Args:
        tokenizer: of the model.
        vocabulary: the rows of its logits.
        end_tokens: what ends a text.
    """

    def __init__(self, tokenizer: Tokenizer, vocabulary: int, end_tokens: Sequence[int]):
        self._tokenizer, self._vocabulary = tokenizer, vocabulary
        self._end_tokens = list(end_tokens)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._open: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def open(self, grammar: Sequence[Mapping[str, Any]], copies: int = 1) -> list[Constraint]:
        """Return constraints of this grammar, for so many sequences.

        Raises:
            ConstraintError: the grammar is none, or takes too much to compile.
        """
        if len(self._open) >= _MOST_OPEN:
            raise ConstraintError("too many grammars are in use at once: come again later")
        ours, theirs = socket.socketpair()
        self._open.add(ours)
        try:
            ours.settimeout(_WALL)
            with theirs, self._lock:
                socket.send_fds(self._started(), [b"x"], [theirs.fileno()])
            send(ours, json.dumps({"grammar": grammar, "copies": copies, "seconds": _SECONDS}).encode())
            answer = json.loads(frame(ours))
        except (OSError, EOFError) as error:
            ours.close()
            raise ConstraintError(
                f"it did not compile within {_SECONDS:g} s and {_MEMORY >> 20} MiB of memory"
            ) from error
        if "error" in answer:
            ours.close()
            raise ConstraintError(" ".join(str(answer["error"])[:500].split()))
        connection = _Connection(ours, self._vocabulary)
        return [Constraint(connection, number) for number in range(copies)]

    def close(self) -> None:
        """End the process, if there is one."""
        with self._lock:
            if self._control is not None:
                self._control.close()
                self._control = None

    def _started(self) -> socket.socket:
        if self._control is not None and self._process is not None and self._process.poll() is None:
            return self._control
        control, theirs = socket.socketpair()
        worker = Path(__file__).with_name("constraint_process.py")
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(worker)], stdin=theirs.fileno(), stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, cwd="/",
            )  # fmt: skip
        weakref.finalize(self, _end, self._process, control)
        tokens = [self._tokenizer.bytes_of(token) for token in range(self._vocabulary)]
        lengths, text = np.array(list(map(len, tokens)), np.uint32).tobytes(), b"".join(tokens)
        first = {
            "path": [path or os.getcwd() for path in sys.path], "memory": _MEMORY, "lengths": len(lengths),
            "text": len(text), "control": sorted(self._tokenizer.control_tokens),
            "end": self._end_tokens or [self._vocabulary - 1],
        }  # fmt: skip
        control.settimeout(4 * _WALL)
        send(control, json.dumps(first).encode())
        control.sendall(lengths + text)
        frame(control)
        self._control = control
        return control


def _end(process: subprocess.Popen[bytes], control: socket.socket) -> None:
    control.close()
    process.kill()
    process.wait()


class _Connection:
    """Connects to the process of a request.

    Answers come in the order of the questions, and may be of different copies.
    """

    def __init__(self, connection: socket.socket, vocabulary: int):
        self._socket, self._vocabulary = connection, vocabulary
        self._asked: list[int] = []
        self._answers: dict[int, bytes] = {}
        weakref.finalize(self, connection.close)  # which ends the process

    def ask(self, copy: int, token: int) -> None:
        try:
            self._socket.sendall(struct.pack("<ii", copy, token))
        except OSError as error:
            raise ConstraintError("the schema took too much time or memory") from error
        self._asked.append(copy)

    def ready(self, copy: int, wait_s: float) -> bool:
        while copy not in self._answers:
            if not self._asked or not select.select([self._socket], [], [], wait_s)[0]:
                return not self._asked
            number = self._asked.pop(0)
            try:
                self._answers[number] = frame(self._socket)
            except (OSError, EOFError):  # `!` is an error
                self._answers |= dict.fromkeys([number, *self._asked], b"!it took too much time or memory")
                self._asked.clear()
        return True

    def take(self, copy: int) -> bytes:
        return self._answers.pop(copy)


class Constraint:
    """Says which tokens may follow in one sequence."""

    def __init__(self, connection: _Connection, copy: int):
        self._connection, self._copy = connection, copy
        connection.ask(copy, -1)

    def ready(self, wait_s: float = 0.0) -> bool:
        """Tell whether `allowed` answers at once."""
        return self._connection.ready(self._copy, wait_s)

    def allowed(self) -> Array:
        """Return the numbers of the tokens that may follow now; none: the text is complete.

        Raises:
            ConstraintError: the process has ended, or found no way on.
        """
        if not self.ready(_WALL):
            raise ConstraintError("the schema took too much time")
        mask = self._connection.take(self._copy)
        if mask[:1] == b"!" and len(mask) * 8 < self._connection._vocabulary:
            raise ConstraintError(f"the schema cannot be followed: {mask[1:].decode(errors='replace')}")
        bits = np.unpackbits(np.frombuffer(mask, np.uint8), bitorder="little")
        return np.flatnonzero(bits)

    def advance(self, token: int) -> None:
        """Tell the token that was chosen."""
        self._connection.ask(self._copy, token)
