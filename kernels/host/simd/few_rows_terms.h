/*!
 * Loads and multiplies the elements along K of few_rows_unit.h: both factors as floats, or pairs of bfloat16 as they
 * lie in memory.
 */
#ifndef ASCENDC_HOST_SIMD_FEW_ROWS_TERMS_H
#define ASCENDC_HOST_SIMD_FEW_ROWS_TERMS_H

#include "simd/simd.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

template <typename T>
struct FloatTerms {
    using A = float;
    using B = T;
    static constexpr uint32_t COUNT = W;    // of K that one vector of each factor holds
    static constexpr uint32_t ROWS = 1;     // of b that are multiplied at a time,
    static constexpr uint32_t VECTORS = 1;  // giving as many vectors of sums

    template <typename E>
    static HOST_INLINE VF LoadTerms(const E* p)
    {
        return Load(p);
    }
    template <typename E>
    static HOST_INLINE VF LoadTerms(const E* p, uint32_t count)
    {
        return LoadPartial(p, count);
    }
    static HOST_INLINE VF MultiplyAdd(VF a, VF b, VF sum) { return Fma(a, b, sum); }

    // Spreads the same elements of a over all lanes. Of a few rows of b, `rows` are there.
    static HOST_INLINE VF Spread(const float* a, uint32_t) { return Set(*a); }
    template <class LOAD>
    static HOST_INLINE void LoadRows(const T* line, int64_t, uint32_t, const LOAD& load, VF* b)
    {
        b[0] = load(line);
    }
    static HOST_INLINE void ToOrderOfTerms(VF*) {}
    static HOST_INLINE void ToOrderOfColumns(VF*) {}
};

#if defined(HOST_SIMD_AVX512) && __GNUC__ >= 10
#define HOST_MULTIPLIES_BFLOAT16
// The CPU adds two products of bfloat16 to each lane (AVX512_BF16), which takes subnormal numbers for 0. This is
// compiled for CPUs without the instruction, too, so that no function of the compiler gives it.
struct BFloat16Terms {
    using A = bfloat16_t;
    using B = bfloat16_t;
    static constexpr uint32_t COUNT = 2 * W;
    static constexpr uint32_t ROWS = 2;
    static constexpr uint32_t VECTORS = 2;

    static HOST_INLINE VF LoadTerms(const bfloat16_t* p) { return LoadRaw<VF>(p); }
    static HOST_INLINE VF LoadTerms(const bfloat16_t* p, uint32_t count)
    {
        return reinterpret_cast<VF>(_mm512_maskz_loadu_epi16(static_cast<__mmask32>((uint64_t{1} << count) - 1u), p));
    }
    static HOST_INLINE VF MultiplyAdd(VF a, VF b, VF sum)
    {
        asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
        return sum;
    }

    static HOST_INLINE VF Spread(const bfloat16_t* a, uint32_t rows)
    {
        uint32_t pair = 0;
        memcpy(&pair, a, rows * sizeof(bfloat16_t));
        return reinterpret_cast<VF>(_mm512_set1_epi32(static_cast<int32_t>(pair)));
    }
    // Loads pairs of two rows. Of the columns of a group of eight, the first vector holds the lower four.
    template <class LOAD>
    static HOST_INLINE void LoadRows(const bfloat16_t* line, int64_t stride, uint32_t rows, const LOAD& load, VF* b)
    {
        const auto even = reinterpret_cast<__m512i>(load(line));
        const auto odd = rows == ROWS ? reinterpret_cast<__m512i>(load(line + stride)) : __m512i{};
        b[0] = reinterpret_cast<VF>(_mm512_unpacklo_epi16(even, odd));
        b[1] = reinterpret_cast<VF>(_mm512_unpackhi_epi16(even, odd));
    }
    static HOST_INLINE void ToOrderOfTerms(VF* sums)
    {
        const VF first = sums[0];
        sums[0] = Shuffled<0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27>(first, sums[1]);
        sums[1] = Shuffled<4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31>(first, sums[1]);
    }
    static HOST_INLINE void ToOrderOfColumns(VF* sums)
    {
        const VF first = sums[0];
        sums[0] = Shuffled<0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23>(first, sums[1]);
        sums[1] = Shuffled<8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31>(first, sums[1]);
    }
};
#endif

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_FEW_ROWS_TERMS_H
