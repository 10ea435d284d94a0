"""Loops are compiled in a thread of their own, which changes no result and does not get in the way of the process."""

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ms_ascend_ops import loop_compiler
from ms_ascend_ops.loop_compiler import LoopCompiler

ROOT = Path(__file__).parents[2]  # where the package lies that is tested

# A process whose loops are asked for when they have run once.
LAUNCHES = """
import os
import sys
import threading
import numpy as np
from ms_ascend_ops import loop_compiler
from ms_ascend_ops.library import native
from tests.native import launch

rng = np.random.default_rng(0)
x, gate, gamma = rng.normal(size=(8, 1111)), rng.normal(size=(8, 1111)), rng.normal(size=1111)

def results(dtypes=("float32", "float16", "bfloat16")):
    found = []
    for dtype in dtypes:
        for name, inputs in [("silu_mul", [x, gate]), ("gelu", [x]), ("rms_norm", [x, gamma]), ("softmax", [x])]:
            found += launch(name, inputs, [dtype] * len(inputs))[0]
    return b"".join(result.tobytes() for result in found)

def compiles():
    return "ms_ascend_ops loops" in [thread.name for thread in threading.enumerate()]
"""
WITH_LOOPS = """
native().set_loop_threshold(0)
# The vector unit of the oldest CPUs has no loops.
HAS_LOOPS = native().vector_unit() != "x86-64-v2"
"""


STREAM_BYTES = "MS_ASCEND_OPS_STREAM_BYTES"


def run(code, **variables):
    """What the process writes. It must end well."""
    ours = (loop_compiler.VARIABLE, STREAM_BYTES)
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment | variables,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.mark.parametrize("variables", [{}, {STREAM_BYTES: "1"}], ids=["cached", "streamed"])
def test_same_bits_before_and_after(variables):
    code = """
native().set_loop_threshold(1 << 60)
interpreted = results()
assert native().pending_loops() == 0
native().set_loop_threshold(0)
if HAS_LOOPS:  # of the first of them: none can be done before it begins
    begun, go = threading.Event(), threading.Event()
    compile_one = loop_compiler.LoopCompiler._compile
    def delayed(self, *loop):
        begun.set()
        assert go.wait(60)
        addresses.append(compile_one(self, *loop))
    addresses, loop_compiler.LoopCompiler._compile = [], delayed
    for _ in range(3):
        assert results() == interpreted
    assert begun.wait(60)
    assert native().pending_loops() > 3
    assert not loop_compiler.wait(native(), 0.01)
    go.set()
assert loop_compiler.wait(native(), 60)
assert native().pending_loops() == 0
for _ in range(3):
    assert results() == interpreted
    assert loop_compiler.wait(native(), 60)
assert compiles()
if HAS_LOOPS:
    print(len(addresses) > 3)
"""
    assert run(LAUNCHES + WITH_LOOPS + code, **variables) in ("True\n", "")


@pytest.mark.parametrize("wrong", ["0", "12 MiB"])
def test_another_number_of_bytes_is_ignored_with_a_warning(wrong):
    output = run(LAUNCHES + "results()", **{STREAM_BYTES: wrong})
    assert output == f"ms_ascend_ops: {STREAM_BYTES} must be 1 or more, got '{wrong}'; it is ignored\n"


@pytest.mark.parametrize("why", ["variable", "llvmlite"])
def test_a_process_that_does_not_compile(why):
    code = "import sys\nsys.modules['llvmlite'] = None\n" if why == "llvmlite" else ""
    code += LAUNCHES + WITH_LOOPS
    code += """
first = results()
for _ in range(3):
    assert results() == first
    assert native().pending_loops() == 0
assert native().next_loop(True) is None  # and does not wait
assert loop_compiler.wait(native(), 0.0)
assert not compiles()
assert "llvmlite.binding" not in sys.modules
"""
    assert run(code, **({"MS_ASCEND_OPS_COMPILE": "0"} if why == "variable" else {})) == ""


