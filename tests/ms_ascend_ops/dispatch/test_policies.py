"""Who answers a call: policies, limits of implementations, fallback."""

import json
import logging
import threading
from types import SimpleNamespace

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import dispatch, ops
from ms_ascend_ops.dispatch import route
from ms_ascend_ops.dispatch.breaker import Breaker
from ms_ascend_ops.dispatch.sequential import SignTest
from tests.tensors import numpy, tensor


@pytest.fixture
def x():
    return tensor(np.random.default_rng(0).standard_normal((8, 64)), "float32")


@pytest.fixture
def now(monkeypatch):
    """The seconds of a clock that only a test and `Counted` move. No budget ends by it for others: few runs do."""
    seconds = [0.0]
    monkeypatch.setattr(route, "_MOST_RUNS", 2 * route._LEAST_RUNS)
    monkeypatch.setattr(route, "time", SimpleNamespace(perf_counter=lambda: seconds[0]))
    return seconds


class Counted:
    """A second implementation of silu_mul, in stock operators, that counts its calls."""

    def __init__(self, seconds=0.0, error=None, now=None):
        self.calls, self.seconds, self.error = 0, seconds, error
        self.now = [0.0] if now is None else now

    def __call__(self, gate, up):
        self.calls += 1
        self.now[0] += self.seconds
        if self.error is not None:
            raise self.error
        return gate * ms.ops.sigmoid(gate) * up


def state(version, operator="silu_mul"):
    return next(one for one in dispatch.status(operator) if one.version == version)


def golden(x):
    values = numpy(x)
    return values / (1 + np.exp(-values)) * values


def test_nothing_goes_through_the_table_by_default(x):
    mine = Counted()
    dispatch.register("silu_mul", "mine", function=mine)
    ops.silu_mul(x, x)
    assert mine.calls == 0


def test_a_function_of_a_user(x):
    mine = Counted()
    dispatch.register("silu_mul", "mine", function=mine)
    dispatch.use(dispatch.Fixed("mine"), "silu_mul")
    assert np.allclose(numpy(ops.silu_mul(x, x)), golden(x), rtol=1e-5)
    assert mine.calls == 1


@pytest.mark.parametrize(
    ("limits", "why"),
    [({"sizes": {"gate[-1]": (65, None)}}, "long rows"), ({"dtypes": ("bfloat16",)}, "dtype"),
     ({"sizes": {"up.size": (0, 511)}}, "few elements"), ({"devices": ("Ascend",)}, "device")],
)  # fmt: skip
def test_one_that_is_not_for_such_a_call_is_passed_over(x, limits, why):
    """Which is no failure."""
    mine = Counted()
    dispatch.register("silu_mul", "mine", function=mine, **limits)
    dispatch.use(dispatch.Fixed("mine"), "silu_mul")
    assert np.allclose(numpy(ops.silu_mul(x, x)), golden(x), rtol=1e-5)
    assert mine.calls == 0
    assert state("mine").failures == {}
    if why == "long rows":
        wide = tensor(np.ones((2, 65)), "float32")
        ops.silu_mul(wide, wide)
        assert mine.calls == 1


def test_attributes_decide_too(x):
    calls = []

    def tanh(x, approximate):
        calls.append(approximate)
        return ms.ops.gelu(x, approximate)

    dispatch.register("gelu", "mine", function=tanh, when={"approximate": "tanh"})
    dispatch.use(dispatch.Fixed("mine"), "gelu")
    ops.gelu(x)
    ops.gelu(x, "tanh")
    assert calls == ["tanh"]


