/*!
 * Multiplies rows of integers of 8 or 4 bits, which have a scale, and an offset, for each group, with a row of integers
 * with a scale for each group, for vector_unit.cpp only:
 *
 *     result = sum over g of (P[g] xScale[g] + offset[g] xSum[g]) scale[g]
 *
 * where P[g] is the sum of products of group g (packed_integers_unit.h). Each operation rounds.
 *
 * Groups are taken eight at a time, of rows that follow each other in memory wherever a row ends. The groups of x
 * repeat for each row: the period is their number, or twice that if it is odd, as two groups of 4 bits are a vector.
 */
#ifndef ASCENDC_HOST_SIMD_PACKED_ROWS_UNIT_H
#define ASCENDC_HOST_SIMD_PACKED_ROWS_UNIT_H

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "simd/packed_integers_unit.h"
#include "simd/simd.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

constexpr uint32_t MOST_ROW_GROUPS = 64;  // a repeat

#if defined(HOST_SIMD_AVX512) || defined(HOST_SIMD_AVX2)

HOST_INLINE __m256 LoadEight(const float* p)
{
    return _mm256_loadu_ps(p);
}
HOST_INLINE __m256 LoadEight(const half* p)
{
    return _mm256_cvtph_ps(LoadRaw<__m128i>(p));
}
HOST_INLINE __m256 LoadEight(const bfloat16_t* p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(LoadRaw<__m128i>(p)), 16));
}

// Holds a row of x again and again, with its scales and sums, so that vectors are read from any eighth group on.
template <uint32_t PER_BYTE, uint32_t GROUP>
struct PeriodicFactors {
    static constexpr uint32_t MOST = 2 * MOST_ROW_GROUPS + MOST_SUMS_AT_ONCE;
    static_assert(MOST <= MOST_PACKED_GROUPS, "the sums keep as many");

    uint32_t groups = 0;  // 0: of no row yet
    uint32_t period = 0;
    std::conditional_t<PER_BYTE == 1, ByteSums<GROUP>, NibbleSums<GROUP>> sums;
    float xScale[MOST];
    float xSum[MOST];
    int8_t integers[MOST * GROUP];

    // Multiplies a row of x with so many groups.
    void Take(uint32_t count, const int8_t* x, const float* scaleOfX, const float* sumsOfX)
    {
        const bool same = count == groups && memcmp(integers, x, groups * GROUP) == 0;
        groups = count;
        period = groups % 2 == 0 ? groups : 2 * groups;
        const uint32_t all = period + MOST_SUMS_AT_ONCE;
        for (uint32_t first = 0; first < all; first += groups) {
            const uint32_t some = std::min(groups, all - first);
            if (!same) {
                memcpy(integers + first * GROUP, x, some * GROUP);
            }
            memcpy(xScale + first, scaleOfX, some * sizeof(float));
            memcpy(xSum + first, sumsOfX, some * sizeof(float));
        }
        if (!same) {
            sums.Take(integers, all);
        }
    }
};

// Computes the terms of `count` groups that lie one behind the other.
template <bool OFFSET, uint32_t PER_BYTE, uint32_t GROUP, typename S>
HOST_INLINE void TermsOf(const PeriodicFactors<PER_BYTE, GROUP>& x, const uint8_t* numbers, const S* scale,
                         const S* offset, uint32_t count, float* terms)
{
    constexpr uint32_t STEP = GROUP / PER_BYTE;
    constexpr uint32_t AHEAD = 4096;
    // Numbers of 8 bits take so little time that prefetches of each line would hold up the CPU's own. One thread of a
    // Zen 4, GB/s without, of each and of every other line: 8 bits 20, 20 and 25, 4 bits 15, 21 and 17.
    constexpr uint32_t LINES = PER_BYTE == 1 ? 128 : 64;
    const auto termsOf = [&x](__m256i sums, uint32_t at, __m256 scales, __m256 offsets) {
        __m256 term = _mm256_mul_ps(_mm256_cvtepi32_ps(sums), _mm256_loadu_ps(x.xScale + at));
        if (OFFSET) {
            term = _mm256_add_ps(term, _mm256_mul_ps(offsets, _mm256_loadu_ps(x.xSum + at)));
        }
        return _mm256_mul_ps(term, scales);
    };
    uint32_t at = 0;
    uint32_t s = 0;
    const auto advance = [&](uint32_t groups, uint32_t step) {  // no division: it takes as long as all else
        s += groups;
        at += step;
        at -= at >= x.period ? x.period : 0;
    };
#if defined(HOST_SIMD_AVX512)
#if defined(__AVX512VNNI__)
    constexpr bool SIXTEEN = GROUP == 32;
#else
    constexpr bool SIXTEEN = GROUP == 32 && PER_BYTE == 2;
#endif
    if constexpr (SIXTEEN) {
        const uint32_t step = MOST_SUMS_AT_ONCE % x.period;
        while (s + MOST_SUMS_AT_ONCE <= count) {
            const uint8_t* const first = numbers + s * STEP;
#pragma GCC unroll 8
            for (uint32_t line = 0; line < MOST_SUMS_AT_ONCE * STEP; line += LINES) {
                __builtin_prefetch(first + AHEAD + line, 0, L2_CACHE);
            }
            const __m512 sums = _mm512_cvtepi32_ps(x.sums.OfSixteen(first, at));
            __m512 term = _mm512_mul_ps(sums, _mm512_loadu_ps(x.xScale + at));
            if (OFFSET) {
                term = _mm512_add_ps(term, _mm512_mul_ps(Load(offset + s), _mm512_loadu_ps(x.xSum + at)));
            }
            _mm512_storeu_ps(terms + s, _mm512_mul_ps(term, Load(scale + s)));
            advance(MOST_SUMS_AT_ONCE, step);
        }
    }
#endif
    const uint32_t step = SUMS_AT_ONCE % x.period;
    while (s + SUMS_AT_ONCE <= count) {
        const uint8_t* const first = numbers + s * STEP;
#pragma GCC unroll 8
        for (uint32_t line = 0; line < SUMS_AT_ONCE * STEP; line += LINES) {
            __builtin_prefetch(first + AHEAD + line, 0, L2_CACHE);
        }
        const __m256i sums = x.sums.Of(NextGroups{first, STEP, at});
        const __m256 offsets = OFFSET ? LoadEight(offset + s) : _mm256_setzero_ps();
        _mm256_storeu_ps(terms + s, termsOf(sums, at, LoadEight(scale + s), offsets));
        advance(SUMS_AT_ONCE, step);
    }
    if (s < count) {
        const uint32_t tail = count - s;
        S scales[SUMS_AT_ONCE] = {};
        S offsets[SUMS_AT_ONCE] = {};
        std::copy_n(scale + s, tail, scales);
        if (OFFSET) {
            std::copy_n(offset + s, tail, offsets);
        }
        const __m256i sums = x.sums.Of(LastGroups{{numbers + s * STEP, STEP, at}, tail});
        _mm256_storeu_ps(terms + s, termsOf(sums, at, LoadEight(scales), LoadEight(offsets)));
    }
}

#endif

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_PACKED_ROWS_UNIT_H
