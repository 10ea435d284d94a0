"""Inputs without elements, of every operator: which there are, which are refused, and what else must come out."""

from dataclasses import dataclass, field, replace

import numpy as np
from mindspore import Tensor

from ms_ascend_ops import ops, registry
from ms_ascend_ops.checks import CHECKS
from ms_ascend_ops.definitions.inference import infer_shapes
from tests.every_operator import Example, examples

# Which sizes of its sample an operator refuses to be 0, where its rules alone do not say so.
REFUSED = {
    "flash_attention": (2, 5),
    "flash_attention_varlen": (1, 3, 4),
    "kv_cache_update": (2,),  # without slots there is none to write to
    "paged_attention": (3, 4, 5, 6),
}


def without(example: Example):
    """Shapes of its sample in which one size is 0, and whether that is refused (`positive` in the definition).

    What says attributes, as the stride of a convolution does, is no size of a tensor.
    """
    base, attributes = example.operator.small_shapes[0], example.operator.attributes
    shapes = [(*base[:i], 0, *base[i + 1 :]) for i in range(len(base))]
    shapes = [shape for shape in shapes if attributes(*shape) == attributes(*base)]
    if example.name in REFUSED:
        return [(shape, i in REFUSED[example.name]) for i, shape in enumerate(shapes)]
    return [(shape, _breaks_rules(example, shape)) for shape in shapes]


def _breaks_rules(example: Example, shape):
    signature, case = registry.signature(example.name), replace(example, gradient=False).case(shape=shape)
    try:
        with np.errstate(divide="ignore"):
            shapes = [array.shape for array in case.inputs]  # of no classes there is no label to draw
        attributes = signature.check_attributes(case.attributes)
        infer_shapes(signature, shapes, attributes)
        CHECKS.get(example.name, lambda *_: None)(shapes, attributes)
    except ValueError:
        return True
    return False


def first_variants():
    """An example of each operator with its first attributes: its gradient, of which forward is a part, if any."""
    seen = {example.name: example for example in reversed(examples()) if not example.gradient}
    seen |= {example.name: example for example in reversed(examples()) if example.gradient}
    return [seen[name] for name in sorted(seen)]


def golden(example: Example, tensors):
    """Nothing depends on anything where there is no result."""
    forward = replace(example, gradient=False)
    inputs = tensors[example.operator.outputs * example.gradient :]
    outputs = forward.golden(inputs)
    if not example.gradient:
        return outputs
    if any(output.size for output in outputs):
        return example.golden(tensors)
    names = registry.op_spec(example.name).differentiable
    given = zip(example.case().input_names, inputs, strict=True)
    return [np.zeros(value.shape) for name, value in given if name in names]


@dataclass
class More:
    """A call that the samples do not have. Results and gradients are 0, but for those that are given by position."""

    name: str
    function: object
    shapes: tuple
    results: dict = field(default_factory=dict)
    gradients: dict | None = field(default_factory=dict)  # None: the operator has none

    def tensors(self):
        return [Tensor(np.ones(shape, np.float32)) for shape in self.shapes]


def _attention(name, query, key, value, mask, **attributes):
    def call(query, key, value, mask):
        return ops.flash_attention(query, key, value, mask, 1.0, *attributes.values())

    return More(f"flash_attention {name}", call, (query, key, value, mask), {1: -np.inf if key[2] == 0 else None})


def _cross_entropy(reduction):
    def call(logits):
        return ops.cross_entropy(logits, Tensor(np.zeros((0,), np.int32)), -100, reduction)

    return More(f"cross_entropy {reduction}", call, ((0, 9),), {0: np.nan} if reduction == "mean" else {})


def _rotary(name, x, table, *attributes):
    def call(x, cos, sin):
        return ops.rotary_embedding(x, cos, sin, *attributes)

    return More(f"rotary_embedding {name}", call, (x, table, table))


def _qkv(x, table):
    def call(x, cos, sin):
        return ops.qkv_rotary_embedding(x, cos, sin, 2, 1, 1)

    return More(f"qkv_rotary_embedding {x}", call, (x, table, table))


def _masked(x, mask):
    return More(f"scaled_masked_softmax {x} {mask}", ops.scaled_masked_softmax, (x, mask))


def _gated(function, x, inner, outer):
    return More(f"{function.__name__} {x} {inner} {outer}", function, (x, (outer, inner), (outer, inner)))


def _matmul(x, weight, bias=None, activation="none", result=0.0, dbias=0.0):
    def call(x, weight, bias=None):
        return ops.matmul(x, weight, bias, False, False, activation)

    shapes = (x, weight) if bias is None else (x, weight, bias)
    return More(f"matmul {x} {weight} {bias} {activation}", call, shapes, {0: result}, {2: dbias})


def _block(x):
    def call(x, weight, gamma, beta, bias, shift, residual):
        return ops.conv2d_group_norm(x, weight, gamma, beta, bias, shift, residual, 2, 1, 1)

    o = (4,)
    return More(f"conv2d_group_norm {x}", call, (x, (4, 3, 3, 3), o, o, o, (0, 4), (0, 4, 5, 5)))


def _paged(sequences, blocks, width):
    def call(query, cache):
        table = Tensor(np.zeros((sequences, width), np.int32))
        return ops.paged_attention(query, cache, cache, table, Tensor(np.zeros((sequences,), np.int32)), 1.0)

    shapes = (sequences, 1, 4, 8), (blocks, 3, 2, 8)
    return More(f"paged_attention {sequences} {blocks} {width}", call, shapes, gradients=None)


