"""The rules of shapes, one by one, and what is wrong with definitions. test_grammar.py has random ones."""

import re
import tempfile
from functools import lru_cache
from pathlib import Path

import pytest

from ms_ascend_ops import registry
from ms_ascend_ops.definitions.inference import UNKNOWN_RANK, complete_shapes, infer_shapes, infer_types
from ms_ascend_ops.definitions.shapes import ShapeRule


def outcome(function):
    try:
        return function()
    except (TypeError, ValueError) as error:
        return type(error), str(error)


def test_a_known_input_completes_an_unknown_one():
    signature = registry.signature("silu_mul")
    assert infer_shapes(signature, [(-1, 3), (2, -1)], {}) == [(2, 3)]
    assert infer_shapes(signature, [UNKNOWN_RANK, (2, -1)], {}) == [(2, -1)]
    assert infer_shapes(registry.signature("rms_norm"), [(2, -1), (8,)], {}) == [(2, 8), (2, 1)]


PARTS = """
name: parts
summary: Sizes that are sums, an axis among single dims, and dims that broadcast to one.
attributes:
  left: {type: int, default: 1, exclusive_minimum: 0}
  right: {type: int, default: 2, exclusive_minimum: 0}
  axis: {type: int, default: 0}
  layout: {type: string, default: inner, choices: [inner, outer], axes: [-2, 0]}
types: [{T: float32}]
forward:
  inputs:
    x: T[b s =left+right d]
    table: T[~b s]
    moved: T[d b@axis 2]
  outputs:
    y: T[b =left s@layout d]
    z: T[s =right+right]
"""

WINDOWS = """
name: windows
summary: Places of windows.
attributes:
  apart: {type: int, default: 2, exclusive_minimum: 0}
  before: {type: int, default: 1}
  after: {type: int, default: 0}
  stride: {type: int, default: 3, exclusive_minimum: 0}
types: [{T: float32}]
forward:
  inputs: {x: "T[*b h]", weight: "T[k]"}
  outputs: {y: "T[*b window(h,k,apart,before,after,stride)]"}
"""

NORM = """
name: norm
summary: Uses every kind of token.
attributes:
  groups: {type: int, default: 1, exclusive_minimum: 0}
  layout: {type: string, default: NCHW, choices: [NCHW, NHWC], axes: [1, -1]}
types: [{T: float32}]
positive: [c, s]
multiples: {c: groups}
forward:
  inputs:
    x: T[n *s c@layout *t]
    gamma: T[c]
    z: T[*b *d]
    beta: T[*d]
  outputs:
    y: T[n *s c@layout *t]
    mean: T[n =groups]
    z_mean: T[*b ones(d)]
"""

MATMUL = """
name: matmul
summary: The rules that products of matrices need.
attributes:
  transpose_x: {type: bool, default: false, axes: [-1, -2]}
  transpose_weight: {type: bool, default: false, axes: [-1, -2]}
types: [{T: float32, G: float16}]
optional: [bias, mask]
multiples: {n: h}
forward:
  inputs:
    x: T[*b m k@transpose_x]
    weight: T[~b k n@transpose_weight]
    heads: T[h]
    bias: G[n]
    mask: T[?m n]
  outputs:
    y: T[*b m n]
"""

MASKED = """
name: masked
summary: A run of dims that broadcasts to another.
types: [{T: float32}]
forward:
  inputs: {x: "T[*b]", mask: "T[~b]"}
  outputs: {y: "T[*b]"}
"""

DEFINITIONS = {"parts": PARTS, "windows": WINDOWS, "norm": NORM, "matmul": MATMUL, "masked": MASKED}


def load(folder, name, text):
    path = Path(folder, f"{name}.yaml")
    path.write_text(text)
    return registry.load(path)


@lru_cache
def signature_of(name):
    """Of an operator, or of a definition above."""
    if name not in DEFINITIONS:
        return registry.signature(name)
    with tempfile.TemporaryDirectory() as folder:
        return load(folder, name, DEFINITIONS[name]).forward


GROUPS = {"groups": 3}
LAST = {"groups": 3, "layout": "NHWC"}
TRANSPOSED = {"transpose_x": True, "transpose_weight": True}

