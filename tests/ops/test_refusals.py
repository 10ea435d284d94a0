"""What functions refuse, by name: of every operator each tensor, dtype, shape and attribute; then rules of their own.

What the texts of shapes and dtypes say is tested in tests/ms_ascend_ops/test_shapes.py. That an error arrives from a
graph is shown by one operator: ms_ascend_ops/custom.py raises those of all.
"""

import inspect
import re

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor
from ms_ascend_ops.samples.operators import Draw, names, operator

from ms_ascend_ops import ops, registry
from ms_ascend_ops.definitions.inference import infer_shapes, infer_types
from tests.modes import run
from tests.tensors import dtype_name, tensor

OTHER_NAMES = ("conv2d", "conv2d_batch_norm", "conv2d_group_norm")  # of their attributes
WRONG = {
    "bool": [1, "true"],
    "float": [float("inf"), float("nan"), True, "1", [1.0]],
    "int": [1.5, True, "1", 2**64],
    "string": ["no such", 1],
}


def sample(name):
    """Its inputs, and those of its attributes that have no default."""
    chosen, signature = operator(name), registry.signature(name)
    arrays = chosen.inputs(Draw("float32"), *chosen.small_shapes[0])
    row = signature.types[-1]
    given = zip(arrays, signature.inputs, strict=False)
    inputs = [tensor(array, row.get(one.dtype, one.dtype)) for array, one in given]
    parameters = inspect.signature(getattr(ops, name)).parameters
    first = next(iter(chosen.variants.values()))
    needed = {key: value for key, value in first.items() if key in parameters}
    return inputs, {**chosen.attributes(*chosen.small_shapes[0]), **needed} if name not in OTHER_NAMES else {}


def replaced(inputs, place, value):
    return [value if i == place else given for i, given in enumerate(inputs)]


def text_of(function, *arguments):
    try:
        function(*arguments)
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.parametrize("name", names())
def test_tensors(name):
    """Of each input: another type, a dtype that nothing has, one that does not fit, and sizes and ranks that do not."""
    function, signature, (inputs, attributes) = getattr(ops, name), registry.signature(name), sample(name)
    known = {one.name: attributes.get(one.name, one.default) for one in signature.attributes}
    absent = [None] * (len(signature.inputs) - len(inputs))
    for place, one in enumerate(signature.inputs[: len(inputs)]):

        def called(value, place=place):
            return function(*replaced(inputs, place, value), **attributes)

        with pytest.raises(TypeError, match=f"^{name}: {one.name} must be a Tensor"):
            called("text")
        with pytest.raises(TypeError, match=rf"^{name}: {one.name}.dtype must be .*, got float64"):
            called(Tensor(np.ones(inputs[place].shape)))
        size = inputs[place].shape
        for shape in ((1,) * 9, (), (*size[:-1], size[-1] + 1), (0, *size[1:])):
            shapes = replaced([given.shape for given in inputs] + absent, place, shape)
            refused = text_of(infer_shapes, signature, shapes, known)
            if refused:
                assert text_of(called, Tensor(np.ones(shape), inputs[place].dtype)) == refused
        for dtype in ("float16", "bfloat16", "float32", "int32"):
            dtypes = replaced([dtype_name(given) for given in inputs] + absent, place, dtype)
            refused = text_of(infer_types, signature, dtypes)
            if refused:
                assert text_of(called, inputs[place].astype(getattr(ms, dtype))) == refused


@pytest.mark.parametrize("name", [name for name in names() if name not in OTHER_NAMES])
def test_attributes(name):
    function, (inputs, attributes) = getattr(ops, name), sample(name)
    known = {one.name: one for one in registry.signature(name).attributes}
    for parameter in list(inspect.signature(function).parameters)[len(registry.signature(name).inputs) :]:
        if parameter not in known:
            continue
        one = known[parameter]
        low = [] if one.exclusive_minimum is None else [type(one.default)(one.exclusive_minimum)]
        for value in WRONG[one.type] + low:
            with pytest.raises((TypeError, ValueError), match=f"^{name}: {parameter} must "):
                function(*inputs, **{**attributes, parameter: value})