def test_one_that_raises_is_replaced_and_comes_back(x, caplog, now):
    mine = Counted(error=MemoryError("no room"))
    dispatch.register("silu_mul", "mine", function=mine)
    dispatch.use(dispatch.Fixed("mine"), "silu_mul", pause=1.0)
    dispatch.table.table_of("silu_mul").breakers["mine"].clock = lambda: now[0]
    with caplog.at_level(logging.WARNING, "ms_ascend_ops"):
        for _ in range(5):
            assert np.allclose(numpy(ops.silu_mul(x, x)), golden(x), rtol=1e-5)
    assert mine.calls == 1, "it is out"
    assert state("mine").failures == {"error": 1}
    assert state("mine").fallbacks == 5
    assert "MemoryError: no room" in state("mine").reason
    assert [one.message for one in caplog.records if "mine" in one.message][1:] == [
        "silu_mul: kernel answers in place of mine"
    ]
    mine.error = None
    now[0] += 1.0
    ops.silu_mul(x, x)
    assert mine.calls == 2
    assert state("mine").state == "closed"


def test_an_error_of_the_caller_is_no_failure(x):
    dispatch.use(dispatch.Fixed(), "silu_mul", "rms_norm")
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^silu_mul: up.shape"):
            ops.silu_mul(x, x[:, 1:])
        with pytest.raises(TypeError, match=r"^silu_mul: up must be a Tensor, got int"):
            ops.silu_mul(x, 3)
        with pytest.raises(TypeError, match=r"^rms_norm: epsilon must be a float, got str"):
            ops.rms_norm(x, x[0], "small")
    assert state("kernel").failures == {}
    dispatch.use(dispatch.Fixed("composition"), "silu_mul")
    with pytest.raises(ValueError, match=r"^silu_mul: up.shape"):
        ops.silu_mul(x, x[:, 1:])
    assert state("composition").failures == {}


def test_when_nothing_is_left_all_reasons_are_said(x, monkeypatch):
    dispatch.register("silu_mul", "mine", function=Counted(error=MemoryError("no room")))
    dispatch.use(dispatch.Fixed("mine"), "silu_mul")
    for version in ("kernel", "composition"):
        dispatch.table.table_of("silu_mul").take_out(version, "error", "by this test")
    with pytest.raises(
        RuntimeError, match=r"^silu_mul: no implementation can answer: mine: MemoryError: no room; kernel"
    ):
        ops.silu_mul(x, x)


def test_fastest_is_measured_once_and_kept(x, tmp_path, now):
    slow, cache = Counted(seconds=0.003, now=now), tmp_path / "times.json"
    dispatch.register("silu_mul", "slow", function=slow)
    dispatch.use(dispatch.Fastest(cache, budget=0.005), "silu_mul")
    for _ in range(3):
        assert np.allclose(numpy(ops.silu_mul(x, x)), golden(x), rtol=1e-5)
    calls = slow.calls
    assert calls >= 5
    content = json.loads(cache.read_text())
    assert set(content) == {"machine", "versions", "times_us"}
    assert content["machine"]["cpus"] >= 1
    ((key, times),) = content["times_us"].items()
    assert key == "silu_mul() CPU float32[8,64] float32[8,64]"
    assert times == pytest.approx({"slow": 3000, "kernel": 0, "composition": 0})
    # The same bucket, another process or another shape of it: from the file.
    dispatch.use(dispatch.Fastest(cache), "silu_mul")
    ops.silu_mul(x[:7], x[:7])
    assert slow.calls == calls
    # Another one is measured.
    ops.silu_mul(x[:2], x[:2])
    assert slow.calls > calls


def test_fastest_in_a_graph_takes_what_was_measured(x, tmp_path, now):
    cache = tmp_path / "times.json"
    dispatch.register("silu_mul", "slow", function=Counted(seconds=0.002, now=now))
    dispatch.use(dispatch.Fastest(cache, budget=0.002), "silu_mul")

    def graph(gate, up):
        return ops.silu_mul(gate, up)

    ms.jit(graph)(x, x)
    assert not cache.exists()
    (choice,) = dispatch.choices()
    assert (choice.version, choice.reason) == ("kernel", "not measured for these shapes: the first in order")
    ops.silu_mul(x, x)
    content = json.loads(cache.read_text())
    (times,) = content["times_us"].values()
    times["composition"] = -1.0
    cache.write_text(json.dumps(content))
    dispatch.use(dispatch.Fastest(cache), "silu_mul")

    def other(gate, up):
        return ops.silu_mul(gate, up)

    assert np.allclose(numpy(ms.jit(other)(x, x)), golden(x), rtol=1e-5)
    assert dispatch.choices()[-1].version == "composition"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"machine": {}, "versions": {}, "times_us": {}}', "\0"])
