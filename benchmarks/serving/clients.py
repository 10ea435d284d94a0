"""Runs clients that ask as fast as they get answers, check every answer, and now and then hang up in the middle."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ms_ascend_ops.benchmarks.serving.network import HIDDEN, expected

__all__ = ["Load", "Result", "language_questions", "network_questions", "run_load"]

HANGS_UP = 0.04  # of the requests


@dataclass(frozen=True)
class Question:
    """Holds a request, and what tells whether an answer is right."""

    path: str
    body: bytes
    headers: dict[str, str]
    is_right: Callable[[bytes, Any], bool]  # body and headers of the answer
    units: int  # rows, or tokens


@dataclass
class Result:
    """Holds the results of a load."""

    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    units: int = 0
    examples: list[str] = field(default_factory=list)  # of what should not be

    def lines(self) -> list[str]:
        """Describe it for people."""
        p50, p90, p99 = np.percentile(np.array(self.latencies or [np.nan]) * 1e3, (50, 90, 99))
        counts = ", ".join(f"{name}: {count}" for name, count in sorted(self.outcomes.items()))
        return [
            f"{counts}",
            f"{self.outcomes['right'] / self.seconds:.0f} requests/s, {self.units / self.seconds:.0f} rows or tokens/s",
            f"latency p50 {p50:.1f} ms, p90 {p90:.1f} ms, p99 {p99:.1f} ms, max {max(self.latencies) * 1e3:.1f} ms",
            *self.examples[:5],
        ]


@dataclass(frozen=True)
class Load:
    """Says who asks what, and for how long."""

    port: int
    questions: Sequence[Question]
    clients: int
    seconds: float
    retried: bool = False  # a broken connection is no error: the request is sent again


def network_questions(count: int = 256) -> list[Question]:
    """Return inputs of 1 to 4 x 1 to 64 rows; one of five as JSON, the others as bytes."""
    rng = np.random.default_rng(1)
    questions = []
    for index in range(count):
        rows, length = int(rng.integers(1, 5)), 2 ** int(rng.integers(0, 7))
        x = rng.standard_normal((rows, length, HIDDEN)).astype(np.float32)
        entry: dict[str, Any] = {"name": "x", "datatype": "FP32", "shape": list(x.shape)}
        headers = {}
        if index % 5 == 0 and x.size <= 16 * HIDDEN:
            body = json.dumps({"inputs": [entry | {"data": x.ravel().tolist()}]}).encode()
        else:
            entry["parameters"] = {"binary_data_size": x.nbytes}
            head = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}}).encode()
            body, headers = head + x.tobytes(), {"Inference-Header-Content-Length": str(len(head))}
        path = "/v2/models/network/infer"
        questions.append(Question(path, body, headers, _same_numbers(expected(x)), rows * length))
    return questions


def _same_numbers(wanted: np.ndarray[Any, Any]) -> Callable[[bytes, Any], bool]:
    wanted = wanted.astype(np.float32)

    def is_right(body: bytes, headers: Any) -> bool:
        length = headers.get("Inference-Header-Content-Length")
        if length is None:
            got = np.array(json.loads(body)["outputs"][0]["data"], np.float32)
        else:
            got = np.frombuffer(body, np.float32, offset=int(length))
        return got.size == wanted.size and bool(np.abs(got.reshape(wanted.shape) - wanted).max() < 1e-3)

    return is_right


def language_questions(model: str, count: int = 24) -> list[Question]:
    """Return greedy completions of 4 to 32 tokens as streams; each must be the text that the model says alone."""
    from ms_ascend_ops.llm import LanguageModel

    alone = LanguageModel.from_file(model, weights="float")
    starts = ["The capital of France is", "Once upon a time", "Water boils at", "def fibonacci(n):", "1, 1, 2, 3,"]
    questions = []
    for index in range(count):
        prompt = f"{starts[index % len(starts)]} {'and then ' * (index % 7)}"
        most = 4 + index % 29
        text = alone.generate(prompt, most).text
        asked = {"model": "network", "prompt": prompt, "max_tokens": most, "temperature": 0, "stream": True}
        questions.append(Question("/v1/completions", json.dumps(asked).encode(), {}, _same_text(text), most))
    return questions


def _same_text(wanted: str) -> Callable[[bytes, Any], bool]:
    def is_right(body: bytes, headers: Any) -> bool:
        lines = [line.removeprefix("data: ") for line in body.decode().split("\n\n") if line]
        pieces = [json.loads(line)["choices"][0]["text"] for line in lines[:-1]]
        return lines[-1] == "[DONE]" and "".join(pieces) == wanted

    return is_right


def run_load(load: Load) -> Result:
    """Ask until the time is over."""
    result, lock = Result(), threading.Lock()
    start = time.monotonic()
    threads = [
        threading.Thread(target=_Client(load, result, lock, start + load.seconds, seed).run)
        for seed in range(load.clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    result.seconds = time.monotonic() - start
    return result


class _Client:
    def __init__(self, load: Load, result: Result, lock: threading.Lock, until: float, seed: int):
        self._load, self._result, self._lock, self._until = load, result, lock, until
        self._rng = random.Random(seed)
        self._connection = self._connect()

    def run(self) -> None:
        while time.monotonic() < self._until:
            question = self._rng.choice(self._load.questions)
            start = time.monotonic()
            if self._rng.random() < HANGS_UP:
                outcome = self._hang_up(question)
            else:
                outcome = self._ask(question)
                while outcome == "broken" and self._load.retried:
                    self._count("retried")
                    time.sleep(0.02)
                    outcome = self._ask(question)
            self._count(outcome, time.monotonic() - start, question.units)
            if outcome == "429":
                time.sleep(self._rng.uniform(0.01, 0.1))
        self._connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._load.port, timeout=60)

    def _ask(self, question: Question) -> str:
        try:
            self._connection.request("POST", question.path, question.body, question.headers)
            answer = self._connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            self._note(repr(error))
            return "broken"
        if answer.status == 429:
            return "429"
        if answer.status != 200:
            self._note(f"{answer.status}: {body[:200]!r}")
            return "broken" if answer.status in (500, 502, 503) and self._load.retried else f"error {answer.status}"
        if question.is_right(body, answer.headers):
            return "right"
        self._note(f"wrong: {body[:200]!r}")
        return "wrong"

    def _hang_up(self, question: Question) -> str:
        """Ask on a connection of its own, at a time at which the answer may be there or not."""
        connection = self._connect()
        try:
            connection.request("POST", question.path, question.body, question.headers)
            time.sleep(self._rng.choice([0, 0.002, 0.02, 0.1]))
        except OSError:
            pass
        finally:
            connection.close()
        return "hung up"

    def _count(self, outcome: str, seconds: float = 0.0, units: int = 0) -> None:
        with self._lock:
            self._result.outcomes[outcome] += 1
            if outcome == "right":
                self._result.latencies.append(seconds)
                self._result.units += units

    def _note(self, text: str) -> None:
        with self._lock:
            self._result.examples.append(text)