# Shapes of inputs, attributes, and shapes of outputs or the message.
RULES = {
    "rms_norm": [
        ([(), (1,)], {}, "x must have at least 1 dim, got shape ()"),
        ([(2, 8), (4,)], {}, "gamma.shape[0] must equal x.shape[-1] (8), got (4,)"),
    ],
    "swiglu": [
        ([(7,)], {"axis": 0}, "x.shape[0] must be even (it is split into gate and up), got (7,)"),
        ([(4, 8)], {"axis": 2}, "axis must be in [-2, 1] for x of shape (4, 8), got 2"),
    ],
    "swiglu_grad": [
        ([(3,), (8,)], {"axis": -1}, "x.shape[-1] must equal 2 * dy.shape[-1] (6), got (8,)"),
        ([(3, 4), (5, 8)], {"axis": 1}, "x.shape[:-1] must equal dy.shape[:-1] (3,), got (5, 8)"),
    ],
    "silu_mul": [([(2, 3), (3, 2)], {}, "up.shape must equal gate.shape (2, 3), got (3, 2)")],
    "masked": [
        *(
            ([x, mask], {}, [x])
            for mask in ((), (4,), (2, 1, 1), (1, 3, 4), (-1, 4))
            for x in ((2, 3, 4), (-1, -1, -1), UNKNOWN_RANK)
        ),
        ([(2, 3, 4), (3, 1, 4)], {}, "mask.shape must broadcast to x.shape (2, 3, 4), got (3, 1, 4)"),
        ([(2, 3, 4), (1, 1, 1, 1)], {}, "mask.shape must broadcast to x.shape (2, 3, 4), got (1, 1, 1, 1)"),
    ],
    "parts": [
        ([(4, 5, 3, 8), (5,), (4, 8, 2)], {}, [(4, 1, 5, 8), (5, 4)]),
        ([(4, 5, 3, 8), (1, 5), (8, 4, 2)], {"axis": 1, "layout": "outer"}, [(5, 4, 1, 8), (5, 4)]),
        ([(4, 5, 7, 8), (4, 5), (8, 2, 4)], {"axis": -1, "left": 4, "right": 3}, [(4, 4, 5, 8), (5, 6)]),
        ([(-1, 5, -1, 8), (3, 5), (-1, -1, 2)], {}, [(-1, 1, 5, 8), (5, 4)]),
        ([UNKNOWN_RANK, (5,), (4, 8, 2)], {}, [(4, 1, 5, 8), (5, 4)]),
        ([(4, 5, 4, 8), (5,), (4, 8, 2)], {}, "x.shape[2] must be left + right (3), got (4, 5, 4, 8)"),
        ([(4, 5, 3), (5,), (4, 8, 2)], {}, "x must have 4 dims, got shape (4, 5, 3)"),
        ([(4, 5, 3, 8), (3, 5), (4, 8, 2)], {}, "table.shape[:-1] must broadcast to x.shape[0] (4,), got (3, 5)"),
        ([(4, 5, 3, 8), (1, 4, 5), (4, 8, 2)], {}, "table.shape[:-1] must broadcast to x.shape[0] (4,), got (1, 4, 5)"),
        ([(4, 5, 3, 8), (5,), (8, 2, 3)], {"axis": -1}, "moved.shape[-1] must equal x.shape[0] (4), got (8, 2, 3)"),
        ([(4, 5, 3, 8), (5,), (7, 4, 2)], {"axis": 1}, "moved.shape[0] must equal x.shape[3] (8), got (7, 4, 2)"),
        ([(4, 5, 3, 8), (5,), (4, 8, 2)], {"axis": 3}, "axis must be in [-3, 2] for moved of shape (4, 8, 2), got 3"),
    ],
    "windows": [
        ([(2, 10), (3,)], {}, [(2, 3)]),  # 11 places with the padding, a window spans 5
        ([(10,), (3,)], {"stride": 1, "after": -4}, [(3,)]),
        ([(2, -1), (3,)], {}, [(2, -1)]),
        ([(2, 10), (-1,)], {}, [(2, -1)]),
        ([(-2,), (3,)], {}, [(-2,)]),
        ([(2, 3), (3,)], {}, "weight.shape[0] (3, with apart 5) must be at most x.shape[-1] with its padding (4)"),
        ([(2, 3), (3,)], {"before": 2**40}, "before must fit in 32 bits, got 1099511627776"),
    ],
    "norm": [
        ([(2, 6, 4, 5), (6,), (3, 7, 8), (7, 8)], GROUPS, [(2, 6, 4, 5), (2, 3), (3, 1, 1)]),
        ([(2, 4, 5, 6), (6,), (3, 7, 8), (8,)], LAST, [(2, 4, 5, 6), (2, 3), (3, 7, 1)]),
        ([(2, 6), (6,), (3,), (3,)], LAST, [(2, 6), (2, 3), (1,)]),
        ([(2, -1, 5), (6,), (-1, 3), (-1,)], GROUPS, [(2, 6, 5), (2, 3), (-1, 1)]),
        # How many dims z has cannot be split before the rank of beta is known.
        ([UNKNOWN_RANK, (6,), (3, 4), UNKNOWN_RANK], GROUPS, [UNKNOWN_RANK, (-1, 3), UNKNOWN_RANK]),
        ([(2, 7, 4), (7,), (8,), (8,)], GROUPS, "x.shape[1] must be a multiple of groups (3), got (2, 7, 4)"),
        ([(2, 6, 4), (3,), (8,), (8,)], GROUPS, "gamma.shape[0] must equal x.shape[1] (6), got (3,)"),
        ([(2, 6, 4), (6,), (4, 8), (7,)], GROUPS, "z.shape[1:] must equal beta.shape (7,), got (4, 8)"),
        ([(2, 6, 4), (6,), (8,), (7, 8)], GROUPS, "z must have at least 2 dims, got shape (8,)"),
        ([(2, 0, 4), (0,), (8,), (8,)], GROUPS, "x.shape[1] must be at least 1, got (2, 0, 4)"),
    ],
    "matmul": [
        ([(2, 3, 4), (4, 6), (3,), None, None], {}, [(2, 3, 6)]),
        ([(2, 4, 3), (6, 4), (3,), (6,), None], TRANSPOSED, [(2, 3, 6)]),
        ([(3, 4), (4, 6), (3,), None, (1, 6)], {}, [(3, 6)]),
        ([(3, 4), (4, 6), (3,), (6,), (3, 6)], {}, [(3, 6)]),
        ([(2, -1, 4), (1, 4, 6), (-1,), (-1,), (-1, 6)], {}, [(2, -1, 6)]),
        ([(2, 3, 4), (4, 6), UNKNOWN_RANK, None, None], {}, [(2, 3, 6)]),
        ([(2, 3, 4), (5, 6), (3,), None, None], {}, "weight.shape[-2] must equal x.shape[-1] (4), got (5, 6)"),
        ([(2, 4, 3), (6, 5), (3,), None, None], TRANSPOSED, "weight.shape[-1] must equal x.shape[-2] (4), got (6, 5)"),
        ([(3, 4), (4, 6), (4,), None, None], {}, "weight.shape[-1] must be a multiple of heads.shape[0] (4), got 6"),
        ([(3, 4), (4, 6), (0,), None, None], {}, "weight.shape[-1] must be a multiple of heads.shape[0] (0), got 6"),
        ([(3, 4), (4, 6), (3,), (5,), None], {}, "bias.shape[0] must equal weight.shape[-1] (6), got (5,)"),
        ([(3, 4), (4, 6), (3,), None, (2, 6)], {}, "mask.shape[0] must be 1 or x.shape[-2] (3), got (2, 6)"),
        ([(-9, 4), (4, 6), (3,), None, None], {}, "x must have no negative dim, got shape (-9, 4)"),
    ],
}


