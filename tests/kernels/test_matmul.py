import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.inputs import draw
from tests.native import launch
from tests.reference import matmul as reference

ROOT = Path(__file__).parents[2]  # where the package lies that is tested
NEEDS_ONEDNN = pytest.mark.skipif(find_spec("mindspore") is None, reason="MindSpore brings oneDNN")

CASES = [  # batch of x, of the weight, m, k, n
    ((), (), 1, 1, 1),
    ((), (), 1, 300, 700),  # one row
    ((), (), 4, 37, 70),  # a few: all at once, with tails of vectors
    ((), (), 7, 130, 530),  # and in two groups
    ((), (), 17, 33, 65),  # sizes that fill no block
    ((), (), 200, 64, 520),  # several tiles each way, with tails
    ((), (), 600, 20, 1100),  # tiles of a host's sizes
    ((2, 3), (), 5, 16, 8),  # rows of all batches are one matrix
    ((2, 3), (2, 3), 9, 12, 40),  # a weight each
    ((4,), (), 0, 8, 8),  # no rows
    ((), (), 3, 0, 5),  # sums of nothing
]
TYPES = [("float16", "float16"), ("bfloat16", "float32"), ("float32", "float32")]
ACTIVATIONS = list(reference.ACTIVATIONS)


def arrays(rng, case, transpose_x, transpose_weight):
    batch, weights, m, k, n = case
    x, weight = draw(rng, (*batch, m, k)), draw(rng, (*weights, k, n)) / max(1, k) ** 0.5
    return (x.swapaxes(-1, -2) if transpose_x else x), (weight.swapaxes(-1, -2) if transpose_weight else weight)


@cover(
    "case", CASES, types=TYPES, transposes=[(False, False), (False, True), (True, False), (True, True)], has_bias=[0, 1]
)
def test_products(case, types, transposes, has_bias):
    rng = np.random.default_rng(sum(case[2:]))
    x, weight = arrays(rng, case, *transposes)
    attributes = dict(zip(("transpose_x", "transpose_weight"), transposes, strict=True))
    inputs = [x, weight, draw(rng, case[-1:]) if has_bias else None]
    (y,), rounded = launch("matmul", inputs, [types[0], *types], **attributes)
    terms = reference.forward(*(None if values is None else np.abs(values) for values in rounded), **attributes)
    # The order of a library's sums is its own: some ULP of the terms.
    assert_accurate(y, reference.forward(*rounded, **attributes), types[0], 8 * terms)


PANELS = [  # what a host brings into panels before AVX-512: case, transposes
    (((16,), (), 200, 261, 270), (True, True)),  # several each way, with tails
    (((), (), 40, 261, 512), (False, False)),  # rows that fall into few sets of a cache
    (((), (), 40, 261, 270), (False, True)),  # of 16 bits only
    (((), (), 40, 261, 270), (True, False)),  # x is brought into rows
]


def check_panels(case, transposes, types):
    x, weight = arrays(np.random.default_rng(0), case, *transposes)
    attributes = dict(zip(("transpose_x", "transpose_weight"), transposes, strict=True))
    (y,), rounded = launch("matmul", [x, weight, None], [types[0], *types], **attributes)
    terms = reference.forward(*map(np.abs, rounded[:2]), **attributes)
    assert_accurate(y, reference.forward(*rounded, **attributes), types[0], 8 * terms)


@pytest.mark.skipif("MS_ASCEND_OPS_WRONG_KERNELS" in os.environ, reason="no rule is checked there")
@NEEDS_ONEDNN
def test_panels():
    """In a process in which oneDNN leaves AVX-512 alone."""
    code = """if True:
    import mindspore  # brings oneDNN
    from tests.kernels.test_matmul import PANELS, TYPES, check_panels
    for case, transposes in PANELS:
        for types in TYPES:
            check_panels(case, transposes, types)
    """
    environment = dict(os.environ) | {"ONEDNN_MAX_CPU_ISA": "AVX2"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@cover("case", [CASES[1], CASES[4], CASES[5]], types=TYPES, activation=ACTIVATIONS, has_bias=[0, 1])
def test_epilogues(case, types, activation, has_bias):
    rng = np.random.default_rng(sum(case[2:]))
    x, weight = arrays(rng, case, False, True)
    inputs = [x, weight, draw(rng, case[-1:]) if has_bias else None]
    attributes = {"transpose_weight": True, "activation": activation}
    (y,), rounded = launch("matmul", inputs, [types[0], *types], **attributes)
    magnitudes = (None if values is None else np.abs(values) for values in rounded)
    terms = reference.forward(*magnitudes, transpose_weight=True)
    assert_accurate(y, reference.forward(*rounded, **attributes), types[0], 8 * terms)


# Products of a few rows, and of more; the path that results go to follows.
PRODUCTS = """
import sys
import mindspore  # brings oneDNN
import numpy as np
from ms_ascend_ops import _C
from tests.acceptance import assert_accurate
from tests.native import launch

rng, results = np.random.default_rng(0), []
for rows in (1, 6, 8, 40):
    for dtype in ("float16", "bfloat16", "float32"):
        for transposed in (False, True):
            weight = rng.normal(size=(150, 90) if transposed else (90, 150))
            (y,), exact = launch(
                "matmul", [rng.normal(size=(rows, 90)), weight, None], [dtype] * 3, transpose_weight=transposed
            )
            golden, terms = (a @ (b.T if transposed else b) for a, b in (exact[:2], map(np.abs, exact[:2])))
            assert_accurate(y, golden, dtype, 8 * terms)
            results.append(y)
np.savez(sys.argv[1], *results)
print(_C.product_library()[0])
"""


@pytest.mark.values
@NEEDS_ONEDNN
def test_a_few_rows_are_the_same_bits_without_a_library(tmp_path):
    """More rows, or with AVX-512 5 of a wider weight, are multiplied by plain loops then. Both are right."""
    results = []
    for library in (None, "0"):
        environment = dict(os.environ) | ({} if library is None else {"MS_ASCEND_OPS_ONEDNN": library})
        path = tmp_path / f"{library}.npz"
        command = [sys.executable, "-c", PRODUCTS, str(path)]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split()[0] == ("oneDNN" if library is None else "plain")
        results.append(list(np.load(path).values()))
    few = 3 * 3 * 2
    for with_library, without in zip(results[0][:few], results[1][:few], strict=True):
        np.testing.assert_array_equal(with_library, without)
