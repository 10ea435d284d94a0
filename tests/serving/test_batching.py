"""The queue in front of a network: what runs together, what leaves it, what an error does."""

import threading
import time
from concurrent.futures import CancelledError

import numpy as np
import pytest

from ms_ascend_ops.serving.batching import BatchQueue, Job
from ms_ascend_ops.serving.errors import BadRequest, Busy, Deadline, ServingError, Unavailable
from ms_ascend_ops.serving.metrics import Metrics
from ms_ascend_ops.serving.tensors import TensorSpec, Values
from tests.waiting import wait


class Doubles:
    """2 x, when it may; counts the rows of its runs."""

    inputs = outputs = (TensorSpec("x", "FP32", (-1, -1)),)

    def __init__(self):
        self.runs = []
        self.may = threading.Event()
        self.may.set()

    def run(self, inputs):
        self.may.wait(10)
        x = inputs[0].array
        self.runs.append(x.shape[0])
        if (x == 13).any():
            raise BadRequest("13")
        if (x == 14).any():
            raise ArithmeticError("14")
        return [Values("FP32", 2 * x)]


def job(value, rows=1, width=2, deadline=None):
    return Job([Values("FP32", np.full((rows, width), value, np.float32))], deadline)


@pytest.fixture
def network():
    return Doubles()


def batch_queue(network, delay_s):
    return BatchQueue("test", lambda: network, Metrics().of_model("m", "1"), 8, max_batch_size=8, delay_s=delay_s)


@pytest.fixture
def queue(network):
    one = batch_queue(network, 0.02)
    yield one
    network.may.set()
    one.close()
    one.ended.result(10)


def filled(queue, network, *jobs):
    """The results, after jobs came while another one was running."""
    network.may.clear()
    first = queue.submit(job(0, 8))  # a full batch: it does not wait for others
    wait(lambda: not queue._jobs)
    results = [queue.submit(one) for one in jobs]
    network.may.set()
    first.result(10)
    return results


def test_together_and_apart(queue, network):
    """Those of the same width together, up to 8 rows, in order; more rows than a batch has, alone."""
    jobs = [job(1, 3), job(2, 4), job(3, 1, width=5), job(4, 2), job(5, 1), job(6, 20)]
    results = filled(queue, network, *jobs)
    for one, result in zip(jobs, results, strict=True):
        assert np.array_equal(result.result(10)[0].array, 2 * one.inputs[0].array)
    assert network.runs == [8, 8, 1, 2, 20]


def test_the_deadline_of_a_batch(queue, network):
    """Nobody waits longer than the delay for others, and nobody at all when the batch is full."""
    start = time.monotonic()
    queue.submit(job(1)).result(60)
    assert time.monotonic() - start >= 0.02
    patient = batch_queue(network, 600)
    for other in [patient.submit(job(1, 4)) for _ in range(2)]:
        other.result(60)
    patient.close()
    assert network.runs == [1, 8]


def test_a_full_queue(queue, network):
    network.may.clear()
    first = queue.submit(job(0, 8))
    wait(lambda: not queue._jobs)
    waiting = [queue.submit(job(1)) for _ in range(8)]
    with pytest.raises(Busy, match="the queue of the model is full"):
        queue.submit(job(1))
    waiting[3].cancel()  # frees its place at once
    waiting.append(queue.submit(job(2)))
    network.may.set()
    first.result(10)
    assert [result.result(10)[0].array[0, 0] for result in waiting if not result.cancelled()] == [2] * 7 + [4]
    assert network.runs == [8, 8]
    with pytest.raises(CancelledError):
        waiting[3].result()


def test_a_request_that_came_too_late(queue, network):
    late, good = filled(queue, network, job(1, deadline=time.monotonic() - 1), job(2))
    with pytest.raises(Deadline, match="waited longer than its timeout"):
        late.result(10)
    assert good.result(10)[0].array[0, 0] == 4
    assert network.runs == [8, 1]


def test_an_error_is_of_the_one_that_made_it(queue, network):
    """Of three together, one is wrong: each runs alone then."""
    first, wrong, third = filled(queue, network, job(1), job(13), job(3))
    assert first.result(10)[0].array[0, 0] == 2
    assert third.result(10)[0].array[0, 0] == 6
    with pytest.raises(BadRequest):
        wrong.result(10)
    with pytest.raises(ServingError, match="the network failed"):
        queue.submit(job(14)).result(10)
    assert queue.submit(job(5)).result(10)[0].array[0, 0] == 10


def test_closing(queue, network):
    """What was taken is done; nothing more is taken."""
    network.may.clear()
    results = [queue.submit(job(value)) for value in range(5)]
    queue.close()
    with pytest.raises(Unavailable):
        queue.submit(job(9))
    network.may.set()
    assert [result.result(10)[0].array[0, 0] for result in results] == [0, 2, 4, 6, 8]
    queue.ended.result(10)


def test_a_network_that_cannot_be_loaded():
    def make():
        raise ValueError("no network")

    queue = BatchQueue("test", make, Metrics().of_model("m", "1"))
    with pytest.raises(ValueError, match="no network"):
        queue.loaded.result(10)
    queue.ended.result(10)