def test_a_cache_that_is_of_no_use_is_said_and_measured_again(x, tmp_path, content, caplog):
    cache = tmp_path / "times.json"
    cache.write_text(content)
    dispatch.use(dispatch.Fastest(cache, budget=0.001), "silu_mul")
    with caplog.at_level(logging.WARNING, "ms_ascend_ops"):
        assert np.allclose(numpy(ops.silu_mul(x, x)), golden(x), rtol=1e-5)
    assert any(str(cache) in one.message for one in caplog.records)
    assert json.loads(cache.read_text())["times_us"]


def test_a_request_stays_on_one_side(x):
    mine = Counted()
    dispatch.register("silu_mul", "mine", function=mine)
    policy = dispatch.AB("mine", share=0.5, by="request", promote=False, compare=0)
    dispatch.use(policy, "silu_mul")
    sides = []
    for number in range(60):
        before = mine.calls
        with dispatch.request(number):
            for _ in range(3):
                ops.silu_mul(x, x)
        assert mine.calls - before in (0, 3)
        sides.append(mine.calls - before == 3)
    assert 15 < sum(sides) < 45


@pytest.mark.parametrize(
    ("costs", "verdict"), [((1.0, 2.0), "slower"), ((2.0, 1.0), "faster"), ((1, 1), "no difference")]
)
def test_the_winner_gets_all_calls(x, costs, verdict, monkeypatch):
    """By a clock that goes by what calls cost, with noise: this machine's own would depend on its load."""
    now, rng = [0.0], np.random.default_rng(1)

    def implementation(cost):
        def call(gate, up):
            now[0] += cost * rng.lognormal(sigma=0.5)
            return gate

        return call

    for name, cost in zip(("base", "next"), costs, strict=True):
        dispatch.register("silu_mul", name, function=implementation(cost))
    monkeypatch.setattr(route, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    policy = dispatch.AB("next", baseline="base", share=0.3, compare=0, most_pairs=100)
    dispatch.use(policy, "silu_mul")
    while not policy.verdict:
        ops.silu_mul(x, x)
    assert policy.verdict == verdict
    assert policy.test.pairs <= 100
    loser = {"slower": "next", "faster": "base", "no difference": "next"}[verdict]
    before = dict(policy.calls)
    for _ in range(20):
        ops.silu_mul(x, x)
    assert policy.calls[loser] == before[loser]


def test_graphs_get_the_baseline(x):
    dispatch.use(dispatch.AB("composition"), "silu_mul")

    def graph(gate, up):
        return ops.silu_mul(gate, up)

    ms.jit(graph)(x, x)
    assert dispatch.choices()[-1].version == "kernel"
    assert "not split" in dispatch.choices()[-1].reason


def test_the_sequential_test_keeps_its_promise():
    """Equal distributions with long tails, looked at after every pair: wrong in at most alpha of the runs."""
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(400):
        test = SignTest(alpha=0.05, most_pairs=400)
        times = rng.lognormal(0, 1, (400, 2))
        for a, b in times:
            if test.add(a, b):
                break
        wrong += test.decision != "no difference"
    assert wrong <= 0.05 * 400 + 3 * np.sqrt(400 * 0.05 * 0.95)


@pytest.mark.parametrize(("factor", "decision"), [(2.0, "slower"), (0.5, "faster"), (1.1, "slower")])
def test_the_sequential_test_finds_a_difference(factor, decision):
    rng, test = np.random.default_rng(1), SignTest()
    while not test.decision:
        noise = rng.lognormal(0, 0.2, 2)
        test.add(noise[0], factor * noise[1])
    assert test.decision == decision
    assert test.ratio == pytest.approx(factor, rel=0.15)


def test_a_difference_below_the_margin_is_none():
    rng, test = np.random.default_rng(2), SignTest(margin=0.05, most_pairs=3000)
    while not test.decision:
        noise = rng.lognormal(0, 0.02, 2)
        test.add(noise[0], 1.02 * noise[1])
    assert test.decision == "no difference"
    assert test.evidence > 1e3, "the sign test alone would have decided"


def test_a_breaker_opens_waits_longer_each_time_and_closes():
    now = [0.0]
    breaker = Breaker(pause=10, clock=lambda: now[0])
    assert breaker.allows()
    assert breaker.fail("a")
    assert not breaker.allows()
    now[0] = 10
    assert breaker.state == "half-open"
    assert breaker.allows()
    assert not breaker.allows(), "one tries"
    assert not breaker.fail("b")
    now[0] = 29
    assert not breaker.allows()
    now[0] = 30
    assert breaker.allows()
    assert breaker.succeed()
    assert breaker.state == "closed"
    breaker.fail("c", forever=True)
    now[0] = 1e9
    assert breaker.state == "open"


def test_from_several_threads(x):
    failing = Counted(error=OSError("now and then"))
    dispatch.register("silu_mul", "mine", function=failing)
    dispatch.use(dispatch.Fixed("mine"), "silu_mul", pause=0.001)
    expected, wrong = golden(x), []

    def work():
        for _ in range(100):
            if not np.allclose(numpy(ops.silu_mul(x, x)), expected, rtol=1e-5):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert state("mine").fallbacks >= 390


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"version": "kernel", "function": len}, "has an implementation 'kernel' already"),
        ({"version": "a"}, "either function or library must be given"),
        ({"version": "a", "library": "nowhere.so"}, "there is no library"),
        ({"version": "a", "function": len, "dtypes": ("float8",)}, "dtypes must be of float16"),
        ({"version": "a", "function": len, "devices": ("GPU",)}, "devices must be of CPU, Ascend, got 'GPU'"),
        ({"version": "a", "function": len, "sizes": {"z[0]": (1, 2)}}, "a size must be like"),
        ({"version": "a", "function": len, "sizes": {"up[0]": (3, 2)}}, "must have a range"),
        ({"version": "a", "function": len, "when": {"speed": 3}}, "when must be of"),
    ],
)
def test_what_is_registered_is_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        dispatch.register("silu_mul", **arguments)


