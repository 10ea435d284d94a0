/*!
 * Sums of scaled rows (runtime/row_sums.h), for vector_unit.cpp only.
 *
 * A stretch of columns of a sum stays in registers, and that of all packed rows in the L2 cache: rows lie far apart,
 * where each would take a page and a way of the same few sets of a cache. Each sum adds its rows in their order.
 */
#ifndef ASCENDC_HOST_SIMD_ROW_SUMS_UNIT_H
#define ASCENDC_HOST_SIMD_ROW_SUMS_UNIT_H

#include <algorithm>
#include <vector>

#include "simd/arithmetic.h"
#include "simd/few_rows_unit.h"
#include "simd/simd.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

// Vectors of a stretch: 64 columns, or 32 where vectors have 4 floats.
constexpr uint32_t ROW_SUM_VECTORS = W == 16 ? 4 : 8;
// Rows are packed so if they fit: the L2 cache of many CPUs.
constexpr uint64_t PACKED_BYTES = uint64_t{512} << 10;

// A term of a packed row.
struct PackedTerm {
    uint32_t row;
    float factor;
};

template <typename T>
HOST_INLINE void StoreSum(const RowSum& sum, uint32_t col, VF value, uint32_t lanes)
{
    if (sum.isRounded) {
        StorePartial(reinterpret_cast<T*>(sum.dst) + col, value, lanes);
    } else {
        StorePartial(reinterpret_cast<float*>(sum.dst) + col, value, lanes);
    }
}

// N vectors of every sum; of the last vector there are `lanes`. `read(term, vector)` gives those of a row.
template <typename T, uint32_t N, class TERM, class READ>
HOST_INLINE void SumVectors(const RowSumsWork& work, const TERM* terms, uint32_t col, uint32_t lanes, const READ& read)
{
    uint64_t term = 0;
    for (uint64_t s = 0; s < work.sumCount; ++s) {
        const RowSum& sum = work.sums[s];
        VF values[N] = {};
        for (; term < sum.endTerm; ++term) {
            const VF factor = Set(terms[term].factor);
#pragma GCC unroll 8
            for (uint32_t j = 0; j < N; ++j) {
                values[j] = Arithmetic<Opcode::AXPY>::Apply(read(terms[term], j), factor, values[j]);
            }
        }
#pragma GCC unroll 8
        for (uint32_t j = 0; j < N; ++j) {
            StoreSum<T>(sum, col + j * W, values[j], j + 1 == N ? lanes : W);
        }
    }
}

template <typename T, uint32_t N>
void SumPacked(const RowSumsWork& work, const PackedTerm* terms, float* packed, uint32_t col, uint32_t lanes)
{
    for (uint64_t row = 0; row < work.rows; ++row) {
        const T* const src = reinterpret_cast<const T*>(work.first + row * work.stride) + col;
        float* const dst = packed + row * N * W;
#pragma GCC unroll 8
        for (uint32_t j = 0; j < N; ++j) {
            Store(dst + j * W, j + 1 == N && lanes < W ? LoadPartial(src + j * W, lanes) : Load(src + j * W));
        }
    }
    SumVectors<T, N>(work, terms, col, lanes, [packed](const PackedTerm& term, uint32_t j) {
        return Load(packed + uint64_t{term.row} * (N * W) + j * W);
    });
}

template <typename T, uint32_t N>
void SumInPlace(const RowSumsWork& work, uint32_t col, uint32_t lanes)
{
    if (lanes == W) {
        SumVectors<T, N>(work, work.terms, col, W, [col](const RowTerm& term, uint32_t j) {
            return Load(reinterpret_cast<const T*>(term.row) + col + j * W);
        });
    } else {
        SumVectors<T, N>(work, work.terms, col, lanes, [col, lanes](const RowTerm& term, uint32_t j) {
            const T* const src = reinterpret_cast<const T*>(term.row) + col + j * W;
            return j + 1 == N ? LoadPartial(src, lanes) : Load(src);
        });
    }
}

// Columns from `col` on that are left, by stretches of N vectors and then of fewer.
template <uint32_t N, class SUM>
HOST_INLINE void ByStretches(uint32_t cols, uint32_t& col, const SUM& sum)
{
    for (; col + N * W <= cols; col += N * W) {
        sum(std::integral_constant<uint32_t, N>{}, col, uint32_t{W});
    }
}

template <class SUM>
HOST_INLINE void ByAllStretches(uint32_t cols, uint32_t vectors, const SUM& sum)
{
    uint32_t col = 0;
    if (vectors >= ROW_SUM_VECTORS) {
        ByStretches<ROW_SUM_VECTORS>(cols, col, sum);
    }
    if (vectors >= 4) {
        ByStretches<4>(cols, col, sum);
    }
    ByStretches<2>(cols, col, sum);
    ByStretches<1>(cols, col, sum);
    if (col < cols) {
        sum(std::integral_constant<uint32_t, 1>{}, col, cols - col);
    }
}

template <typename T>
void SumRows(const RowSumsWork& work)
{
    if (work.rows == 0) {
        // Sum by sum: a row that is read is read as a whole.
        for (uint64_t s = 0; s < work.sumCount; ++s) {
            RowSumsWork one = work;
            const uint64_t first = s == 0 ? 0 : work.sums[s - 1].endTerm;
            RowSum sum = work.sums[s];
            sum.endTerm -= first;
            one.terms = work.terms + first;
            one.sums = &sum;
            one.sumCount = 1;
            ByAllStretches(work.cols, ROW_SUM_VECTORS, [&one](auto n, uint32_t col, uint32_t lanes) {
                SumInPlace<T, decltype(n)::value>(one, col, lanes);
            });
        }
        return;
    }
    static thread_local std::vector<PackedTerm> terms;
    static thread_local std::vector<float> packed;
    const uint64_t count = work.sumCount == 0 ? 0 : work.sums[work.sumCount - 1].endTerm;
    terms.resize(count);
    // Offsets are multiples of the stride: so near to its inverse, a product rounds to the quotient, and takes a fifth
    // of the time of a division.
    const double inverse = 1.0 / static_cast<double>(work.stride);
    for (uint64_t i = 0; i < count; ++i) {
        const double offset = static_cast<double>(work.terms[i].row - work.first);
        terms[i].row = static_cast<uint32_t>(offset * inverse + 0.5);
        terms[i].factor = work.terms[i].factor;
    }
    uint32_t vectors = ROW_SUM_VECTORS;
    while (vectors > 2 && work.rows * vectors * W * sizeof(float) > PACKED_BYTES) {
        vectors /= 2;
    }
    packed.resize(std::max<uint64_t>(packed.size(), work.rows * vectors * W + CACHE_LINE / sizeof(float)));
    // A vector that lies in two lines takes twice as long.
    const uint64_t behind = reinterpret_cast<uint64_t>(packed.data()) % CACHE_LINE / sizeof(float);
    float* const aligned = packed.data() + (behind == 0 ? 0 : CACHE_LINE / sizeof(float) - behind);
    ByAllStretches(work.cols, vectors, [&work, aligned](auto n, uint32_t col, uint32_t lanes) {
        SumPacked<T, decltype(n)::value>(work, terms.data(), aligned, col, lanes);
    });
}

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_ROW_SUMS_UNIT_H
