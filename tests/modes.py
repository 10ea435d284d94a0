"""The ways MindSpore runs a function."""

from contextlib import contextmanager
from itertools import cycle, islice, product

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


def combinations(*parameters):
    """(mode, ...) for parametrize: every combination in PyNative, every value of every parameter in the other modes.

    A graph takes half a second to compile, and how a mode hands on one argument does not depend on the others.
    """
    longest = max(map(len, parameters))
    few = list(zip(*(islice(cycle(values), longest) for values in parameters), strict=True))
    return [(mode, *row) for mode in MODES for row in (product(*parameters) if mode == "pynative" else few)]


def few_modes(case, cases):
    """PyNative, and one of the modes that compile: in turn, so that the cases have them all."""
    return MODES[0], MODES[1 + list(cases).index(case) % 2]


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


@contextmanager
def synchronous():
    """PyNative without the threads that run behind Python, which wait busily: with fewer CPUs than threads most of the
    time of a network goes there. Each operator is tested with them (tests/ops). The mode that a benchmark leaves behind
    ends here, too.
    """
    ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=True)
    try:
        yield
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=False)