def _unpermute(n, h):
    def call(permuted, probs):
        return ops.moe_token_unpermute(permuted, Tensor(np.arange(2 * n).reshape(n, 2).astype(np.int32)), probs)

    return More(f"moe_token_unpermute {n} {h}", call, ((n, 2, h), (n, 2)))


def _pattern(function, values, dense):
    """Values of a matrix that has no rows, or of no columns: there is nothing that their pattern could say."""

    ends = np.full(0 if dense[1] else 2, values[0], np.int32)

    def call(values, dense):
        return function(Tensor(ends), Tensor(np.zeros(values.shape[:1], np.int32)), values, dense)

    return More(f"{function.__name__} {values} {dense}", call, (values, dense))


def _sequences(heads, queries):
    """Keys of no sequence, and nobody who looks at them."""

    def call(query, key, value):
        none = Tensor(np.zeros((0,), np.int32))
        return ops.flash_attention_varlen(query, key, value, none, none)

    return More(f"flash_attention_varlen {heads} {queries}", call, ((queries, heads, 8), (2, 1, 8), (2, 1, 8)))


SIGMOID = 1 / (1 + np.exp(-1.0))

MORE = [
    *(_cross_entropy(reduction) for reduction in ("mean", "sum", "none")),
    _attention("no batch", (0, 2, 9, 8), (0, 2, 9, 8), (0, 2, 9, 8), (1, 1, 1, 9), causal=True),
    _attention("no queries", (2, 2, 0, 8), (2, 2, 9, 8), (2, 2, 9, 8), (1, 2, 1, 9), causal=True),
    _attention("no queries, mask of queries", (2, 2, 0, 8), (2, 2, 9, 8), (2, 2, 9, 8), (2, 1, 0, 9)),
    _attention("no keys", (2, 2, 9, 8), (2, 1, 0, 8), (2, 1, 0, 8), (1, 1, 9, 0), causal=True),
    _attention("no keys, window", (2, 2, 9, 8), (2, 1, 0, 8), (2, 1, 0, 8), (1, 1, 9, 0), causal=False, window=3),
    _attention("no heads", (2, 0, 3, 8), (2, 1, 5, 8), (2, 1, 5, 8), (2, 1, 3, 5), causal=False, window=3),
    _attention("no values", (2, 2, 3, 8), (2, 1, 5, 8), (2, 1, 5, 0), (3, 5)),
    _rotary("no heads", (2, 3, 0, 10), (3, 5)),
    _rotary("heads first", (3, 0, 8, 10), (3, 8, 5), "half", "BNSD"),
    _rotary("no batch", (0, 8, 3, 10), (8, 10), "interleave"),
    _rotary("own angles", (2, 3, 0, 10), (3, 10), "half", "BSND", 0, True),
    _qkv((0, 8, 4, 10), (8, 5)),
    _qkv((2, 0, 4, 10), (0, 5)),
    _qkv((2, 3, 4, 0), (3, 0)),
    _qkv((0, 3, 4, 0), (3, 0)),
    _qkv((0, 0, 4, 10), (0, 5)),
    *(
        _pattern(function, values, dense)
        for function, values in ((ops.sparse_matmul, (2,)), (ops.block_sparse_matmul, (2, 16, 16)))
        for dense in ((64, 3), (0, 0))
    ),
    _pattern(ops.sparse_matmul, (0,), (0, 0)),
    _sequences(2, 0),
    _sequences(0, 2),
    _masked((4, 0, 16), (1, 16)),
    _masked((2, 0, 4, 16), (4, 16)),
    _masked((0, 3, 4, 16), (1, 3, 1, 16)),
    _masked((2, 3, 0), (2, 1, 0)),
    *(
        _gated(function, x, inner, outer)
        for function in (ops.linear_silu_mul, ops.linear_gelu_mul)
        for x, inner, outer in (((2, 3, 0), 0, 9), ((0,), 0, 9), ((2, 0, 5), 5, 9), ((3, 5), 5, 0), ((0, 0, 5), 5, 0))
    ),
    _matmul((2, 0), (0, 4), (4,), "silu", SIGMOID, 2 * SIGMOID * (2 - SIGMOID)),  # of the bias alone
    _matmul((2, 0, 3), (3, 4), (4,)),
    _matmul((2, 3, 0), (2, 0, 4)),
    _matmul((0, 3, 5), (0, 5, 4)),
    _matmul((2, 3, 0), (0, 4)),
    _block((0, 3, 5, 5)),
    _unpermute(0, 3),
    _unpermute(2, 0),
    _paged(2, 0, 0),
    _paged(2, 4, 0),
    _paged(2, 4, 2),
    _paged(0, 4, 2),
    More("layer_norm of three axes", ops.layer_norm, ((2, 0, 4, 3), (4, 3), (4, 3))),
    More("layer_norm without gamma", ops.layer_norm, ((0, 4),)),
    More("add_layer_norm", ops.add_layer_norm, ((0, 2, 4), (0, 2, 4), (2, 4), (2, 4))),
]  # fmt: skip


def leave_garbage():
    """What is allocated from now on finds this in memory, of MindSpore and of malloc."""
    for count in (*range(1, 20), 40, 64, 120, 300, 1056, 4096):
        (Tensor(np.full((count,), 7.25, np.float32)) * 3 + 1).asnumpy()
    kept = [np.full(count, 7.25, np.float32) for count in range(1, 300) for _ in range(2)]
    del kept
