/*!
 * Sums products of dy with x for the gradient of a depthwise kernel, for vector_unit.cpp only.
 *
 * Several kernel elements are summed at once: each sum waits for its last product, and all of them stay in registers.
 */
#ifndef ASCENDC_HOST_SIMD_DEPTHWISE_UNIT_H
#define ASCENDC_HOST_SIMD_DEPTHWISE_UNIT_H

#include "simd/folding.h"
#include "simd/simd.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

template <uint32_t N>
HOST_INLINE void SumElements(const DepthwiseSums& work, uint32_t first)
{
    VF sums[(N + W - 1) / W * W] = {};
    const int64_t* const offsets = work.offsets + first;
    for (uint32_t row = 0; row < work.rows; ++row) {
        const float* dy = work.dy + row * work.dyRow;
        const float* x = work.x + row * work.xRow;
        for (uint32_t i = 0; i < work.vectors; ++i, dy += W, x += work.xStep) {
            const VF value = Load(dy);
#pragma GCC unroll 8
            for (uint32_t j = 0; j < N; ++j) {
                sums[j] = Fma(value, Load(x + offsets[j]), sums[j]);
            }
        }
        if (work.tail != 0) {
            const VF value = LoadPartial(dy, work.tail);
#pragma GCC unroll 8
            for (uint32_t j = 0; j < N; ++j) {
                sums[j] = Fma(value, LoadPartial(x + offsets[j], work.tail), sums[j]);
            }
        }
    }
    if (work.folds) {
        for (uint32_t j = 0; j < N; j += W) {
            const VF folded = FoldedRows(sums + j, [](VF a, VF b) { return a + b; });
            StorePartial(work.sums + first + j, folded, N - j < W ? N - j : W);
        }
        return;
    }
#pragma GCC unroll 8
    for (uint32_t j = 0; j < N; ++j) {
        Store(work.sums + (first + j) * W, sums[j]);
    }
}

template <uint32_t N>
void SumSomeElements(const DepthwiseSums& work, uint32_t first, uint32_t count)
{
    if constexpr (N > 1) {
        if (count < N) {
            SumSomeElements<N - 1>(work, first, count);
            return;
        }
    }
    SumElements<N>(work, first);
}

inline void SumDepthwise(const DepthwiseSums& work)
{
    constexpr uint32_t MOST = 8;
    const uint32_t parts = (work.count + MOST - 1) / MOST;
    for (uint32_t part = 0; part < parts; ++part) {
        const uint32_t first = work.count * part / parts;
        SumSomeElements<MOST>(work, first, work.count * (part + 1) / parts - first);
    }
}

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_DEPTHWISE_UNIT_H
