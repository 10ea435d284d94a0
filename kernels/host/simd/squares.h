/*!
 * Transposes squares of elements in registers, for vector_unit.cpp only.
 */
#ifndef ASCENDC_HOST_SIMD_SQUARES_H
#define ASCENDC_HOST_SIMD_SQUARES_H

#include "simd/simd.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

constexpr uint32_t SQUARE_ROW_BYTES = 32;

// Transposes 8 x 8 elements of 32 bits: row i of dst gets element i of each row of src.
#if defined(HOST_SIMD_AVX2)
HOST_INLINE void TransposeSquare(uint32_t* dst, uint32_t dstStep, const uint32_t* src, int64_t srcStep)
{
    for (uint32_t column = 0; column < 8; column += 4) {
        __m256 rows[4];  // i and i + 4
        for (uint32_t i = 0; i < 4; ++i) {
            const float* const row = reinterpret_cast<const float*>(src + i * srcStep + column);
            rows[i] =
                _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(row)), _mm_loadu_ps(row + 4 * srcStep), 1);
        }
        float* const to = reinterpret_cast<float*>(dst + column * dstStep);
        for (uint32_t half = 0; half < 2; ++half) {
            const __m256 first =
                half == 0 ? _mm256_unpacklo_ps(rows[0], rows[1]) : _mm256_unpackhi_ps(rows[0], rows[1]);
            const __m256 last = half == 0 ? _mm256_unpacklo_ps(rows[2], rows[3]) : _mm256_unpackhi_ps(rows[2], rows[3]);
            _mm256_storeu_ps(to + 2 * half * dstStep, _mm256_shuffle_ps(first, last, 0x44));
            _mm256_storeu_ps(to + (2 * half + 1) * dstStep, _mm256_shuffle_ps(first, last, 0xee));
        }
    }
}
#else
// Putting rows i and i + 4 together element by element, three times, turns rows into columns.
HOST_INLINE void TransposeSquare(uint32_t* dst, uint32_t dstStep, const uint32_t* src, int64_t srcStep)
{
    typedef uint32_t Row __attribute__((vector_size(SQUARE_ROW_BYTES)));
    constexpr uint32_t SIDE = SQUARE_ROW_BYTES / sizeof(uint32_t);
    const auto weave = [](Row* to, const Row* from) {
        for (uint32_t i = 0; i < SIDE / 2; ++i) {
            to[2 * i] = Shuffled<0, 8, 1, 9, 2, 10, 3, 11>(from[i], from[i + SIDE / 2]);
            to[2 * i + 1] = Shuffled<4, 12, 5, 13, 6, 14, 7, 15>(from[i], from[i + SIDE / 2]);
        }
    };
    Row a[SIDE];
    Row b[SIDE];
    for (uint32_t i = 0; i < SIDE; ++i) {
        memcpy(&a[i], src + i * srcStep, sizeof(Row));
    }
    weave(b, a);
    weave(a, b);
    weave(b, a);
    for (uint32_t i = 0; i < SIDE; ++i) {
        memcpy(dst + i * dstStep, &b[i], sizeof(Row));
    }
}
#endif

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_SQUARES_H