INFERENCE = [name for name in names() if not registry.op_spec(name).differentiable and name != "kv_cache_update"]


@pytest.mark.parametrize("name", INFERENCE)
def test_it_has_no_gradient(name):
    inputs, attributes = sample(name)
    floats = next(i for i, given in enumerate(inputs) if "float" in dtype_name(given))

    def total(given):
        result = getattr(ops, name)(*inputs[:floats], given, *inputs[floats + 1 :], **attributes)
        return (result[0] if isinstance(result, tuple) else result).astype(ms.float32).sum()

    with pytest.raises(RuntimeError, match=f"{name}: it has no gradient"):
        ms.grad(total)(inputs[floats])


@pytest.mark.parametrize("mode", ["graph", "jit"])
@pytest.mark.parametrize(
    ("size", "epsilon", "message"),
    [
        ((7,), 1e-6, r"gamma.shape\[0\] must equal x.shape\[-1\] \(8\), got \(7,\)"),
        ((8,), 0.0, "epsilon must be > 0 in float32, got 0.0"),
    ],
)
def test_in_a_graph(mode, size, epsilon, message):
    with pytest.raises(ValueError, match=f"^rms_norm: {message}"):
        run(mode, ops.rms_norm, (Tensor(np.ones((4, 8), np.float32)), Tensor(np.ones(size, np.float32))), epsilon)


def test_a_dtype_in_a_graph():
    with pytest.raises(TypeError, match=r"^rms_norm: x.dtype must be float16, bfloat16 or float32, got int32"):
        run("jit", ops.rms_norm, (Tensor(np.ones((4, 8), np.int32)), Tensor(np.ones(8, np.float32))))


def zeros(*shape, dtype=np.float32):
    return Tensor(np.zeros(shape, dtype))


def ints(*shape):
    return zeros(*shape, dtype=np.int32)


def conv(*shapes, **attributes):
    return lambda: ops.conv2d(*(zeros(*shape) for shape in shapes), **attributes)


def norm(*more, **attributes):
    tensors = (zeros(1, 4, 5, 6), zeros(6, 4, 3, 3), zeros(6), zeros(6))
    return lambda: ops.conv2d_group_norm(*tensors, *more, **{"num_groups": 2, **attributes})


def rotary(x, table, *attributes):
    return lambda: ops.rotary_embedding(zeros(*x), zeros(*table), zeros(*table), *attributes)


def attention(query, key, value, *more, **attributes):
    return lambda: ops.flash_attention(zeros(*query), zeros(*key), zeros(*value), *more, **attributes)


def packed(x, weight, scale):
    tensors = zeros(*x), zeros(*weight, dtype=np.int8), zeros(*scale, dtype=np.float16)
    return lambda: ops.weight_quant_matmul(*tensors)


def gate(experts, *attributes, **named):
    return lambda: ops.moe_gating_top_k(zeros(3, experts), None, *attributes, **named)


def paged(**attributes):
    tensors = zeros(2, 3, 4, 16), zeros(5, 4, 2, 16), zeros(5, 4, 2, 12), ints(2, 3), ints(2)
    return lambda: ops.paged_attention(*tensors, **attributes)


