"""Queues requests for a network, and runs them in a thread, several at once where they fit together."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, Protocol

import numpy as np

from ms_ascend_ops.serving.errors import BadRequest, Busy, Deadline, ServingError, Unavailable
from ms_ascend_ops.serving.metrics import ModelMetrics
from ms_ascend_ops.serving.tensors import TensorSpec, Values

__all__ = ["BatchQueue", "Job", "Network"]

_log = logging.getLogger(__name__)


class Network(Protocol):
    """Is run by a queue. Only the thread of the queue calls it."""

    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec]

    def run(self, inputs: Sequence[Values]) -> list[Values]:
        """Run the network on inputs. Raises BadRequest if it cannot take them."""


class Job:
    """Holds a request in the queue."""

    def __init__(self, inputs: Sequence[Values], deadline: float | None = None):
        self.inputs = inputs
        self.deadline = deadline  # of time.monotonic(), as the client gave it
        self.result: Future[list[Values]] = Future()
        self.enqueued = time.monotonic()
        # Requests with equal keys can run together.
        self.key = tuple((value.datatype, value.array.shape[1:]) for value in inputs)
        rows = {value.array.shape[0] if value.array.ndim else -1 for value in inputs}
        self.rows = rows.pop() if len(rows) == 1 else -1  # -1: not the same for all inputs


class BatchQueue:
    """Runs jobs one after the other, or several as one whose axis 0 is theirs together.

    Args:
        make: loads the network; called in the thread.
        queue: jobs that wait at most.
        max_batch_size: rows that run together at most; 1: every job runs alone.
        delay_s: how long a job waits at most for others.
    """

    def __init__(
        self, name: str, make: Callable[[], Network], metrics: ModelMetrics, queue: int = 128, max_batch_size: int = 1,
        delay_s: float = 0.0,
    ):  # fmt: skip
        self._make = make
        self._metrics = metrics
        self._most = queue
        self._max_batch_size = max_batch_size
        self._delay_s = delay_s
        self._jobs: deque[Job] = deque()
        self._condition = threading.Condition()
        self._closing = False
        self.loaded: Future[Network] = Future()  # the network, or the exception that it raised
        self.ended: Future[None] = Future()
        threading.Thread(target=self._run_thread, name=f"serve {name}", daemon=True).start()

    def submit(self, job: Job) -> Future[list[Values]]:
        """Take a job. Who does not want it any more cancels the future: the job leaves the queue at once.

        Raises:
            Busy: the queue is full.
            Unavailable: it was closed.
        """
        with self._condition:
            if self._closing:
                raise Unavailable("the model is being unloaded")
            if len(self._jobs) >= self._most:
                raise Busy(f"the queue of the model is full ({self._most} requests): come again later")
            self._jobs.append(job)
            self._metrics.queued(len(self._jobs))
            self._condition.notify()
        job.result.add_done_callback(lambda future: self._forget(job) if future.cancelled() else None)
        return job.result

    def close(self) -> None:
        """Take no more jobs. What is in the queue will be done; `ended` tells when."""
        with self._condition:
            self._closing = True
            self._condition.notify()

    def _forget(self, job: Job) -> None:
        with self._condition:
            if job in self._jobs:
                self._jobs.remove(job)
                self._metrics.cancelled()
                self._metrics.queued(len(self._jobs))

    def _run_thread(self) -> None:
        try:
            self._work()
        finally:
            self.ended.set_result(None)

    def _work(self) -> None:
        try:
            network = self._make()
        except BaseException as error:
            self.loaded.set_exception(error)
            return
        self.loaded.set_result(network)
        while jobs := self._next():
            self._run(network, jobs)

    def _next(self) -> list[Job]:
        """Return jobs to run together; none: the queue was closed, and nothing is left."""
        with self._condition:
            while True:
                while not self._jobs and not self._closing:
                    self._condition.wait()
                self._drop_late()
                if not self._jobs:
                    if self._closing:
                        return []
                    continue
                chosen, full = self._choose()
                wait = self._jobs[0].enqueued + self._delay_s - time.monotonic()
                if full or self._closing or wait <= 0:
                    for job in chosen:
                        self._jobs.remove(job)
                    self._metrics.queued(len(self._jobs))
                    return chosen
                self._condition.wait(wait)

    def _choose(self) -> tuple[list[Job], bool]:
        """Return the first job and those that fit to it, and whether no other would."""
        first = self._jobs[0]
        if self._max_batch_size == 1 or not 0 < first.rows < self._max_batch_size:
            return [first], True
        chosen, rows = [], 0
        for job in self._jobs:
            if job.key == first.key and job.rows > 0 and rows + job.rows <= self._max_batch_size:
                chosen.append(job)
                rows += job.rows
        return chosen, rows == self._max_batch_size

    def _drop_late(self) -> None:
        now = time.monotonic()
        for job in [job for job in self._jobs if job.deadline is not None and job.deadline <= now]:
            self._jobs.remove(job)
            self._metrics.queued(len(self._jobs))
            _fail(job, Deadline("the request waited longer than its timeout", of_client=True))

    def _run(self, network: Network, jobs: Sequence[Job]) -> None:
        jobs = [job for job in jobs if job.result.set_running_or_notify_cancel()]
        if not jobs:
            return
        start = time.monotonic()
        for job in jobs:
            self._metrics.waited(start - job.enqueued)
        try:
            results = _together(network, jobs) if len(jobs) > 1 else [network.run(jobs[0].inputs)]
        except BadRequest as error:
            if len(jobs) == 1:
                _fail(jobs[0], error)
                return
            for job in jobs:  # one of them must not be the end of the others
                self._alone(network, job)
            return
        except BaseException as error:
            _log.exception("the network failed")
            for job in jobs:
                _fail(job, error if isinstance(error, ServingError) else ServingError("the network failed"))
            return
        self._metrics.ran(time.monotonic() - start, max(sum(job.rows for job in jobs), 1), len(jobs))
        for job, result in zip(jobs, results, strict=True):
            _finish(job, result)

    def _alone(self, network: Network, job: Job) -> None:
        try:
            _finish(job, network.run(job.inputs))
        except Exception as error:
            if not isinstance(error, ServingError):
                _log.exception("the network failed")
            _fail(job, error if isinstance(error, ServingError) else ServingError("the network failed"))


def _together(network: Network, jobs: Sequence[Job]) -> list[list[Values]]:
    """Return the outputs of each job, which ran as one."""
    inputs = []
    for parts in zip(*(job.inputs for job in jobs), strict=True):
        inputs.append(Values(parts[0].datatype, np.concatenate([part.array for part in parts])))
    rows = [job.rows for job in jobs]
    outputs = network.run(inputs)
    for value in outputs:
        if value.array.ndim == 0 or value.array.shape[0] != sum(rows):
            raise ServingError(f"the network made {value.array.shape} of {sum(rows)} rows: it cannot be batched")
    cuts = np.cumsum(rows)[:-1]
    results: list[list[Values]] = [[] for _ in jobs]
    for value in outputs:
        for result, part in zip(results, np.split(value.array, cuts), strict=True):
            result.append(Values(value.datatype, part.copy()))  # an answer must not keep the memory of all others
    return results


def _finish(job: Job, result: Any) -> None:
    with suppress(InvalidStateError):  # given up meanwhile
        job.result.set_result(result)


def _fail(job: Job, error: BaseException) -> None:
    with suppress(InvalidStateError):
        job.result.set_exception(error)