@pytest.mark.parametrize(("name", "row"), [(name, row) for name, rows in RULES.items() for row in rows])
def test_rules(name, row):
    signature, (shapes, attributes, expected) = signature_of(name), row
    found = outcome(lambda: infer_shapes(signature, shapes, signature.check_attributes(attributes)))
    assert found == (expected if isinstance(expected, list) else (ValueError, f"{name}: {expected}"))


WRONG = [
    ("windows", "apart,before", "apart,nothing", "must be of an output, and name four int attributes"),
    ("windows", "(h,k,", "(h,z,", "'h' and 'z' of y must be dims of inputs"),
    ("windows", '"T[k]"', '"T[k window(h,k,apart,before,after,stride)]"', "must be of an output"),
    # An output has room for every choice.
    *(
        ("parts", old, new, f"parts: '@{name}' of y must name a string or bool attribute with axes in [-4, 3]")
        for old, new, name in (("axes: [-2, 0]", "axes: [-2, 4]", "layout"), ("s@layout", "s@axis", "axis"))
    ),
    ("matmul", "y: T[*b m n]", "y: G[*b m n]", "dtype variables ['G'] of outputs stand in optional inputs only"),
    ("matmul", "?m n]\n  outputs:\n    y: T[*b m n]", "q]\n  outputs:\n    y: T[q]",
     "'q' of y stands in optional inputs only"),
    ("matmul", "optional: [bias, mask]", "optional: [bais]", "'optional' must name inputs, got ['bais']"),
    ("matmul", "optional: [bias, mask]", "optional: [bias]\nwrites: [bias]", "may not be optional, got ['bias']"),
    ("matmul", "multiples: {n: h}", "multiples: {n: b}",
     "multiples: 'b' must be an int attribute > 0 or one dim, 'n' one dim"),
    ("matmul", "mask: T[?m n]", "mask: T[?b n]", "'b' is used with and without '*'"),
    ("matmul", "x: T[*b m k@transpose_x]", "x: T[ones(b) m k@transpose_x]", "'b' of x stands in no input"),
    ("matmul", "bias: G[n]", "bias: G[?q]", "'?q' of bias needs an earlier input's 'q'"),
    ("matmul", "axes: [-1, -2]", "axes: [-1]",
     "attribute 'transpose_x': 'axes' must give an axis for each choice"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "message"), WRONG)
