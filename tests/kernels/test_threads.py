"""Results of every operator are the same bits on any number of threads, forward and gradient, with tiles of a host and
of a chip. Long rows that cores share are in test_shared_rows.py, groups that they share in test_group_norm.py, and the
gradients of convolutions and attention, which the samples do not launch, in their own files.
"""

from itertools import product

import pytest

from ms_ascend_ops import registry
from ms_ascend_ops.library import get_num_threads, native, set_num_threads
from tests.dtypes import FLOATS
from tests.every_operator import examples
from tests.native import tiles_of_a_chip

# Sizes of the samples of which several cores get a part, with tails; the others take (150, 700).
SHAPES = {
    "block_sparse_matmul": (30, 10, 70, 40),
    "conv2d": (1, 40, 40, 40, 3, 1, 1),
    "conv2d_batch_norm": (1, 40, 40, 40, 3, 1, 1),
    "conv2d_group_norm": (2, 20, 64, 25),
    "flash_attention": (2, 4, 2, 150, 300, 32),
    "flash_attention_varlen": (150, 3, 4, 2, 32),
    "group_norm": (3, 64, 20, 25),
    "grouped_matmul": (270, 4, 260, 130),
    "grouped_quant_matmul": (150, 4, 260, 96),
    "kv_cache_update": (2, 90, 200, 4, 64),
    "linear_gelu_mul": (150, 700, 130),
    "linear_silu_mul": (150, 700, 130),
    "matmul": (150, 700, 260),
    "moe_gating_top_k": (900, 60),
    "moe_token_permute": (900, 4, 70),
    "moe_token_unpermute": (200, 4, 333),
    "paged_attention": (3, 1, 10, 5, 600, 6, 24),
    "qkv_rotary_embedding": (3, 37, 48, 20),
    "quant_matmul": (150, 300, 96),
    "rotary_embedding": (2, 300, 7, 64),
    "scaled_masked_softmax": (2, 4, 100, 129),
    "sliced_sparse_matmul": (2, 333, 400, 20),
    "sparse_matmul": (300, 200, 200, 20),
    "weight_quant_matmul": (40, 70, 576, 4),
    "weight_quant_swiglu": (40, 70, 576, 4),
}
# A case of a gradient launches the operator itself, too.
EXAMPLES = [one for one in examples() if one.gradient or not registry.op_spec(one.name).differentiable]


def bits(example, dtype, threads):
    case = example.case(dtype, SHAPES.get(example.name, (150, 700)))
    set_num_threads(threads)
    for launch in case.launches:
        native().launch(launch.kernel, launch.inputs, launch.outputs, launch.attributes)
    return [result.tobytes() for result in case.results]


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_same_bits(example):
    before = get_num_threads()
    try:
        for dtype, chip in product(FLOATS, (False, True)):
            with tiles_of_a_chip(chip):
                assert bits(example, dtype, 1) == bits(example, dtype, 3), (dtype, chip)
    finally:
        set_num_threads(before)
