/*!
 * Sums products of two rows of small integers, by groups, for vector_unit.cpp only. All sums are exact, so that their
 * order is free. Factors are -127 to 127.
 *
 * The second row, the factors, is the same for all rows of numbers: it is brought into the order that the numbers need
 * once. A byte holds two numbers of 4 bits, of which a mask and a shift give those at even and at odd places: so
 * factors at even and at odd places become vectors of their own. Bytes are multiplied without sign by bytes with sign:
 * numbers of 4 bits as number + 8, of which 8 times the sum of the factors is taken away again; numbers of 8 bits as
 * magnitudes, their sign goes over to the factor. Groups of 16 numbers lie one behind the other, and are taken in pairs
 * or fours.
 */
#ifndef ASCENDC_HOST_SIMD_PACKED_INTEGERS_UNIT_H
#define ASCENDC_HOST_SIMD_PACKED_INTEGERS_UNIT_H

#include <algorithm>
#include <type_traits>

#include "ir/instruction.h"
#include "simd/packed_groups_unit.h"
#include "simd/simd.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

// Returns number `i` of those that begin at p.
template <uint32_t PER_BYTE>
HOST_INLINE int32_t PackedNumber(const uint8_t* p, uint32_t i)
{
    if constexpr (PER_BYTE == 1) {
        // Not a cast of the byte: GCC 12 takes a sum of such products for one of bytes without sign (vpdpbusd).
        return reinterpret_cast<const int8_t*>(p)[i];
    } else {
        return static_cast<int8_t>((p[i / 2] >> (i % 2 * 4) & 15) ^ 8) - 8;
    }
}

#if defined(HOST_SIMD_NEON)
// Multiplies bytes, and adds four products to a lane. Without the instruction for that a product comes to 16 bits
// first, which it fits.
HOST_INLINE int32x4_t AddDots(int32x4_t sums, int8x16_t a, int8x16_t b)
{
#if defined(__ARM_FEATURE_DOTPROD)
    return vdotq_s32(sums, a, b);
#else
    return vpadalq_s16(vpadalq_s16(sums, vmull_s8(vget_low_s8(a), vget_low_s8(b))), vmull_high_s8(a, b));
#endif
}
#endif

// Computes one sum.
template <uint32_t PER_BYTE, uint32_t GROUP>
HOST_INLINE int32_t PackedIntegerSum(const uint8_t* numbers, const int8_t* factors)
{
#if defined(HOST_SIMD_NEON)
    int32x4_t sums = {};
    if constexpr (PER_BYTE == 2 && GROUP == 16) {
        const int8x8_t bytes = LoadRaw<int8x8_t>(numbers);
        const int8x8x2_t parted = vld2_s8(factors);  // at even places, and at odd ones
        const int8x16_t values = vcombine_s8(vshr_n_s8(vshl_n_s8(bytes, 4), 4), vshr_n_s8(bytes, 4));
        return vaddvq_s32(AddDots(sums, values, vcombine_s8(parted.val[0], parted.val[1])));
    }
#pragma GCC unroll 4
    for (uint32_t i = 0; i < GROUP; i += 16 * PER_BYTE) {
        const auto bytes = LoadRaw<int8x16_t>(numbers + i / PER_BYTE);
        if constexpr (PER_BYTE == 1) {
            sums = AddDots(sums, bytes, vld1q_s8(factors + i));
        } else {
            const int8x16x2_t parted = vld2q_s8(factors + i);  // at even places, and at odd ones
            sums = AddDots(sums, vshrq_n_s8(vshlq_n_s8(bytes, 4), 4), parted.val[0]);
            sums = AddDots(sums, vshrq_n_s8(bytes, 4), parted.val[1]);
        }
    }
    return vaddvq_s32(sums);
#else
    int32_t sum = 0;
    for (uint32_t i = 0; i < GROUP; ++i) {
        sum += PackedNumber<PER_BYTE>(numbers, i) * factors[i];
    }
    return sum;
#endif
}

#if defined(HOST_SIMD_AVX512) || defined(HOST_SIMD_AVX2)

// Multiplies bytes without sign by bytes with it, and adds four products to a lane. Where there is no instruction for
// that, two come to 16 bits first, which saturates: none of these is so large.
HOST_INLINE __m256i DotBytes(__m256i a, __m256i b)
{
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return _mm256_dpbusd_epi32(_mm256_setzero_si256(), a, b);
#else
    return _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1));
#endif
}

