/*!
 * Multiplies matrices of 8-bit integers with sums in 32 bits, for vector_unit.cpp only. They are exact: bytes are
 * widened to 16 bits, of whose products two fit 32 bits. (The instruction for bytes of CPUs before VNNI saturates.)
 */
#ifndef ASCENDC_HOST_SIMD_INTEGERS_UNIT_H
#define ASCENDC_HOST_SIMD_INTEGERS_UNIT_H

#include <algorithm>

#include "simd/few_rows_unit.h"
#include "simd/simd.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

#if defined(HOST_SIMD_AVX512)
using Integers = __m512i;
constexpr uint32_t INTEGER_STEP = 32;  // numbers in a vector
HOST_INLINE Integers LoadIntegers(const int16_t* p)
{
    return _mm512_loadu_si512(p);
}
HOST_INLINE Integers LoadIntegers(const int8_t* p)
{
    return _mm512_cvtepi8_epi16(LoadRaw<__m256i>(p));
}
HOST_INLINE Integers AddPairs(Integers a, Integers b, Integers sums)
{
    return _mm512_add_epi32(sums, _mm512_madd_epi16(a, b));
}
HOST_INLINE int32_t SumOf(Integers sums)
{
    return _mm512_reduce_add_epi32(sums);
}
#elif defined(HOST_SIMD_AVX2)
using Integers = __m256i;
constexpr uint32_t INTEGER_STEP = 16;
HOST_INLINE Integers LoadIntegers(const int16_t* p)
{
    return LoadRaw<__m256i>(p);
}
HOST_INLINE Integers LoadIntegers(const int8_t* p)
{
    return _mm256_cvtepi8_epi16(LoadRaw<__m128i>(p));
}
HOST_INLINE Integers AddPairs(Integers a, Integers b, Integers sums)
{
    return _mm256_add_epi32(sums, _mm256_madd_epi16(a, b));
}
HOST_INLINE int32_t SumOf(Integers sums)
{
    const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}
#elif defined(HOST_SIMD_NEON)
using Integers = int16x8_t;  // sums: four numbers of 32 bits
constexpr uint32_t INTEGER_STEP = 8;
HOST_INLINE Integers LoadIntegers(const int16_t* p)
{
    return vld1q_s16(p);
}
HOST_INLINE Integers LoadIntegers(const int8_t* p)
{
    return vmovl_s8(vld1_s8(p));
}
HOST_INLINE Integers AddPairs(Integers a, Integers b, Integers sums)
{
    const int32x4_t lower = vmlal_s16(vreinterpretq_s32_s16(sums), vget_low_s16(a), vget_low_s16(b));
    return vreinterpretq_s16_s32(vmlal_high_s16(lower, a, b));
}
HOST_INLINE int32_t SumOf(Integers sums)
{
    return vaddvq_s32(vreinterpretq_s32_s16(sums));
}
#else
constexpr uint32_t INTEGER_STEP = 16;
struct Integers {
    int32_t values[INTEGER_STEP] = {};
};
template <typename T>
HOST_INLINE Integers LoadIntegers(const T* p)
{
    Integers loaded;
    std::copy(p, p + INTEGER_STEP, loaded.values);
    return loaded;
}
HOST_INLINE Integers AddPairs(const Integers& a, const Integers& b, Integers sums)
{
    for (uint32_t i = 0; i < INTEGER_STEP; ++i) {
        sums.values[i] += a.values[i] * b.values[i];
    }
    return sums;
}
HOST_INLINE int32_t SumOf(const Integers& sums)
{
    int32_t sum = 0;
    for (const int32_t value : sums.values) {
        sum += value;
    }
    return sum;
}
#endif

// Multiplies M rows of a with N of b. `whole`: numbers of a row that are whole vectors; its tail is multiplied one by
// one.
template <uint32_t M, uint32_t N, typename B>
HOST_INLINE void MultiplyIntegerBlock(const IntegerProduct& product, const int16_t* a, const B* b, int64_t bStride,
                                      int32_t* c)
{
    Integers sums[M][N] = {};
    const uint32_t whole = product.k / INTEGER_STEP * INTEGER_STEP;
    for (uint32_t at = 0; at < whole; at += INTEGER_STEP) {
        Integers columns[N];
#pragma GCC unroll 8
        for (uint32_t j = 0; j < N; ++j) {
            columns[j] = LoadIntegers(b + j * bStride + at);
        }
#pragma GCC unroll 8
        for (uint32_t i = 0; i < M; ++i) {
            const Integers row = LoadIntegers(a + i * product.aStride + at);
#pragma GCC unroll 8
            for (uint32_t j = 0; j < N; ++j) {
                sums[i][j] = AddPairs(row, columns[j], sums[i][j]);
            }
        }
    }
    int32_t totals[M][N];  // indexed below; the sums then never are, and stay in registers
#pragma GCC unroll 8
    for (uint32_t i = 0; i < M; ++i) {
#pragma GCC unroll 8
        for (uint32_t j = 0; j < N; ++j) {
            totals[i][j] = SumOf(sums[i][j]);
        }
    }
    for (uint32_t i = 0; i < M; ++i) {
        for (uint32_t j = 0; j < N; ++j) {
            int32_t sum = totals[i][j];
            for (uint32_t at = whole; at < product.k; ++at) {
                sum += int32_t{a[i * product.aStride + at]} * b[j * bStride + at];
            }
            int32_t& to = c[i * product.cStride + j];
            to = product.accumulate ? to + sum : sum;
        }
    }
}

template <uint32_t N, typename B>
void MultiplyIntegerRows(const IntegerProduct& product, const B* b, int64_t bStride, uint32_t col)
{
    constexpr uint32_t M = 4;
    constexpr uint32_t BLOCK = N < 4 || REGISTERS == 32 ? N : 2;  // sums, columns and a row stay in registers
    uint32_t row = 0;
    const auto at = [&](uint32_t i) { return product.a + i * product.aStride; };
    const auto to = [&](uint32_t i) { return product.c + i * product.cStride + col; };
    for (; row + M <= product.m; row += M) {
        for (uint32_t j = 0; j < N; j += BLOCK) {
            MultiplyIntegerBlock<M, BLOCK>(product, at(row), b + j * bStride, bStride, to(row) + j);
        }
    }
    for (; row < product.m; ++row) {
        MultiplyIntegerBlock<1, N>(product, at(row), b, bStride, to(row));
    }
}

// Computes c = a b^T, or c += a b^T. If a has more rows than a block, rows of b are widened once.
inline void MultiplyIntegers(const IntegerProduct& product)
{
    constexpr uint32_t N = 4;
    constexpr uint32_t FEW_ROWS = 6;
    for (uint32_t col = 0; col < product.n; col += N) {
        const uint32_t cols = std::min(N, product.n - col);
        const int8_t* const b = product.b + col * product.bStride;
        if (cols < N) {
            for (uint32_t j = 0; j < cols; ++j) {
                MultiplyIntegerRows<1>(product, b + j * product.bStride, product.bStride, col + j);
            }
        } else if (product.m <= FEW_ROWS) {
            MultiplyIntegerRows<N>(product, b, product.bStride, col);
        } else {
            for (uint32_t j = 0; j < N; ++j) {
                std::copy(b + j * product.bStride, b + j * product.bStride + product.k,
                          product.scratch + j * product.k);
            }
            MultiplyIntegerRows<N>(product, product.scratch, product.k, col);
        }
    }
}

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_INTEGERS_UNIT_H
