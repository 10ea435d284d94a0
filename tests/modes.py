"""The ways MindSpore runs a function."""

from contextlib import contextmanager

import mindspore as ms
from mindspore import nn

MODES = ("pynative", "graph", "jit")


class Caller(nn.Cell):
    """A network that calls a function on its inputs."""

    def __init__(self, function, *arguments):
        super().__init__()
        self.function = function
        self.arguments = arguments

    def construct(self, *tensors):
        return self.function(*tensors, *self.arguments)


@contextmanager
def graph_mode():
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        yield
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


def run(mode, function, tensors, *arguments):
    """Call `function(*tensors, *arguments)`; the arguments are constants of a graph."""
    caller = Caller(function, *arguments)
    if mode == "graph":
        with graph_mode():
            return caller(*tensors)
    return (ms.jit(caller) if mode == "jit" else caller)(*tensors)
