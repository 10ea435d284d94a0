import gc
import inspect
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import cover

TESTS = Path(__file__).parent
KERNELS = TESTS / "kernels"
# PyNative is synchronous there (tests/modes.py), but in tests of what its threads do to our operators: values of all of
# them, forward and gradient, what is written in place, and `ms_ascend_ops` itself. Those come last: threads that were
# started once wait busily from then on, synchronous or not, and a network takes five times as long.
SYNCHRONOUS = ("benchmarks", "cells", "examples", "export", "llm/test_finetune.py", "llm/test_mindspore.py",
               "llm/test_network.py", "ms_ascend_ops/debug", "npu", "ops")  # fmt: skip
ASYNCHRONOUS = ("export/test_threads.py", "ops/test_kv_cache_update.py", "ops/test_not_worse_than_stock.py")

# The same examples in every run, and no files of their own; random ones are for `build.sh test --thorough`.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
settings.register_profile("thorough", settings.get_profile("repeatable"), derandomize=False)
settings.register_profile("few", settings.get_profile("repeatable"), max_examples=30)  # for sanitizers
settings.load_profile("repeatable")


def pytest_addoption(parser):
    parser.addoption(
        "--sample",
        type=int,
        default=1,
        metavar="N",
        help="of every test in tests/kernels/test_*.py, one of N cases; but all those of `--cases paths`",
    )
    parser.addoption(
        "--cases",
        choices=cover.LEVELS,
        default=cover.DEFAULT,
        help="how many cases tests of kernels have (tests/cover.py)",
    )


def pytest_configure(config):
    if config.getoption("cases") == "few":
        settings.load_profile("few")


def pytest_generate_tests(metafunc):
    cover.parametrize(metafunc)


def pytest_collection_modifyitems(config, items):
    """`--sample`. A prime number as N keeps all values of every parameter: few lists are multiples of it.

    And what is marked `thorough` is left out but with `--cases all`, as are graphs that differ little. Of random
    programs `--cases paths` has those of the first seed, and `--cases one` has the first case of each test of a kernel.
    """
    step, cases, kept, left = config.getoption("sample"), Counter(), [], []
    level = config.getoption("cases")
    graphs = set() if level == "all" else cover.needless_graphs(items)
    for item in items:
        if (
            item in graphs
            or (level != "all" and item.get_closest_marker("thorough"))
            or (level in ("one", "few", "paths") and seed(item) > 0)
        ):
            left.append(item)
            continue
        test = item.path, getattr(item, "originalname", item.name)
        if level == "one":
            needless = item.path.is_relative_to(KERNELS) and cases[test] > 0
        else:
            sampled = item.path.parent == KERNELS
            sampled = sampled and not (level in ("few", "paths") and item.get_closest_marker("cover"))
            needless = sampled and cases[test] % step > 0
        (left if needless else kept).append(item)
        cases[test] += 1
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept
    items.sort(key=lambda item: not is_synchronous(item.path))


@cache
def is_synchronous(path):
    synchronous, asynchronous = (
        any(path.is_relative_to(TESTS / one) for one in paths) for paths in (SYNCHRONOUS, ASYNCHRONOUS)
    )
    return synchronous and not asynchronous


def seed(item):
    return item.callspec.params.get("seed", 0) if hasattr(item, "callspec") else 0


def pytest_collectstart():
    """A quarter of the time to collect went into looking for garbage; all that is made then stays (`_freeze`)."""
    gc.disable()


def pytest_collection_finish():
    """What was imported until here is frozen. Sources are remembered: with each graph MindSpore asks for those of the
    same functions, which Python splits into tokens to find where they end.
    """
    _freeze()
    inspect.getsourcelines = _remembered(inspect.getsourcelines)
    if "mindspore" in sys.modules:
        threads = {path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")}
        assert "frontend_queue" not in threads, "a file of tests runs an operator where it is imported: see SYNCHRONOUS"
        sys.modules["mindspore"].set_context(pynative_synchronize=True)  # for fixtures of modules, too


@pytest.fixture(autouse=True, scope="module")
def _nothing_old_is_searched():
    """What the tests of a file leave behind is frozen, too."""
    yield
    _freeze()


def _freeze():
    """Let later collections of garbage leave out all objects that there are now.

    MindSpore collects garbage whenever it compiles a graph, and would search all that was imported, and all that
    earlier tests left behind. After 360 tests these were 97,000 objects, which took a tenth of a second each time.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


def _remembered(getsourcelines):
    known = {}

    def remembered(function):
        code = getattr(inspect.unwrap(function), "__code__", None)
        if code is None:
            return getsourcelines(function)
        if id(code) not in known:
            known[id(code)] = code, getsourcelines(function)  # with the code, lest another takes its place in memory
        _, (lines, start) = known[id(code)]
        return list(lines), start

    return remembered


@pytest.fixture(autouse=True)
def _no_measured_choice(request, monkeypatch):
    """Whether a convolution is replaced follows from no time in a test, but for those of the times (test_timing.py)."""
    timing = sys.modules.get("ms_ascend_ops.export.engines.timing")
    if timing is not None and request.path.name != "test_timing.py":
        monkeypatch.setattr(timing, "_judged", lambda *_: "")


@pytest.fixture(autouse=True)
def _own_working_directory(tmp_path, monkeypatch):
    """MindSpore writes diagnostics into the working directory: not into the source tree, nor into another test's."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _same_weights():
    """What a network initializes by itself is the same in every run: other weights may send a token elsewhere."""
    if "mindspore" in sys.modules:
        sys.modules["mindspore"].set_seed(0)


@pytest.fixture(autouse=True)
def _synchronous_networks(request):
    if "mindspore" not in sys.modules:
        yield
        return
    from tests.modes import synchronous  # noqa: PLC0415 - imports MindSpore

    with synchronous(is_synchronous(request.path)):
        yield
