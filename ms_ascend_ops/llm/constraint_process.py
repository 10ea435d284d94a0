"""Matches grammars in a process that is started as a file, and imports nothing but llguidance.

A JSON schema is a program of a stranger: one of 60 bytes (`multipleOf: 9999999`) takes hours to compile. So this
process, which holds the vocabulary, forks for each request, and what it forks has limits of memory and time.

On its socket come first a line of JSON, then the vocabulary:

    {"path": [...], "memory": bytes, "lengths": bytes, "text": bytes, "control": [...], "end": [...]}

and then connections (SCM_RIGHTS), one a request. On each of those a frame of JSON comes first, and is answered by one:

    {"grammar": {...}, "copies": n, "seconds": 2}      -> {} or {"error": "..."}

and then frames of two integers of 32 bits, the number of the copy and the token that was chosen (-1: none yet). The
answer is a bit for each token that may follow, nothing if the text is complete, or a `!` and what went wrong.
"""

from __future__ import annotations

import array
import json
import os
import resource
import signal
import socket
import struct
import sys
from typing import Any

_STEP_SECONDS = 1.0  # of the processor, for a token


def receive(source: socket.socket, size: int) -> bytes:
    """Read so many bytes."""
    parts = bytearray()
    while len(parts) < size:
        part = source.recv(min(size - len(parts), 1 << 20))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def frame(source: socket.socket) -> bytes:
    """Return the bytes of a frame: their number comes first."""
    return receive(source, struct.unpack("<I", receive(source, 4))[0])


def send(sink: socket.socket, data: bytes) -> None:
    """Write a frame."""
    sink.sendall(struct.pack("<I", len(data)) + data)


class Vocabulary:
    """Answers what llguidance asks a tokenizer. It is not asked to encode anything here."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, first: dict[str, Any], lengths: bytes, text: bytes):
        self.tokens, place = [], 0
        for length in array.array("I", lengths):
            self.tokens.append(text[place : place + length])
            place += length
        self.special_token_ids = first["control"]
        self.eos_token_id = first["end"][0]
        self._bytes = {token: number for number, token in enumerate(self.tokens) if len(token) == 1}

    def __call__(self, text: bytes | str) -> list[int]:
        data = text.encode() if isinstance(text, str) else text
        return [self._bytes[bytes([byte])] for byte in data if bytes([byte]) in self._bytes]


def main() -> None:
    """Fork for each connection, until there are no more."""
    control = socket.socket(fileno=os.dup(0))
    first = json.loads(frame(control))
    sys.path[:] = first["path"]
    vocabulary = Vocabulary(first, receive(control, first["lengths"]), receive(control, first["text"]))

    import llguidance  # noqa: PLC0415 - behind the search path

    made: Any = vocabulary
    tokenizer = llguidance.LLTokenizer(made, n_vocab=len(vocabulary.tokens), eos_token=first["end"])
    resource.setrlimit(resource.RLIMIT_AS, (first["memory"],) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    send(control, b"{}")
    while True:
        _, connections, _, _ = socket.recv_fds(control, 1, 1)
        if not connections:
            return
        connection = socket.socket(fileno=connections[0])
        if os.fork() == 0:
            control.close()
            try:
                serve(llguidance, tokenizer, connection)
            finally:
                os._exit(0)
        connection.close()


def serve(llguidance: Any, tokenizer: Any, connection: socket.socket) -> None:
    """Match one request."""
    request = json.loads(frame(connection))
    os.nice(5)  # the network goes first
    signal.setitimer(signal.ITIMER_PROF, request["seconds"])  # ends the process, wherever it is
    limits = llguidance.LLParserLimits(max_lexer_states=50_000, max_grammar_size=100_000, verbose_errors=False)
    grammar = json.dumps({"grammars": request["grammar"]})
    matcher = llguidance.LLMatcher(tokenizer, grammar, log_level=0, limits=limits)
    error = matcher.get_error() if matcher.is_error() else ""
    mask = b"" if error else matcher.compute_bitmask()
    error = error or (matcher.get_error() if matcher.is_error() else "")
    send(connection, json.dumps({"error": error} if error else {}).encode())
    matchers = [matcher, *(matcher.deep_copy() for _ in range(request["copies"] - 1))]
    while not error:
        signal.setitimer(signal.ITIMER_PROF, _STEP_SECONDS)
        number, token = struct.unpack("<ii", receive(connection, 8))
        one = matchers[number]
        if token >= 0:
            one.consume_token(token)
            mask = b"" if one.is_stopped() else one.compute_bitmask()
        send(connection, b"!" + one.get_error().encode()[:2000] if one.is_error() else mask)


if __name__ == "__main__":
    main()
