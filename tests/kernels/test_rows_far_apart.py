"""Products of matrices whose rows lie 65,536 elements apart in memory, and more: further than one copy of a chip's cube
steps. The checked build knows the limits of its instructions; a CPU has none."""

import numpy as np
import pytest

from ms_ascend_ops import _C
from tests.acceptance import assert_accurate
from tests.kernels import (
    test_block_sparse_matmul,
    test_conv2d,
    test_flash_attention,
    test_grouped_matmul,
    test_matmul,
    test_paged_attention,
    test_quant_matmul,
    test_weight_quant_matmul,
)
from tests.native import launch
from tests.reference import matmul as reference

FAR = 1 << 16
CHIP = {"core_num": 48, "ub_bytes": 188160}


@pytest.mark.parametrize(
    ("sizes", "transposes", "dtype"),
    [
        ((3, 5, 128256), (False, False), "float16"),  # a head of a language model, not transposed
        ((2, FAR, 3), (False, True), "bfloat16"),
        ((2, FAR + 1, 17), (False, False), "float32"),
        ((FAR, 7, 5), (True, False), "float16"),
        ((FAR + 9, 3, 4), (True, True), "float32"),
    ],
)
def test_matmul_of_long_rows(sizes, transposes, dtype):
    x, weight = test_matmul.arrays(np.random.default_rng(0), ((), (), *sizes), *transposes)
    attributes = dict(zip(("transpose_x", "transpose_weight"), transposes, strict=True))
    (y,), rounded = launch("matmul", [x, weight, None], [dtype] * 3, **attributes)
    terms = reference.forward(*map(np.abs, rounded[:2]), **attributes)
    assert_accurate(y, reference.forward(*rounded, **attributes), dtype, 8 * terms)


@pytest.mark.parametrize("transpose_weight", [False, True])
def test_groups_of_long_rows(transpose_weight):
    test_grouped_matmul.check((4, FAR, [2, 0, 3]), "float16", transpose_weight)
    test_grouped_matmul.check((FAR, 3, [1, 2]), "bfloat16", transpose_weight)


def test_quantised_long_rows():
    rng = np.random.default_rng(0)
    inputs = test_quant_matmul.arrays(rng, ((5,), 3, FAR), 1, 0)
    (y,), rounded = test_quant_matmul.run(inputs, "float32")
    golden = test_quant_matmul.reference.forward(*rounded)
    assert_accurate(y, golden, "float32", 4 * np.abs(golden))
    test_weight_quant_matmul.check(
        test_weight_quant_matmul.arrays(rng, ((9,), 3, FAR, 1024), 8, False, False), ("float16", "float16")
    )


@pytest.mark.parametrize("kernel", [(1, 1), (3, 3)])
@pytest.mark.parametrize(("sizes", "dtype"), [((256, 256), "float16"), ((131, 600), "float32")])
def test_planes_of_many_positions(kernel, sizes, dtype):
    """And the gradients of such a convolution, channels first."""
    same = {"pad": (1, 1, 1, 1)} if kernel == (3, 3) else {}
    test_conv2d.check(((1, 3, *sizes, 2, kernel), same), (dtype, dtype), "NCHW", False)


def test_heads_behind_each_other():
    """BSND: from a position to the next lie all heads."""
    case = (1, 513, 513, 2, 3, 128, 128)
    test_flash_attention.test_forward(case, "float16", "all", "BSND")
    test_flash_attention.test_gradient(case, "float16", "causal", "BSND")


def test_heads_of_a_paged_cache():
    case = (2, 513, 513, 128, 128, 4, (5, 3))
    out, rounded = test_paged_attention.attend(test_paged_attention.inputs(case, "runs"), "float16", scale=0.1)
    test_paged_attention.check(out, rounded, "float16", 0.1)


def test_blocks_times_long_rows():
    test_block_sparse_matmul.test_product_and_gradient(([1], 1, FAR), "float16")


@pytest.mark.parametrize(
    ("name", "shapes", "attributes", "what"),
    [
        ("matmul", [(300, 1 << 26), (16, 1 << 26), None], {"transpose_weight": True}, "a row of x"),
        ("matmul", [(16, 4096), (4096, 1 << 27), None], {}, "a row of the weight"),
        ("conv2d", [(1, 300, 1 << 13, 1 << 13), (8, 300, 1, 1), None], {}, "a row of x"),
        ("flash_attention", [(1, 300, 1 << 17, 128)] * 3 + [None], {"layout": "BSND"}, "a row of the keys"),
    ],
)
def test_rows_that_one_copy_cannot_hold_are_refused(name, shapes, attributes, what):
    """CANN counts the elements from the first row of a copy to its last in 32 bits."""
    dtypes = [None if shape is None else "float16" for shape in shapes]
    with pytest.raises(ValueError, match=rf"{name}: the elements from {what} to the next must be at most \d+, got \d+"):
        _C.tiling(name, shapes, dtypes, attributes, **CHIP)