def test_wrong_definitions(name, old, new, message, tmp_path):
    assert old in DEFINITIONS[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        load(tmp_path, name, DEFINITIONS[name].replace(old, new, 1))


@pytest.mark.parametrize(
    "text",
    [
        "~b@axis",
        "2*",
        "*b@axis",
        "b@x c@y",
        "D",
        "-1",
        "0*b",
        "=",
        "=2",
        "ones(2)",
        "ones(D)",
        "=a+",
        "=a+2",
        "=+a",
        "window(h,k)",
    ],
)
def test_malformed_rules(text):
    with pytest.raises(ValueError, match=r"^shape rule "):
        ShapeRule.parse(text)


def test_dtype_messages():
    signature = registry.signature("rms_norm_grad")
    with pytest.raises(TypeError) as error:
        infer_types(signature, ["float16", "float16", "float16", "float32", "float16"])
    assert str(error.value) == "rms_norm_grad: drstd.dtype must be float32, got float16"
    with pytest.raises(TypeError) as error:
        infer_types(signature, ["float16", "float32", "float32", "float32", "float16"])
    assert str(error.value) == "rms_norm_grad: x.dtype must be float16 when dy.dtype is float16, got float32"


def test_a_place_beyond_the_dims_of_an_input_that_is_completed():
    parts = signature_of("parts")
    shapes = [(4, 5, 3, 8), (5,)]
    assert complete_shapes(parts, shapes, {"axis": -1}) == [*shapes, (8, 2, 4)]
    for axis in (3, -4, 2**63 - 1, -(2**63)):
        with pytest.raises(ValueError, match=rf"^parts: axis must be in \[-3, 2\], got {axis}$"):
            complete_shapes(parts, shapes, {"axis": axis})


def test_dtypes_of_optional_inputs():
    matmul = signature_of("matmul")
    assert infer_types(matmul, ["float32", "float32", "float32", None, None]) == ["float32"]
    with pytest.raises(TypeError, match=r"^matmul: bias.dtype must be float16, got float32$"):
        infer_types(matmul, ["float32", "float32", "float32", "float32", None])
    with pytest.raises(TypeError, match=r"^matmul: weight must be a tensor, and is absent$"):
        infer_types(matmul, ["float32", None, "float32", None, None])
