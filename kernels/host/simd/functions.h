/*!
 * Implements float32 functions. Their error is at most about 1 ULP; that of Exp with AVX-512 1.75.
 */
#ifndef ASCENDC_HOST_SIMD_FUNCTIONS_H
#define ASCENDC_HOST_SIMD_FUNCTIONS_H

#include "simd/function_constants.h"
#include "simd/vectors.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

#if defined(HOST_SIMD_AVX512)

// exp(x) = 2^n * exp(r), n = round(32 x / ln 2) / 32. Takes any x: results down to the smallest subnormal and up to the
// largest float come out.
HOST_INLINE VF ExpOf(VF x)
{
    constexpr int SMALLER_WITH_SIGN = 2;  // of two magnitudes, with the sign of the first; a number, if one is NaN
    const VF shifted = Fma(x, Set(EXP_LOG2E), Set(EXP_TABLE_MAGIC));
    const VF n = shifted - Set(EXP_TABLE_MAGIC);
    VF r = Fma(n, Set(-LN2_HIGH), x);
    r = Fma(n, Set(-LN2_LOW), r);
    r = _mm512_range_ps(r, Set(EXP_TABLE_LIMIT), SMALLER_WITH_SIGN);
    const VF power = _mm512_permutex2var_ps(_mm512_loadu_ps(EXP_TABLE.data()), reinterpret_cast<__m512i>(shifted),
                                            _mm512_loadu_ps(EXP_TABLE.data() + W));
    const VF q = Fma(Set(EXP_TABLE_C2), r, Set(EXP_TABLE_C1)) * r;
    return _mm512_scalef_ps(Fma(power, q, power), n);  // rounds n down
}

template <uint32_t N>
HOST_INLINE void Exp(VF (&x)[N])
{
#pragma GCC unroll 8
    for (uint32_t k = 0; k < N; ++k) {
        x[k] = ExpOf(x[k]);
    }
}

#else

// exp(x) = 2^n * p, p = exp(r), n = round(x / ln 2), |r| <= ln(2) / 2: a minimax polynomial. n is in the low bits of
// `shifted`.
struct ExpParts {
    VF p;
    VF shifted;
};

HOST_INLINE ExpParts SplitExp(VF x)
{
    const VF shifted = Fma(x, Set(EXP_LOG2E), Set(EXP_MAGIC));
    const VF n = shifted - Set(EXP_MAGIC);
    VF r = Fma(n, Set(-LN2_HIGH), x);
    r = Fma(n, Set(-LN2_LOW), r);
    VF p = Fma(Set(EXP_POLYNOMIAL[0]), r, Set(EXP_POLYNOMIAL[1]));
    p = Fma(p, r, Set(EXP_POLYNOMIAL[2]));
    p = Fma(p, r, Set(EXP_POLYNOMIAL[3]));
    p = Fma(p, r, Set(EXP_POLYNOMIAL[4]));
    if constexpr (FUSES) {
        p = Fma(p, r, Set(1.0f));
        return {Fma(p, r, Set(1.0f)), shifted};
    }
    return {(p * r * r + r) + Set(1.0f), shifted};  // 1 + r is not rounded twice
}

// For any x: results down to the smallest subnormal and up to the largest float come out.
HOST_INLINE VF ExpOf(VF x)
{
    const ExpParts parts = SplitExp(LargerOf(Set(EXP_LEAST), SmallerOf(Set(EXP_MOST), x)));  // NaN stays
    const VI n = AsInt(parts.shifted) - AsInt(Set(EXP_MAGIC));
    const VI half1 = n >> 1;
    const VI half2 = n - half1;
    return (parts.p * AsFloat((half1 + 127) << 23)) * AsFloat((half2 + 127) << 23);
}

// Calculates several vectors: where all |x| < 87, n is added to the exponents.
template <uint32_t N>
HOST_INLINE void Exp(VF (&x)[N])
{
    VI largest = SetInt(0);
#pragma GCC unroll 8
    for (uint32_t k = 0; k < N; ++k) {
        const VI magnitude = AsInt(x[k]) & 0x7fffffff;  // as an integer, NaN is larger than any number
        largest = magnitude > largest ? magnitude : largest;
    }
    if (__builtin_expect(Any(largest > AsInt(Set(EXP_SMALL))), 0)) {
#pragma GCC unroll 8
        for (uint32_t k = 0; k < N; ++k) {
            x[k] = ExpOf(x[k]);
        }
        return;
    }
#pragma GCC unroll 8
    for (uint32_t k = 0; k < N; ++k) {
        const ExpParts parts = SplitExp(x[k]);
        x[k] = AsFloat(AsInt(parts.p) + (AsInt(parts.shifted) << 23));
    }
}

#endif

// Computes ln(x) as Cephes' logf does: x = m * 2^e with sqrt(1/2) <= m < sqrt(2).
HOST_INLINE VF LnOf(VF x)
{
    const VI tiny = x < Set(LN_TINY);
    const VF scaled = Choose(tiny, x * Set(LN_SCALE), x);  // subnormals: times 2^24
    const VI bits = AsInt(scaled);
    VI e = ((bits >> 23) & 0xff) - 126;
    e -= tiny & SetInt(24);
    VF m = AsFloat((bits & 0x007fffff) | 0x3f000000);
    const VI low = m < Set(LN_SQRT_HALF);
    e += low;
    m = Choose(low, m + m, m) - Set(1.0f);
    const VF ef = __builtin_convertvector(e, VF);
    const VF z = m * m;
    VF p = Set(LN_POLYNOMIAL[0]);
#pragma GCC unroll 8
    for (size_t i = 1; i < LN_POLYNOMIAL.size(); ++i) {
        p = Fma(p, m, Set(LN_POLYNOMIAL[i]));
    }
    VF y = m * z * p;
    y = Fma(ef, Set(LN2_LOW), y);
    y = Fma(z, Set(-0.5f), y);
    VF result = Fma(ef, Set(LN2_HIGH), m + y);
    const VF infinity = Set(__builtin_inff());
    result = Choose(x == infinity, infinity, result);
    result = Choose(x == Set(0.0f), -infinity, result);
    return Choose(~(x >= Set(0.0f)), Set(__builtin_nanf("")), result);
}

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_FUNCTIONS_H
