"""What MindSpore logs while `optimize` tries a network."""

import os
import threading

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, log, nn, ops
from ms_ascend_ops.export.graphs.modes import quiet

from ms_ascend_ops import optimize


def fail():
    """Something that MindSpore logs an error for: GroupNorm has no bfloat16 on a CPU."""
    x, ones = Tensor(np.ones((2, 4, 3)), ms.bfloat16), Tensor(np.ones(4), ms.bfloat16)
    try:
        ops.group_norm(x, 2, ones, ones).asnumpy()
    except RuntimeError as error:
        return str(error)
    return ""


class Talkative(nn.Cell):
    """A network whose cells are tried in bfloat16, too, and that writes something itself."""

    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(2, 4)
        self.weight = Parameter(Tensor(np.ones(4, np.float32)))

    def construct(self, x):
        os.write(2, b"of the user\n")
        return self.norm(x)


def test_trials_of_optimize_log_nothing(capfd):
    net = Talkative()
    x = Tensor(np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32))
    report = optimize(net, verify=[x])
    assert report.replaced
    _, errors = capfd.readouterr()
    assert set(errors.splitlines()) == {"of the user"}


def test_mindspore_logs_again_afterwards(capfd):
    with quiet():
        assert fail()
        log.error("python")
    assert capfd.readouterr().err == ""
    assert fail()
    assert "[ERROR] KERNEL(" in capfd.readouterr().err


def test_the_last_thread_that_leaves_ends_it(capfd):
    left = threading.Event()
    entered = threading.Event()

    def other():
        with quiet():
            entered.set()
            left.wait(30)

    thread = threading.Thread(target=other)
    with quiet():
        thread.start()
        assert entered.wait(30)
    assert fail()
    assert capfd.readouterr().err == ""
    left.set()
    thread.join()
    assert fail()
    assert "[ERROR] KERNEL(" in capfd.readouterr().err
