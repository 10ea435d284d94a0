/*!
 * Multiplies rows of floats with a row of numbers of 8 or 4 bits, for vector_unit.cpp only. Numbers become floats in
 * registers; the sum of a group is then multiplied by its scale.
 */
#ifndef ASCENDC_HOST_SIMD_PACKED_FLOATS_UNIT_H
#define ASCENDC_HOST_SIMD_PACKED_FLOATS_UNIT_H

#include "simd/bytes_unit.h"
#include "simd/folding.h"
#include "simd/simd.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

HOST_INLINE float FactorAt(const float* p)
{
    return *p;
}
template <typename S>
HOST_INLINE float FactorAt(const S* p)
{
    return LoadPartial(p, 1)[0];
}

// Loads the next W numbers as floats.
template <uint32_t PER_BYTE>
HOST_INLINE VF LoadPacked(const uint8_t* p)
{
    if constexpr (PER_BYTE == 1) {
        return LoadBytes(reinterpret_cast<const int8_t*>(p));
    } else {
#if defined(HOST_SIMD_AVX512)
        // A byte in each 64 bits: its lower half is the first number, and, shifted, its upper half the second.
        const __m512i bytes = _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
        const __m512i numbers = _mm512_or_si512(bytes, _mm512_slli_epi64(bytes, 28));
        const __m512 values = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
        return _mm512_permutexvar_ps(numbers, values);  // by four bits
#else
        // Each lane gets all of them, and shifts its own to the top.
        uint32_t bytes = 0;
        memcpy(&bytes, p, W / 2);
#if defined(HOST_SIMD_AVX2)
        const VI shifts = {28, 24, 20, 16, 12, 8, 4, 0};
#else
        const VI shifts = {28, 24, 20, 16};
#endif
        return __builtin_convertvector((SetInt(static_cast<int32_t>(bytes)) << shifts) >> 28, VF);
#endif
    }
}

// Adds up each group of a row.
inline void SumGroups(const RoundedRows& rows, const float* x, float* sums)
{
    for (uint32_t g = 0; g < rows.groups; ++g) {
        VF sum = Set(0.0f);
        for (uint32_t i = 0; i < rows.group; i += W) {
            sum = sum + Load(x + uint64_t{g} * rows.group + i);
        }
        sums[g] = Folded(sum, [](VF a, VF b) { return a + b; });
    }
}

// Makes the results of the first R rows of x with row `row` of the weight: `sums`, W floats apart.
template <uint32_t PER_BYTE, uint32_t R, typename S>
HOST_INLINE void MultiplyFloatRow(const PackedProduct& product, uint64_t row, float* sums)
{
    const RoundedRows& x = product.x;
    const auto* const numbers = reinterpret_cast<const uint8_t*>(product.weight) + row * (x.k / PER_BYTE);
    const S* const scale = static_cast<const S*>(product.scale) + row * x.groups;
    VF totals[2][R] = {};  // of every other group: an addition need not wait for the one before
    const auto add = [&](uint32_t g, VF(&total)[R]) {
        VF group[R] = {};
        for (uint32_t i = g * x.group; i < (g + 1) * x.group; i += W) {
            const VF values = LoadPacked<PER_BYTE>(numbers + i / PER_BYTE);
#pragma GCC unroll 4
            for (uint32_t r = 0; r < R; ++r) {
                group[r] = Fma(values, Load(product.floats + uint64_t{r} * x.k + i), group[r]);
            }
        }
        const VF factor = Set(FactorAt(scale + g));
#pragma GCC unroll 4
        for (uint32_t r = 0; r < R; ++r) {
            total[r] = Fma(group[r], factor, total[r]);
        }
    };
    uint32_t g = 0;
    for (; g + 2 <= x.groups; g += 2) {
        add(g, totals[0]);
        add(g + 1, totals[1]);
    }
    if (g < x.groups) {
        add(g, totals[0]);
    }
    if (product.offset != nullptr) {
        const S* const offset = static_cast<const S*>(product.offset) + row * x.groups;
        for (uint32_t at = 0; at < x.groups; at += W) {
            const uint32_t count = std::min<uint32_t>(W, x.groups - at);
            const VF shift = LoadPartial(offset + at, count) * LoadPartial(scale + at, count);
            for (uint32_t r = 0; r < R; ++r) {
                totals[1][r] = Fma(shift, LoadPartial(x.sums + uint64_t{r} * x.groups + at, count), totals[1][r]);
            }
        }
    }
    for (uint32_t r = 0; r < R; ++r) {
        sums[r * W] = Folded(totals[0][r] + totals[1][r], [](VF a, VF b) { return a + b; });
    }
}

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_PACKED_FLOATS_UNIT_H
