"""The ways MindSpore runs a function."""

from contextlib import contextmanager
from itertools import accumulate, cycle, islice, product
from itertools import combinations as two_of

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


class Together(nn.Cell):
    """Several functions or cells as one network, each with inputs of its own: a graph takes longer than its nodes."""

    def __init__(self, parts, counts=None):
        super().__init__()
        self.parts = nn.CellList([part if isinstance(part, nn.Cell) else Caller(part) for part in parts])
        ends = list(accumulate(counts or [1] * len(self.parts)))
        self.slices = tuple(zip([0, *ends[:-1]], ends, strict=True))

    def construct(self, *tensors):
        results = ()
        for i in range(len(self.slices)):
            results += (self.parts[i](*tensors[self.slices[i][0] : self.slices[i][1]]),)
        return results


def combinations(*parameters):
    """(mode, ...) for parametrize: every pair of values of two parameters in PyNative, every value in the other modes.

    A graph takes half a second to compile, and how a mode hands on one argument does not depend on the others.
    """
    longest = max(map(len, parameters))
    few = list(zip(*(islice(cycle(values), longest) for values in parameters), strict=True))
    return [(mode, *row) for mode in MODES for row in (pairs(parameters) if mode == "pynative" else few)]


def pairs(parameters):
    """Some of the combinations, in which any two values of different parameters come together."""
    met, chosen = set(), []
    left = list(product(*(range(len(values)) for values in parameters)))
    while True:
        new = [{*_two_of(row)} - met for row in left]
        best = max(range(len(left)), key=lambda i: len(new[i]))
        if not new[best]:
            return chosen
        met |= new[best]
        chosen.append(tuple(values[i] for values, i in zip(parameters, left[best], strict=True)))


def _two_of(row):
    return two_of(enumerate(row), min(2, len(row)))


def last_compiled(cases, mode="jit"):
    """(mode, ...) of each case in PyNative, and of the last one, which has the most in it, in a mode that compiles."""
    return [*(("pynative", *case) for case in cases), (mode, *cases[-1])]


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
def synchronous(value=True):
    """PyNative without the threads that run behind Python, which wait busily: with fewer CPUs than threads most of the
    time of a network goes there. Each operator is tested with them (tests/ops/test_not_worse_than_stock.py). The mode
    that a benchmark leaves behind ends here, too.
    """
    before = ms.get_context("pynative_synchronize")
    ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=value)
    try:
        yield
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=before)