// Folds eight vectors of eight lanes to one lane each.
HOST_INLINE __m256i FoldedIntegers(const __m256i (&v)[8])
{
    const __m256i lower = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
    const __m256i upper = _mm256_hadd_epi32(_mm256_hadd_epi32(v[4], v[5]), _mm256_hadd_epi32(v[6], v[7]));
    return _mm256_add_epi32(_mm256_permute2x128_si256(lower, upper, 0x20),
                            _mm256_permute2x128_si256(lower, upper, 0x31));
}

// Eight sums, from four vectors of two groups each, one in each half.
HOST_INLINE __m256i FoldedPairs(const __m256i (&v)[4])
{
    const __m256i folded = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
    return _mm256_permutevar8x32_epi32(folded, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

#if defined(HOST_SIMD_AVX512)
// In each quarter of a vector: half sums of a, of b, of a, of b.
HOST_INLINE __m512i AddedPairs(__m512i a, __m512i b)
{
    return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}

// Lane k of each quarter gets the sum of that quarter of v[k].
HOST_INLINE __m512i AddedQuarters(const __m512i (&v)[4])
{
    const __m512i first = AddedPairs(v[0], v[1]);
    const __m512i second = AddedPairs(v[2], v[3]);
    return _mm512_add_epi32(_mm512_unpacklo_epi64(first, second), _mm512_unpackhi_epi64(first, second));
}
#endif

// Adds up products of numbers of 8 bits. A factor has the sign of its number taken into it.
template <uint32_t GROUP>
struct ByteSums {
    const int8_t* factors = nullptr;

    void Take(const int8_t* from, uint32_t /*groups*/) { factors = from; }
#if defined(HOST_SIMD_AVX512) && defined(__AVX512VNNI__)
    // Adds up sixteen groups of 32 that lie one behind the other, as do those of their factors: with factors + 128, and
    // 128 times the numbers less.
    HOST_INLINE __m512i OfSixteen(const uint8_t* numbers, uint32_t group) const
    {
        static_assert(GROUP == 32);
        __m512i halves[2];  // quarters 0 and 1, 2 and 3 of a lane are parts of one sum
#pragma GCC unroll 2
        for (uint32_t half = 0; half < 2; ++half) {
            __m512i products[4];
#pragma GCC unroll 4
            for (uint32_t k = 0; k < 4; ++k) {
                const uint32_t at = (half * 4 + k) * 64;
                const __m512i values = LoadRaw<__m512i>(numbers + at);
                const __m512i zero = _mm512_setzero_si512();
                const __m512i most = _mm512_set1_epi8(-128);  // 128, without sign
                const __m512i raised = _mm512_xor_si512(LoadRaw<__m512i>(factors + group * GROUP + at), most);
                products[k] = _mm512_sub_epi32(_mm512_dpbusd_epi32(zero, raised, values),
                                               _mm512_dpbusd_epi32(zero, most, values));
            }
            halves[half] = AddedQuarters(products);
        }
        const __m512i sums = _mm512_add_epi32(_mm512_shuffle_i32x4(halves[0], halves[1], 0x88),
                                              _mm512_shuffle_i32x4(halves[0], halves[1], 0xdd));
        // Lane k of quarter q is the sum of group 2 k + q % 2, and 8 on in the last two quarters.
        const __m512i order = _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
        return _mm512_permutexvar_epi32(order, sums);
    }
#endif
    template <class SLOTS>
    HOST_INLINE __m256i Of(const SLOTS& slots) const
    {
        const int8_t* const others = factors + slots.group * GROUP;
        if constexpr (GROUP == 16) {
            if constexpr (SLOTS::WHOLE) {
                return OfPairs(slots.numbers, others);
            } else {
                const PaddedGroups<GROUP> some(slots.numbers, slots.count);
                const PaddedGroups<GROUP> factor(others, slots.count);
                return OfPairs(some.bytes, reinterpret_cast<const int8_t*>(factor.bytes));
            }
        }
        __m256i products[SUMS_AT_ONCE];
#pragma GCC unroll 8
        for (uint32_t slot = 0; slot < SUMS_AT_ONCE; ++slot) {
            const uint8_t* const numbers = slots.Place(slot);
            const int8_t* const other = others + slot * GROUP;
            const bool empty = !SLOTS::WHOLE && numbers == nullptr;
            products[slot] = empty ? _mm256_setzero_si256() : Products(numbers, other);
            if (GROUP == 64 && !empty) {
                products[slot] = _mm256_add_epi32(products[slot], Products(numbers + 32, other + 32));
            }
        }
        return FoldedIntegers(products);
    }

private:
    static HOST_INLINE __m256i Products(const uint8_t* numbers, const int8_t* other)
    {
        const __m256i values = LoadRaw<__m256i>(numbers);
        return DotBytes(_mm256_abs_epi8(values), _mm256_sign_epi8(LoadRaw<__m256i>(other), values));
    }
    // Two groups of 16 are a vector.
    static HOST_INLINE __m256i OfPairs(const uint8_t* numbers, const int8_t* other)
    {
        __m256i products[4];
#pragma GCC unroll 4
        for (uint32_t k = 0; k < 4; ++k) {
            products[k] = Products(numbers + k * 32, other + k * 32);
        }
        return FoldedPairs(products);
    }
};

// Adds up products of numbers of 4 bits. 64 of them are a vector, one group or two, which may lie apart.
template <uint32_t GROUP>
struct NibbleSums {
    static constexpr uint32_t HALF = GROUP / 2;
    static constexpr uint32_t MOST = MOST_PACKED_GROUPS + MOST_SUMS_AT_ONCE;  // vectors may reach beyond the last group

    alignas(64) int8_t even[MOST * HALF];  // factors at even places of a group, group after group
    alignas(64) int8_t odd[MOST * HALF];
    int32_t shifts[MOST];  // 8 times the sum of a group's factors

    void Take(const int8_t* from, uint32_t groups)
    {
        const __m256i order =
            _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
        constexpr uint32_t STEP = GROUP < 32 ? GROUP : 32;
        for (uint32_t part = 0; part < groups * (GROUP / STEP); ++part) {
            const int8_t* const some = from + part * STEP;
            const __m256i parted = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(LoadFactors(some), order), 0xd8);
            // With 16 factors, the second half of either is zeros, which the next part replaces.
            _mm_storeu_si128(reinterpret_cast<__m128i*>(even + part * (STEP / 2)), _mm256_castsi256_si128(parted));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(odd + part * (STEP / 2)), _mm256_extracti128_si256(parted, 1));
        }
        std::fill_n(even + groups * HALF, MOST_SUMS_AT_ONCE * HALF, int8_t{0});
        std::fill_n(odd + groups * HALF, MOST_SUMS_AT_ONCE * HALF, int8_t{0});
        for (uint32_t group = 0; group < groups; ++group) {
            __m256i sums = EightTimes(LoadFactors(from + group * GROUP));
            if (GROUP == 64) {
                sums = _mm256_add_epi32(sums, EightTimes(LoadRaw<__m256i>(from + group * GROUP + 32)));
            }
            shifts[group] = SumOf(sums);
        }
        std::fill_n(shifts + groups, MOST_SUMS_AT_ONCE, 0);
    }
    template <class SLOTS>
    HOST_INLINE __m256i Of(const SLOTS& slots) const
    {
        const uint32_t at = slots.group * HALF;
        __m256i sums;
        if constexpr (GROUP == 16 && SLOTS::WHOLE) {
            const __m256i folded = _mm256_hadd_epi32(Widened(LoadRaw<__m256i>(slots.numbers), at),
                                                     Widened(LoadRaw<__m256i>(slots.numbers + 32), at + 32));
            // Its halves hold groups 0, 1, 4 and 5, and the others.
            sums = _mm256_permutevar8x32_epi32(folded, _mm256_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7));
        } else if constexpr (GROUP == 16) {
            const PaddedGroups<HALF> some(slots.numbers, slots.count);
            return Of(NextGroups{some.bytes, HALF, slots.group});
        } else if constexpr (GROUP == 32) {
            __m256i products[4];
#pragma GCC unroll 4
            for (uint32_t k = 0; k < 4; ++k) {
                products[k] = Products(TwoGroups(slots, 2 * k), at + k * 32);
            }
            // Each half of it holds groups of products 0, 1, 2 and 3.
            const __m256i folded =
                _mm256_hadd_epi32(Quarters(products[0], products[1]), Quarters(products[2], products[3]));
            sums = _mm256_permutevar8x32_epi32(folded, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        } else {
            __m256i products[SUMS_AT_ONCE];
#pragma GCC unroll 8
            for (uint32_t slot = 0; slot < SUMS_AT_ONCE; ++slot) {
                const uint8_t* const numbers = slots.Place(slot);
                const bool empty = !SLOTS::WHOLE && numbers == nullptr;
                products[slot] = empty ? _mm256_setzero_si256() : Widened(LoadRaw<__m256i>(numbers), at + slot * 32);
            }
            sums = FoldedIntegers(products);
        }
        return _mm256_sub_epi32(sums, LoadRaw<__m256i>(shifts + slots.group));
    }
#if defined(HOST_SIMD_AVX512)
    // Adds up sixteen groups of 32 that lie one behind the other.
    HOST_INLINE __m512i OfSixteen(const uint8_t* numbers, uint32_t group) const
    {
        static_assert(GROUP == 32);
        __m512i products[4];  // of four groups, four lanes each
#pragma GCC unroll 4
        for (uint32_t k = 0; k < 4; ++k) {
            const uint32_t at = group * HALF + k * 64;
            const __m512i bytes = _mm512_xor_si512(LoadRaw<__m512i>(numbers + k * 64), _mm512_set1_epi8(-0x78));
            const __m512i mask = _mm512_set1_epi8(15);
            const __m512i lower = _mm512_and_si512(bytes, mask);
            const __m512i upper = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), mask);
            products[k] = DotBytes(lower, LoadRaw<__m512i>(even + at), upper, LoadRaw<__m512i>(odd + at));
        }
        // Lane k of quarter q is the sum of group 4 k + q.
        const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        return _mm512_sub_epi32(_mm512_permutexvar_epi32(order, AddedQuarters(products)),
                                LoadRaw<__m512i>(shifts + group));
    }