def test_another_value_of_the_variable_is_ignored_with_a_warning():
    output = run(LAUNCHES + "native()\nassert compiles()", MS_ASCEND_OPS_COMPILE="off")
    assert output == (
        "ms_ascend_ops: MS_ASCEND_OPS_COMPILE=off: it must be 0 or 1; it is ignored, and loops are compiled\n"
    )


def test_import_does_not_import_llvmlite():
    code = "import sys, ms_ascend_ops, ms_ascend_ops._C, ms_ascend_ops.library as l; l.native(); print(*sys.modules)"
    modules = run(code).split()
    assert "ms_ascend_ops._C" in modules
    assert "llvmlite" not in modules


def test_a_process_that_ends_while_it_compiles():
    """It waits for the loop at hand, and leaves the others."""
    code = """
begun = threading.Event()
compile_one = loop_compiler.LoopCompiler._compile
def announced(self, *loop):
    begun.set()
    compile_one(self, *loop)
loop_compiler.LoopCompiler._compile = announced
results()
if HAS_LOOPS:
    assert begun.wait(60)
"""
    assert run(LAUNCHES + WITH_LOOPS + code) == ""
    assert run(LAUNCHES + WITH_LOOPS + code + "sys.exit(0)") == ""


FORK = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.12 on: this process has threads
child = os.fork()
if child == 0:
    assert results() == expected
    assert native().pending_loops() == 0
    assert not compiles()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
MULTIPROCESSING = """
import multiprocessing
def work():
    assert results() == expected
child = multiprocessing.get_context("fork").Process(target=work)
child.start()
child.join()
assert child.exitcode == 0
"""


@pytest.mark.parametrize(("code", "when"), [(FORK, "before"), (MULTIPROCESSING, "while"), (FORK, "after")])
def test_forks(code, when):
    """The thread that compiles is not in the child, which goes on with what was compiled before."""
    text = LAUNCHES + WITH_LOOPS + "native().set_thread_num(1)  # and the library's own threads are not, either\n"
    text += "native().set_loop_threshold(1 << 60)\nexpected = results()\n"
    if when != "before":
        text += "native().set_loop_threshold(0)\nresults()\n"
    if when == "after":
        text += "assert loop_compiler.wait(native(), 60)\n"
    text += "native().set_loop_threshold(0)\n"
    assert run(text + code + "assert compiles()\nassert results() == expected\n") == ""


class Requests:
    """What asks for loops: `texts`, one after the other."""

    def __init__(self, *texts):
        self.texts = list(texts)
        self.addresses = {}
        self.stopped = threading.Event()

    def next_loop(self, wait):
        if not self.texts:
            return None
        number = len(self.addresses)
        return number, f"loop{number}", self.texts.pop(0)

    def set_loop(self, number, address):
        self.addresses[number] = address

    def stop_loops(self):
        self.stopped.set()

    def pending_loops(self):
        return len(self.texts)


def function(name):
    return f"define void @{name}(ptr %links, i64 %begin, i64 %end) {{\n  ret void\n}}\n"


def test_what_llvm_refuses_goes_on_interpreted(caplog):
    requests = Requests("no IR", function("loop1"), function("another_name"), function("loop3"))
    with caplog.at_level(logging.WARNING, loop_compiler.__name__):
        LoopCompiler(requests).serve()
    assert [address != 0 for address in requests.addresses.values()] == [False, True, False, True]
    (record,) = caplog.records  # one of them: where one fails, hundreds may
    assert record.levelname == "WARNING"
    assert "a loop could not be compiled, and goes on interpreted: LLVM IR parsing error" in record.getMessage()


def test_an_llvmlite_that_does_not_load(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    requests = Requests(function("loop0"), function("loop1"))
    LoopCompiler(requests).serve()
    assert requests.addresses == {0: 0, 1: 0}
    assert len(caplog.records) == 1


def test_wait_gives_up():
    assert not loop_compiler.wait(Requests("never"), 0.01)
    assert loop_compiler.wait(Requests(), 0.0)
