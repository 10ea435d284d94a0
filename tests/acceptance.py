"""When an operator is accurate enough.

Golden values are computed in float64 from the same, already rounded inputs. Three rules: a mixed tolerance for 99 % of
the elements with a cap for the rest, which CANN's operator libraries use; mean and maximum relative error (MERE, MARE);
and the error of the same computation written with stock operators in the same dtype.
"""

import numpy as np

from ms_ascend_ops.acceptance import RULES, WITHIN
from tests.dtypes import EPSILON, LARGEST, SMALLEST


def assert_accurate(actual, golden, dtype, terms=None):
    """Rules 1 and 2, for values that were decoded to float64.

    `terms` is for results that cancel, as gradients do: the sum of the magnitudes of what is added up. Where the sum is
    much smaller than its terms, a float32 sum has no relative accuracy: MERE and MARE count the error beyond 2 ULP of
    the terms.
    """
    actual, golden = np.asarray(actual, np.float64), np.asarray(golden, np.float64)
    assert actual.shape == golden.shape
    finite = _assert_same_specials(actual, golden, dtype)
    if not finite.any():
        return
    rule, relative_tolerance, absolute_tolerance = RULES[dtype], *RULES[dtype].tolerance
    error, magnitude = np.abs(actual[finite] - golden[finite]), np.abs(golden[finite])

    within = np.mean(error <= absolute_tolerance + relative_tolerance * magnitude)
    assert within >= WITHIN, f"only {within:.4%} of the elements are within the tolerance"
    excess = error - np.maximum(rule.cap, 32 * EPSILON[dtype] * magnitude)
    worst = int(np.argmax(excess))
    assert excess[worst] <= 0, f"an error of {error[worst]:.3g} at a golden value of {golden[finite][worst]:.6g}"

    if terms is not None:
        error = np.maximum(error - 2 * EPSILON["float32"] * np.broadcast_to(terms, golden.shape)[finite], 0)
    # Below the smallest normal number a dtype has no relative precision; 1e-7 is the rule's own floor.
    relative = error / (magnitude + max(1e-7, SMALLEST[dtype]))
    assert relative.mean() < rule.mere, f"MERE is {relative.mean():.3g}, the bound {rule.mere:.3g}"
    worst = int(np.argmax(relative))
    assert relative[worst] < 10 * rule.mere, (
        f"MARE is {relative[worst]:.3g}, the bound {10 * rule.mere:.3g}, at a golden {golden[finite][worst]:.6g}"
    )


def assert_close(actual, expected, rtol=0.0, atol=1e-5, **options):
    """For float32 sums of the same terms in another order: `atol` is that of values of about 1.

    Where they are larger, it grows with the largest one, as the rounding of sums does that cancel. Their order differs
    between CPUs and between alignments of memory. Not for what is computed element by element, nor for tensors whose
    small elements matter beside large ones: there numpy.testing.assert_allclose is right.
    """
    sizes = np.abs(np.asarray(expected, np.float64))
    largest = np.max(sizes, initial=1.0, where=np.isfinite(sizes))
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol * largest, **options)


def assert_not_worse(actual, framework, golden, dtype=None):
    """Rule 3: an error of at most twice the framework's own.

    With `dtype`, for few elements: the framework may have rounded the largest one luckily; it counts as half an ULP.
    """
    ours, theirs = (np.abs(np.asarray(values, np.float64) - golden).max(initial=0.0) for values in (actual, framework))
    largest = np.abs(golden).max(initial=0.0)
    if dtype is not None and largest > 0:
        theirs = max(theirs, 2.0 ** np.floor(np.log2(largest)) * EPSILON[dtype] / 2)
    assert ours <= 2 * theirs + 1e-6, f"the largest error is {ours:.3g}, that of stock operators {theirs:.3g}"


def _assert_same_specials(actual, golden, dtype):
    """NaN and Inf stand where the golden values have them; returns where both are finite.

    A golden value at the edge of the range may round to the largest number or to Inf.
    """
    assert np.array_equal(np.isnan(actual), np.isnan(golden)), "NaN stands elsewhere than in the golden values"
    edge = np.abs(golden) > LARGEST[dtype] * (1 - RULES[dtype].tolerance[0])
    assert np.all(np.sign(actual[edge]) == np.sign(golden[edge])), "an Inf has the wrong sign"
    assert np.all(np.abs(actual[edge]) >= LARGEST[dtype] * (1 - 2 * RULES[dtype].tolerance[0]))
    beyond = np.abs(golden) > LARGEST[dtype] * (1 + EPSILON[dtype])
    assert np.all(np.isinf(actual[beyond])), "a finite value stands where the golden one overflows"
    finite = ~(edge | np.isnan(golden))
    assert np.all(np.isfinite(actual[finite])), "a value overflows that the golden one does not"
    return finite