X, WEIGHT, HEADS = (1, 4, 5, 6), (6, 4, 3, 3), (2, 5, 3, 8)
# What the definitions cannot say: of ms_ascend_ops/checks, and of the functions.
RULES = [
    ("conv2d", conv(X, (6, 3, 3, 3)), "weight.shape[1] must be x.shape[1] / groups (4)"),
    (
        "conv2d",
        conv(X, (6, 4, 8, 3), padding=1),
        "weight.shape[2] (8, with dilation_h 8) must be at most x.shape[2] with",
    ),
    ("conv2d", conv(X, WEIGHT, dilation=(1, 3)), "weight.shape[3] (3, with dilation_w"),
    ("conv2d", conv(X, WEIGHT, padding=-1), "padding must be at least 0, got -1"),
    ("conv2d", conv(X, WEIGHT, padding=(1, 2, 3)), "padding must be an int or 2 or 4"),
    ("conv2d", conv(X, WEIGHT, padding="full"), "padding must be 'same', 'valid'"),
    ("conv2d", conv((4, 5, 6), WEIGHT, padding="same"), "x must have 4 dims"),
    ("conv2d", conv(X, WEIGHT, stride=0), "stride must be at least 1, got 0"),
    ("conv2d", conv(X, WEIGHT, stride=1.5), "stride must be an int or a tuple of ints"),
    ("conv2d", conv(X, WEIGHT, dilation=(1, 0)), "dilation must be at least 1"),
    ("conv2d", conv(X, WEIGHT, groups=0), "groups must be > 0, got 0"),
    ("conv2d", conv(X, WEIGHT, activation="tanh"), "activation must be"),
    ("conv2d", conv(X, WEIGHT, data_format="NC"), "data_format must be"),
    ("conv2d", lambda: ops.conv2d([1.0], zeros(*WEIGHT), padding="same"), "x"),
    ("conv2d", lambda: ops.conv2d(zeros(*X), [1.0], padding="same"), "weight"),
    ("conv2d_group_norm", norm(num_groups=4), "weight.shape[0] must be a multiple of num_groups (4), got (6, 4, 3, 3)"),
    ("conv2d_group_norm", norm(epsilon=0.0), "epsilon must be > 0"),
    ("conv2d_group_norm", norm(activation="gelu"), "activation must be"),
    ("conv2d_group_norm", norm(stride=0), "stride must be at least 1, got 0"),
    ("conv2d_group_norm", norm(padding="full"), "padding must be 'same', 'valid'"),
    ("conv2d_group_norm", norm(None, zeros(2, 6)), "shift.shape[0] must equal x.shape[0]"),
    ("conv2d_group_norm", norm(None, None, zeros(1, 6, 3, 3)), "residual.shape[3] must be that of the output (4)"),
    ("cross_entropy", lambda: ops.cross_entropy(zeros(4, 8), ints(4), 2**31), "ignore_index must fit in 32 bits, got"),
    ("cross_entropy", lambda: ops.cross_entropy(zeros(4, 8), ints(4), 0, "avg"), "reduction must be 'mean', 'sum' or"),
    ("flash_attention", attention((1, 2, 5, 300), (1, 2, 7, 300), (1, 2, 7, 8)), "query.shape[-1] must be at most 256"),
    ("flash_attention", attention(HEADS, HEADS, HEADS, window=-1), "window must be 0 (all keys) or more, got -1"),
    ("flash_attention", attention(HEADS, HEADS, HEADS, zeros(1, 4, 3, 3)), "mask.shape[1]"),
    (
        "matmul",
        lambda: ops.matmul(zeros(2, 3, 4), zeros(1, 4, 6)),
        "weight.shape[:-2] must be that of x (2,), or be empty",
    ),
    ("moe_gating_top_k", gate(8, 9), "k must be at most the experts of k_group groups (8), got 9"),
    ("moe_gating_top_k", gate(8, 2, group_count=3), "group_count must divide x.shape[-1] (8), got 3"),
    ("moe_gating_top_k", gate(8, 2, k_group=2), "k_group must be at most group_count (1), got 2"),
    ("moe_gating_top_k", gate(1025, 2), "x.shape[-1] must be at most 1024"),
    (
        "moe_token_permute",
        lambda: ops.moe_token_permute(zeros(3, 8), ints(3, 2), 1025),
        "num_experts must be at most 1024",
    ),
    ("moe_token_permute", lambda: ops.moe_token_permute(zeros(3, 8), ints(3, 257), 2), "a token must have at most 256"),
    ("paged_attention", paged(window=-1), "window must be 0 (all keys) or more, got -1"),
    ("paged_attention", paged(softcap=-1.0), "softcap must be 0 (none) or more"),
    (
        "qkv_rotary_embedding",
        lambda: ops.qkv_rotary_embedding(zeros(2, 5, 3, 7), zeros(5, 3), zeros(5, 3), 1),
        "qkv.shape[-1]",
    ),
    ("rotary_embedding", rotary((2, 5, 3, 7), (5, 3)), "x.shape[-1] must be even (its elements are rotated in pairs)"),
    ("rotary_embedding", rotary(HEADS, (5, 3)), "cos.shape[-1] must be 8 or 4 where 8 elements of a head are rotated"),
    (
        "rotary_embedding",
        rotary(HEADS, (5, 4), "half", "BSND", 10),
        "rotary_dim must be at most x.shape[-1] (8), got 10",
    ),
    ("rotary_embedding", rotary(HEADS, (5, 4), "half", "BSND", 3), "rotary_dim must be even and at least 0, got 3"),
    ("rotary_embedding", rotary(HEADS, (5, 4), "half", "SBND"), "layout must be 'BSND', 'BNSD' or 'SND', got 'SBND'"),
    (
        "rotary_embedding",
        rotary(HEADS, (5, 4), "half", "BSND", 0, True),
        "cos.shape[-1] must be 8 with separate_halves",
    ),
    ("weight_quant_matmul", packed((2, 96), (5, 32), (5, 1)), "weight.shape[-1] must be x.shape[-1] (8 bits) or half"),
    (
        "weight_quant_matmul",
        packed((2, 96), (5, 96), (5, 12)),
        "a group must have a multiple of 16 elements, or be a whole",
    ),
]