#endif

private:
    // Loads the factors of a group, or of 32 of its numbers.
    static HOST_INLINE __m256i LoadFactors(const int8_t* from)
    {
        if constexpr (GROUP == 16) {
            return _mm256_inserti128_si256(_mm256_setzero_si256(), LoadRaw<__m128i>(from), 0);
        } else {
            return LoadRaw<__m256i>(from);
        }
    }
#if defined(HOST_SIMD_AVX512)
    static HOST_INLINE __m512i DotBytes(__m512i a, __m512i b, __m512i c, __m512i d)
    {
#if defined(__AVX512VNNI__)
        return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(_mm512_setzero_si512(), a, b), c, d);
#else
        return _mm512_madd_epi16(_mm512_add_epi16(_mm512_maddubs_epi16(a, b), _mm512_maddubs_epi16(c, d)),
                                 _mm512_set1_epi16(1));
#endif
    }
#endif
    static HOST_INLINE __m256i EightTimes(__m256i factors)
    {
        return _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(8), factors), _mm256_set1_epi16(1));
    }
    static HOST_INLINE int32_t SumOf(__m256i v)
    {
        const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
        const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
        return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
    }
    template <class SLOTS>
    static HOST_INLINE __m256i TwoGroups(const SLOTS& slots, uint32_t slot)
    {
        const uint8_t* const first = slots.Place(slot);
        const uint8_t* const second = slots.Place(slot + 1);
        if (second == first + 16) {
            return LoadRaw<__m256i>(first);
        }
        const bool empty = !SLOTS::WHOLE && first == nullptr;
        const __m256i zero = _mm256_setzero_si256();  // the intrinsic for zeros above a half is not in GCC 9
        const __m256i low = empty ? zero : _mm256_inserti128_si256(zero, LoadRaw<__m128i>(first), 0);
        return !SLOTS::WHOLE && second == nullptr ? low : _mm256_inserti128_si256(low, LoadRaw<__m128i>(second), 1);
    }
    // Adds four products to a lane of 16 bits, of numbers that are 8 more than they are: at most 7680.
    HOST_INLINE __m256i Products(__m256i packed, uint32_t at) const
    {
        const __m256i bytes = _mm256_xor_si256(packed, _mm256_set1_epi8(-0x78));
        const __m256i mask = _mm256_set1_epi8(15);
        const __m256i upper = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask);
        return _mm256_add_epi16(_mm256_maddubs_epi16(_mm256_and_si256(bytes, mask), LoadRaw<__m256i>(even + at)),
                                _mm256_maddubs_epi16(upper, LoadRaw<__m256i>(odd + at)));
    }
    HOST_INLINE __m256i Widened(__m256i packed, uint32_t at) const
    {
        return _mm256_madd_epi16(Products(packed, at), _mm256_set1_epi16(1));
    }
    // Takes two lanes of 32 bits of each half of a, and those of b behind them.
    static HOST_INLINE __m256i Quarters(__m256i a, __m256i b)
    {
        const __m256i sums = _mm256_add_epi16(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
        return _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
    }
};
#endif

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_PACKED_INTEGERS_UNIT_H
