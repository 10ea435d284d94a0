/*!
 * Folds the lanes of a vector to one value, for vector_unit.cpp only.
 */
#ifndef ASCENDC_HOST_SIMD_FOLDING_H
#define ASCENDC_HOST_SIMD_FOLDING_H

#include <utility>

#include "simd/simd.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

// Lane i gets what lane i ^ DISTANCE holds.
template <int32_t DISTANCE, class V, int32_t... I>
HOST_INLINE V Swapped(V v, std::integer_sequence<int32_t, I...>)
{
    return Shuffled<(I ^ DISTANCE)...>(v, v);
}

// Folds all lanes to one value by a binary tree: lane i meets lane i + W / 2, then i + W / 4 ...
template <int32_t DISTANCE = W / 2, class V, class OP>
HOST_INLINE auto Folded(V v, const OP& op)
{
    v = op(v, Swapped<DISTANCE>(v, std::make_integer_sequence<int32_t, W>()));
    if constexpr (DISTANCE > 1) {
        return Folded<DISTANCE / 2>(v, op);
    } else {
        return v[0];
    }
}

// The lower halves of all stretches of 2 * D lanes of p, then of q, meet the upper ones.
template <int32_t D, class OP, int32_t... I>
HOST_INLINE VF HalvesMet(VF p, VF q, const OP& op, std::integer_sequence<int32_t, I...>)
{
    constexpr int32_t HALF = W / (2 * D);
    return op(Shuffled<(I / D < HALF ? I / D * 2 * D + I % D : W + (I / D - HALF) * 2 * D + I % D)...>(p, q),
              Shuffled<(I / D < HALF ? I / D * 2 * D + I % D + D : W + (I / D - HALF) * 2 * D + I % D + D)...>(p, q));
}

// Folds each of W vectors to a lane, by the same tree as Folded, all W at once.
template <int32_t D = W / 2, class OP>
HOST_INLINE VF FoldedRows(VF* rows, const OP& op)
{
#if defined(HOST_SIMD_AVX2)
    if constexpr (D == W / 2) {  // within halves of a vector, as shuffles across them take longer; in order at the end
        VF halves[4];
        for (int32_t k = 0; k < 4; ++k) {
            halves[k] = op(_mm256_permute2f128_ps(rows[2 * k], rows[2 * k + 1], 0x20),
                           _mm256_permute2f128_ps(rows[2 * k], rows[2 * k + 1], 0x31));
        }
        VF pairs[2];
        for (int32_t k = 0; k < 2; ++k) {
            pairs[k] = op(_mm256_shuffle_ps(halves[2 * k], halves[2 * k + 1], 0x44),
                          _mm256_shuffle_ps(halves[2 * k], halves[2 * k + 1], 0xee));
        }
        const VF folded = op(_mm256_shuffle_ps(pairs[0], pairs[1], 0x88), _mm256_shuffle_ps(pairs[0], pairs[1], 0xdd));
        return _mm256_permutevar8x32_ps(folded, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    }
#endif
    for (int32_t k = 0; k < D; ++k) {
        rows[k] = HalvesMet<D>(rows[2 * k], rows[2 * k + 1], op, std::make_integer_sequence<int32_t, W>());
    }
    if constexpr (D > 1) {
        return FoldedRows<D / 2>(rows, op);
    } else {
        return rows[0];
    }
}

// Sums up to 64 lanes as a binary tree: lane i meets lane i + 32, then i + 16 ..., here as far as to one vector.
// Inactive lanes count as 0.
template <uint32_t LANES>
HOST_INLINE VF TreeSumOf(const float* src, uint32_t lanes)
{
    VF part[LANES / W];
#pragma GCC unroll 16
    for (uint32_t k = 0; k < LANES / W; ++k) {
        const uint32_t first = k * W;
        part[k] =
            first + W <= lanes ? Load(src + first) : (first < lanes ? LoadPartial(src + first, lanes - first) : VF{});
    }
#pragma GCC unroll 4
    for (uint32_t half = LANES / W / 2; half > 0; half /= 2) {
#pragma GCC unroll 16
        for (uint32_t k = 0; k < half; ++k) {
            part[k] += part[k + half];
        }
    }
    return part[0];
}

HOST_INLINE VF TreeSum(const float* src, uint32_t lanes)
{
    // Half of the lanes would meet zeros, of which -0 becomes 0.
    return lanes <= 32 ? TreeSumOf<32>(src, lanes) + VF{} : TreeSumOf<64>(src, lanes);
}

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_FOLDING_H