@pytest.mark.parametrize(("name", "call", "message"), RULES, ids=lambda value: value if isinstance(value, str) else "")
def test_rules_of_its_own(name, call, message):
    with pytest.raises((TypeError, ValueError), match=f"^{name}: .*" + re.escape(message)):
        call()


def test_tables_of_two_shapes():
    """The kernel walks through both tables alike."""
    x, cos, sin = zeros(*HEADS), zeros(2, 5, 4), zeros(1, 5, 4)
    for name, call in (
        ("rotary_embedding", lambda: ops.rotary_embedding(x, cos, sin)),
        ("qkv_rotary_embedding", lambda: ops.qkv_rotary_embedding(x, cos, sin, 1)),
    ):
        with pytest.raises(ValueError, match=rf"^{name}: sin.shape must be cos.shape \(2, 5, 4\), got \(1, 5, 4\)"):
            call()


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("moe_token_permute", lambda: ops.moe_token_permute(zeros(2, 4), Tensor([[0], [7]], ms.int32), 7)[0]),
        ("paged_attention", lambda: ops.paged_attention(*PAGED[:3], Tensor([[5, 2], [1, 0]], ms.int32), PAGED[3])),
        ("paged_attention", lambda: ops.paged_attention(*PAGED[:3], ints(2, 2), Tensor([3, -1], ms.int32))),
        ("sparse_matmul", lambda: ops.sparse_matmul(ints(2) + 1, ints(1) + 3, zeros(1), zeros(3, 2))),
    ],
)  # fmt: skip
def test_values(name, call):
    """A kernel stops itself where it would read what is not there; the error says what values must be."""
    with pytest.raises(RuntimeError, match=f"^{name}: the kernel stopped itself .* must be "):
        call().asnumpy()


PAGED = (zeros(2, 3, 4, 16), zeros(5, 4, 2, 16), zeros(5, 4, 2, 12), Tensor([6, 6], ms.int32))
