/*!
 * Rows of integers of 8 or 4 bits with a scale, and an offset, for each group, times a row of integers with a scale for
 * each group, for vector_unit.cpp only:
 *
 *     result = sum over g of (P[g] xScale[g] + offset[g] xSum[g]) scale[g]
 *
 * where P[g] is the sum of products of group g (packed_integers_unit.h). Each operation rounds, and the groups of a row
 * are added up as WholeReduceSum does: the results are those of the instructions (passes/packed_dots.h), bit for bit.
 *
 * Groups are taken eight at a time, of rows that follow each other in memory wherever a row ends. What x has comes in a
 * period of its groups, or twice those if they are odd, as two groups of 4 bits are a vector.
 */
#ifndef ASCENDC_HOST_SIMD_PACKED_ROWS_UNIT_H
#define ASCENDC_HOST_SIMD_PACKED_ROWS_UNIT_H

#include <algorithm>
#include <cstdint>
#include <memory>

#include "ir/instruction.h"
#include "simd/folding.h"
#include "simd/packed_integers_unit.h"
#include "simd/simd.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

constexpr uint32_t MOST_ROW_GROUPS = 64;  // a repeat

HOST_INLINE float FactorAt(const float* p)
{
    return *p;
}
HOST_INLINE float FactorAt(const half* p)
{
    uint16_t bits;
    memcpy(&bits, p, sizeof(bits));
    return HalfToFloatScalar(bits);
}

// Operands: results, numbers, integers of x, xScale, scale, xSum, offset; the last two where there is an offset.
template <typename S>
struct PackedRowsOperands {
    uint32_t groups;
    const int8_t* integers;
    const float* xScale;
    const float* xSum;  // null: no offset
    const Instruction& self;

    explicit PackedRowsOperands(const Instruction& instruction)
        : groups(instruction.lanes),
          integers(reinterpret_cast<const int8_t*>(instruction.operands[2].base)),
          xScale(reinterpret_cast<const float*>(instruction.operands[3].base)),
          xSum(instruction.operandCount > 5 ? reinterpret_cast<const float*>(instruction.operands[5].base) : nullptr),
          self(instruction)
    {}
    const uint8_t* Numbers(uint32_t row) const
    {
        return reinterpret_cast<const uint8_t*>(self.operands[1].base + self.operands[1].stride * row);
    }
    const S* Scale(uint32_t row) const
    {
        return reinterpret_cast<const S*>(self.operands[4].base + self.operands[4].stride * row);
    }
    const S* Offset(uint32_t row) const
    {
        return xSum == nullptr ? nullptr
                               : reinterpret_cast<const S*>(self.operands[6].base + self.operands[6].stride * row);
    }
};

// The terms of a row, group by group.
template <uint32_t PER_BYTE, uint32_t GROUP, typename S>
void RowTerms(const PackedRowsOperands<S>& in, uint32_t row, float* terms)
{
    const uint8_t* const numbers = in.Numbers(row);
    for (uint32_t g = 0; g < in.groups; ++g) {
        const int32_t sum = PackedIntegerSum<PER_BYTE, GROUP>(numbers + g * GROUP / PER_BYTE, in.integers + g * GROUP);
        float term = static_cast<float>(sum) * in.xScale[g];
        if (in.xSum != nullptr) {
            term = term + FactorAt(in.Offset(row) + g) * in.xSum[g];
        }
        terms[g] = term * FactorAt(in.Scale(row) + g);
    }
}

#if defined(HOST_SIMD_AVX512) || defined(HOST_SIMD_AVX2)

HOST_INLINE __m256 LoadEight(const float* p)
{
    return _mm256_loadu_ps(p);
}
HOST_INLINE __m256 LoadEight(const half* p)
{
    return _mm256_cvtph_ps(LoadRaw<__m128i>(p));
}

#if defined(HOST_SIMD_AVX512)
HOST_INLINE __m512 LoadSixteen(const float* p)
{
    return _mm512_loadu_ps(p);
}
HOST_INLINE __m512 LoadSixteen(const half* p)
{
    return _mm512_cvtph_ps(LoadRaw<__m256i>(p));
}
#endif

// Holds the elements of x that are read from any eighth group on.
template <uint32_t PER_BYTE, uint32_t GROUP>
struct PeriodicFactors {
    static constexpr uint32_t MOST = 2 * MOST_ROW_GROUPS + MOST_SUMS_AT_ONCE;
    static_assert(MOST <= MOST_PACKED_GROUPS, "the sums keep as many");

    uint32_t groups = 0;  // 0: of no row yet
    bool opposites = false;
    uint32_t period = 0;
    std::conditional_t<PER_BYTE == 1, ByteSums<GROUP>, NibbleSums<GROUP>> sums;
    float xScale[MOST];
    float xSum[MOST];
    int8_t integers[MOST * GROUP];

    // Multiplies a row of x with so many groups. `sumsOfX` is null without offsets.
    bool Take(uint32_t count, const int8_t* x, const float* scaleOfX, const float* sumsOfX)
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
            if (sumsOfX != nullptr) {
                memcpy(xSum + first, sumsOfX, some * sizeof(float));
            }
        }
        if (!same) {
            opposites = sums.Take(integers, all, GROUP);
        }
        return opposites;
    }
};