def test_names_are_checked():
    with pytest.raises(ValueError, match="there is no operator 'sillu'"):
        dispatch.use(dispatch.Fixed(), "sillu")
    with pytest.raises(ValueError, match="silu_mul: there is no implementation 'mine'; there are kernel, composition"):
        dispatch.use(dispatch.Fixed("mine"), "silu_mul")
    with pytest.raises(ValueError, match="there is no implementation 'mine'"):
        dispatch.use(dispatch.Fixed(), "silu_mul", guard=dispatch.Guard("mine"))
    with pytest.raises(ValueError, match="from the start"):
        dispatch.unregister("silu_mul", "kernel")
    for wrong in ({"share": 0}, {"by": "day"}, {"candidate": "kernel"}):
        with pytest.raises(ValueError, match=r"^AB: "):
            dispatch.AB(**({"candidate": "mine"} | wrong))


def test_written_inputs_are_measured_on_copies():
    cache = ms.Parameter(Tensor(np.zeros((2, 4, 1, 8), np.float32)))
    other = ms.Parameter(Tensor(np.zeros((2, 4, 1, 8), np.float32)))
    key = Tensor(np.ones((1, 1, 8), np.float32))
    slots = Tensor(np.array([[3]], np.int32).reshape(1), ms.int32)
    dispatch.use(dispatch.Fastest(budget=0.001), "kv_cache_update")
    ops.kv_cache_update(key.reshape(1, 1, 8), key, cache, other, slots)
    assert numpy(cache).sum() == 8


def test_a_policy_may_say_by_the_old_name_that_it_is_not_stable():
    with pytest.warns(DeprecationWarning, match="Random.settled is now called is_stable"):

        class Random(dispatch.Policy):
            settled = False

    assert not Random.is_stable
    assert dispatch.Policy.is_stable
