"""A launch that is replayed, or whose loops are compiled, gives the bits that its kernel gives, whatever the values and
wherever the tensors are.

A thread that is new has seen no launch yet: what it launches first, its kernel does; the third time is a replay
(kernels/host/runtime/trace_cache.h).
"""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from ms_ascend_ops import loop_compiler, registry
from ms_ascend_ops.definitions.inference import infer_shapes, infer_types
from ms_ascend_ops.library import native
from tests.dtypes import FLOATS, encode, poisoned
from tests.every_operator import every_operator, examples

# An observed build neither replays launches nor compiles loops.
pytestmark = pytest.mark.skipif("MS_ASCEND_OPS_WRONG_KERNELS" in os.environ, reason="the checked build runs every call")

SMALL_UB = 64 * 1024  # several tiles
NEVER = 1 << 60  # strips
LOOP_THRESHOLD = 100_000  # strips, the default (kernels/host)


def has_loops():
    """Not the vector unit of the oldest CPUs."""
    return native().vector_unit() != "x86-64-v2"


@pytest.fixture(autouse=True)
def _one_core_with_little_memory():
    threads, ub = native().get_thread_num(), native().get_ub_bytes()
    native().set_thread_num(1)  # the calling thread
    native().set_ub_bytes(SMALL_UB)
    yield
    native().set_thread_num(threads)
    native().set_ub_bytes(ub)
    native().set_loop_threshold(LOOP_THRESHOLD)


ENDS = (
    "query_lengths",
    "key_lengths",
    "group_list",
    "row_ends",
    "slice_ends",
    "group_ends",
)  # of sequences and groups: they may not fall


def launched(example, dtype, shift=0):
    """The bits of all results, for inputs whose values are rolled on, in tensors that are new."""
    case = example.case(dtype, max(example.operator.small_shapes, key=np.prod))
    for name, array in zip(case.input_names, case.inputs, strict=True):
        if name not in ENDS:
            array[...] = np.roll(array, shift)  # numbers of classes and slots, too, by which a kernel goes
    for launch in case.launches:
        native().launch(launch.kernel, launch.inputs, launch.outputs, launch.attributes)
    return b"".join(result.tobytes() for result in case.results)


def on_a_new_thread(function):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


@every_operator()
def test_same_bits(example):
    def replayed(dtype):
        others = [launched(example, dtype, shift) for shift in (1, 2)]
        return others, launched(example, dtype)

    for dtype in FLOATS:
        expected = on_a_new_thread(partial(launched, example, dtype))
        others, bits = on_a_new_thread(partial(replayed, dtype))
        assert bits == expected, dtype
        assert expected not in others, dtype


@pytest.fixture(scope="module")
def loops():
    """The numbers of the loops that were compiled. In the library of `build.sh check` there are none."""
    compile_one, numbers = loop_compiler.LoopCompiler._compile, []

    def noted(compiler, number, *loop):
        compile_one(compiler, number, *loop)
        numbers.append(number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop_compiler.LoopCompiler, "_compile", noted)
        yield numbers


def launched_with_loops(example, dtype):
    """Four times: loops are recorded by the first one, and there for the others; the last ones are replayed."""

    def launches():
        for _ in range(4):
            yield launched(example, dtype)
            assert loop_compiler.wait(native(), 60)

    native().set_loop_threshold(0)
    return on_a_new_thread(lambda: list(launches()))


# A case of a gradient launches the operator itself, too.
ONCE = [e for e in examples() if e.gradient or not registry.op_spec(e.name).differentiable]


@pytest.mark.parametrize("example", ONCE, ids=str)
def test_same_bits_when_compiled(example, loops):
    for dtype in FLOATS:
        native().set_loop_threshold(NEVER)
        expected = on_a_new_thread(partial(launched, example, dtype))
        assert launched_with_loops(example, dtype) == [expected] * 4, dtype


@pytest.mark.skipif(not has_loops(), reason="this build has no loops")
def test_loops_are_compiled(loops):
    """Without which the test above shows nothing."""
    for example in ONCE:
        launched_with_loops(example, "float32")
    # What a test before this one had compiled is not compiled again, but was counted.
    assert max(loops) > 3 * len(ONCE)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["add", "silu_mul", "gelu_mul", "add_rms_norm", "add_layer_norm"])
def test_two_inputs_that_were_one(op, dtype):
    """A schedule that was made when two inputs were the same tensor is right when they are not."""
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((7, 304)) for _ in range(2)]
    inputs += [rng.standard_normal(304) for _ in range(len(registry.signature(op).inputs) - 2)]
    x, other, *rest = [encode(values, dtype) for values in inputs]

    def launched_on(first, second):
        tensors = [first, second, *rest]
        types = [dtype] * len(tensors)
        signature = registry.signature(op)
        shapes = infer_shapes(signature, [t.shape for t in tensors], signature.check_attributes({}))
        kinds = infer_types(signature, types)
        outputs = [poisoned(shape, kind) for shape, kind in zip(shapes, kinds, strict=True)]
        native().launch(op, tensors, outputs, {}, [*types, *kinds])
        return b"".join(output.tobytes() for output in outputs)

    expected = on_a_new_thread(lambda: launched_on(x, other))
    assert on_a_new_thread(lambda: [launched_on(x, x), launched_on(x, other)])[1] == expected


def test_tensors_that_overlap():
    """x * sigmoid(x) * x, with one tensor as both inputs: apart or not, each time what was called for."""
    x, up = np.random.default_rng(0).standard_normal((2, 7, 300)).astype(np.float32)

    def launches(*gates):
        results = []
        for gate in gates:
            results.append(np.empty_like(x))
            native().launch("silu_mul", [x, gate], [results[-1]], {})
        return results

    apart, together = on_a_new_thread(lambda: launches(up)), on_a_new_thread(lambda: launches(x))
    mixed = on_a_new_thread(lambda: launches(up, up, up, x, x, x, up))
    for result, right in zip(mixed, [*apart * 3, *together * 3, *apart], strict=True):
        assert np.array_equal(result, right)


def test_launches_of_other_attributes():
    """The same tensors, and another tiling."""
    x = np.random.default_rng(0).standard_normal((7, 300)).astype(np.float32)

    def launches(*forms):
        results = []
        for form in forms:
            results.append(np.empty_like(x))
            native().launch("gelu", [x], [results[-1]], {"approximate": form})
        return results

    (none,), (tanh,) = (on_a_new_thread(lambda form=form: launches(form)) for form in ("none", "tanh"))
    mixed = on_a_new_thread(lambda: launches("none", "none", "none", "tanh", "none"))
    for result, right in zip(mixed, [none, none, none, tanh, none], strict=True):
        assert np.array_equal(result, right)
    assert not np.array_equal(none, tanh)