// The terms of `count` groups that lie one behind the other.
template <bool OFFSET, uint32_t PER_BYTE, uint32_t GROUP, typename S>
HOST_INLINE void TermsOf(const PeriodicFactors<PER_BYTE, GROUP>& x, const uint8_t* numbers, const S* scale,
                         const S* offset, uint32_t count, float* terms)
{
    constexpr uint32_t STEP = GROUP / PER_BYTE;
    constexpr uint32_t AHEAD = 4096;
    constexpr int L2_CACHE = 2;  // the L1 data cache waits for fewer lines at once
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
    const auto advance = [&](uint32_t groups, uint32_t step) {  // no division: it takes as long as all the rest
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
                term = _mm512_add_ps(term, _mm512_mul_ps(LoadSixteen(offset + s), _mm512_loadu_ps(x.xSum + at)));
            }
            _mm512_storeu_ps(terms + s, _mm512_mul_ps(term, LoadSixteen(scale + s)));
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
        const uint32_t rest = count - s;
        S scales[SUMS_AT_ONCE] = {};
        S offsets[SUMS_AT_ONCE] = {};
        std::copy_n(scale + s, rest, scales);
        if (OFFSET) {
            std::copy_n(offset + s, rest, offsets);
        }
        const __m256i sums = x.sums.Of(LastGroups{{numbers + s * STEP, STEP, at}, rest});
        _mm256_storeu_ps(terms + s, termsOf(sums, at, LoadEight(scales), LoadEight(offsets)));
    }
}

#endif

template <bool OFFSET, uint32_t PER_BYTE, uint32_t GROUP, typename S>
void RunPackedRowsOf(const Instruction& self, uint32_t begin, uint32_t end)
{
    constexpr uint32_t ROWS = 8;  // at once: whole vectors of groups, and periods of x
    const PackedRowsOperands<S> in(self);
    const uint32_t groups = in.groups;
    float terms[ROWS * MOST_ROW_GROUPS + 8];
    auto* const results = reinterpret_cast<float*>(self.operands[0].base);
#if defined(HOST_SIMD_AVX512) || defined(HOST_SIMD_AVX2)
    // A kernel takes all rows of x for some rows of the weight, and then for the next ones.
    constexpr uint32_t KEPT = 8;
    static thread_local std::unique_ptr<PeriodicFactors<PER_BYTE, GROUP>> kept[KEPT];
    auto& place = kept[reinterpret_cast<uintptr_t>(in.integers) / (groups * GROUP) % KEPT];
    if (place == nullptr) {
        place = std::make_unique<PeriodicFactors<PER_BYTE, GROUP>>();
    }
    PeriodicFactors<PER_BYTE, GROUP>& x = *place;
    const bool known = x.Take(groups, in.integers, in.xScale, in.xSum);
    const int64_t factorBytes = groups * sizeof(S);
    const bool together = self.operands[1].stride == groups * GROUP / PER_BYTE &&
                          self.operands[4].stride == factorBytes && (!OFFSET || self.operands[6].stride == factorBytes);
#endif
    for (uint32_t row = begin; row < end; row += ROWS) {
        const uint32_t rows = std::min(ROWS, end - row);
#if defined(HOST_SIMD_AVX512) || defined(HOST_SIMD_AVX2)
        if (known && together) {
            TermsOf<OFFSET>(x, in.Numbers(row), in.Scale(row), in.Offset(row), rows * groups, terms);
        }
        for (uint32_t r = 0; known && !together && r < rows; ++r) {
            TermsOf<OFFSET>(x, in.Numbers(row + r), in.Scale(row + r), in.Offset(row + r), groups, terms + r * groups);
        }
#else
        constexpr bool known = false;
#endif
        for (uint32_t r = 0; !known && r < rows; ++r) {
            RowTerms<PER_BYTE, GROUP>(in, row + r, terms + r * groups);
        }
        SumRepeats(results + row, terms, groups, groups, rows);
    }
}

// option: numbers of a group.
template <uint32_t PER_BYTE>
void RunPackedRows(const Instruction& self, uint32_t begin, uint32_t end)
{
    const auto run = [&](auto group, auto offset) {
        constexpr uint32_t GROUP = decltype(group)::value;
        constexpr bool OFFSET = decltype(offset)::value;
        const bool isHalf = self.operands[4].extent == self.lanes * sizeof(half);
        (isHalf ? RunPackedRowsOf<OFFSET, PER_BYTE, GROUP, half>
                : RunPackedRowsOf<OFFSET, PER_BYTE, GROUP, float>)(self, begin, end);
    };
    const auto ofGroup = [&](auto group) {
        self.operandCount > 5 ? run(group, std::true_type()) : run(group, std::false_type());
    };
    self.option == 16   ? ofGroup(std::integral_constant<uint32_t, 16>())
    : self.option == 32 ? ofGroup(std::integral_constant<uint32_t, 32>())
                        : ofGroup(std::integral_constant<uint32_t, 64>());
}

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_PACKED_ROWS_UNIT_H
