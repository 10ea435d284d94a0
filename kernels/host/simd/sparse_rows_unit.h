/*!
 * Multiplies rows of a sparse matrix (CSR) with a dense one, for vector_unit.cpp only.
 *
 * A stretch of columns of a sum stays in registers. Where it is narrow, several rows are summed side by side, as the
 * next product of one row waits for the sum of the last. Each sum adds its products in their order, so that neither the
 * stretches nor the rows beside it show in its bits.
 */
#ifndef ASCENDC_HOST_SIMD_SPARSE_ROWS_UNIT_H
#define ASCENDC_HOST_SIMD_SPARSE_ROWS_UNIT_H

#include <algorithm>
#include <type_traits>

#include "simd/arithmetic.h"
#include "simd/folding.h"
#include "simd/simd.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

// Sums that a CPU adds to at a time: it starts two a cycle, and each takes four.
constexpr uint32_t SPARSE_SUMS = 8;

HOST_INLINE float AddProduct(float value, float factor, float sum)
{
    return FUSES ? std::fma(value, factor, sum) : sum + value * factor;
}
HOST_INLINE VF AddProduct(float value, VF factor, VF sum)
{
    return Arithmetic<Opcode::AXPY>::Apply(factor, Set(value), sum);
}

// Makes the sums, of N vectors or one float, of U rows from `row` on. `read(index, j)` gives that of a row of the dense
// matrix.
template <typename SUM, uint32_t N, uint32_t U, class READ, class STORE>
HOST_INLINE void SumRowsTogether(const SparseRowsWork& work, uint64_t row, const READ& read, const STORE& store)
{
    const float* const values = work.values;
    const int32_t* const indices = work.indices;
    int32_t at[U];
    int32_t end[U];
    SUM sums[U][N] = {};
    const auto add = [&](uint32_t u) {
        const float value = values[at[u]];
        const int64_t index = indices[at[u]];
#pragma GCC unroll 8
        for (uint32_t j = 0; j < N; ++j) {
            sums[u][j] = AddProduct(value, read(index, j), sums[u][j]);
        }
        ++at[u];
    };
    int32_t shared = INT32_MAX;
#pragma GCC unroll 8
    for (uint32_t u = 0; u < U; ++u) {
        at[u] = row + u == 0 ? 0 : work.rowEnds[row + u - 1];
        end[u] = work.rowEnds[row + u];
        shared = std::min(shared, end[u] - at[u]);
    }
    for (; shared > 0; --shared) {
#pragma GCC unroll 8
        for (uint32_t u = 0; u < U; ++u) {
            add(u);
        }
    }
#pragma GCC unroll 8
    for (uint32_t u = 0; u < U; ++u) {
        while (at[u] < end[u]) {
            add(u);
        }
#pragma GCC unroll 8
        for (uint32_t j = 0; j < N; ++j) {
            store(row + u, j, sums[u][j]);
        }
    }
}

template <typename SUM, uint32_t N, class READ, class STORE>
HOST_INLINE void SumAllRows(const SparseRowsWork& work, const READ& read, const STORE& store)
{
    constexpr uint32_t U = SPARSE_SUMS / N;
    uint64_t row = work.begin;
    for (; row + U <= work.end; row += U) {
        SumRowsTogether<SUM, N, U>(work, row, read, store);
    }
    for (; row < work.end; ++row) {
        SumRowsTogether<SUM, N, 1>(work, row, read, store);
    }
}

// Dense rows are of D, and the result is of T.
template <typename T, typename D, uint32_t N>
void SumStretch(const SparseRowsWork& work)
{
    const auto* const dense = reinterpret_cast<const D*>(work.dense);
    const int64_t stride = work.denseStride;
    const uint32_t lanes = work.cols - (N - 1) * W;  // of the last vector
    const auto store = [&](uint64_t row, uint32_t j, VF sum) {
        T* const y = reinterpret_cast<T*>(work.y) + static_cast<int64_t>(row) * work.yStride + j * W;
        if (j + 1 == N && lanes < W) {
            StorePartial(y, sum, lanes);
        } else {
            Store(y, sum);
        }
    };
    if (work.isPacked || lanes == W) {
        SumAllRows<VF, N>(work, [=](int64_t index, uint32_t j) { return Load(dense + index * stride + j * W); }, store);
    } else {
        const auto read = [=](int64_t index, uint32_t j) {
            const D* const vector = dense + index * stride + j * W;
            return j + 1 == N ? LoadPartial(vector, lanes) : Load(vector);
        };
        SumAllRows<VF, N>(work, read, store);
    }
}

template <typename T>
void SumColumn(const SparseRowsWork& work)
{
    const auto* const dense = reinterpret_cast<const float*>(work.dense);
    const auto store = [&](uint64_t row, uint32_t /*j*/, float sum) {
        StorePartial(reinterpret_cast<T*>(work.y) + static_cast<int64_t>(row) * work.yStride, Set(sum), 1);
    };
    if (work.denseStride == 1) {
        SumAllRows<float, 1>(work, [=](int64_t index, uint32_t /*j*/) { return dense[index]; }, store);
    } else {
        const int64_t stride = work.denseStride;
        SumAllRows<float, 1>(work, [=](int64_t index, uint32_t /*j*/) { return dense[index * stride]; }, store);
    }
}

template <typename T, typename D>
void SumColumns(const SparseRowsWork& work)
{
    switch ((work.cols + W - 1) / W) {
        case 1:
            return work.cols == 1 && std::is_same_v<D, float> ? SumColumn<T>(work) : SumStretch<T, D, 1>(work);
        case 2:
            return SumStretch<T, D, 2>(work);
        case 3:
            return SumStretch<T, D, 3>(work);
        default:
            return SumStretch<T, D, MOST_SPARSE_VECTORS>(work);
    }
}

template <class WORK>
bool HasIndices(const WORK& work)
{
    const int32_t begin = work.begin == 0 ? 0 : work.rowEnds[work.begin - 1];
    const int32_t end = work.end == 0 ? 0 : work.rowEnds[work.end - 1];
    uint32_t largest = 0;  // a negative one is larger than any
    for (int32_t i = begin; i < end; ++i) {
        largest = std::max(largest, static_cast<uint32_t>(work.indices[i]));
    }
    return begin == end || largest < work.inner;
}

template <typename T>
bool SumSparseRows(const SparseRowsWork& work)
{
    if (work.inner != 0 && !HasIndices(work)) {
        return false;
    }
    if (work.isPacked) {
        SumColumns<T, float>(work);
    } else {
        SumColumns<T, T>(work);
    }
    return true;
}

// Multiplies a row of dy with the rows of the dense matrix that `count` indices name, W at most.
template <typename T, class COUNT>
HOST_INLINE void MultiplyRow(const SparseGradWork& work, const T* dy, int32_t entry, COUNT count)
{
    const T* const dense = reinterpret_cast<const T*>(work.dense);
    VF sums[W] = {};
    const auto add = [&](int64_t col, const auto& load) {
        const VF factor = load(dy + col);
#pragma GCC unroll 16
        for (int32_t i = 0; i < count; ++i) {
            sums[i] = Fma(factor, load(dense + work.indices[entry + i] * work.cols + col), sums[i]);
        }
    };
    int64_t col = 0;
    for (; col + W <= work.cols; col += W) {
        add(col, [](const T* p) { return Load(p); });
    }
    if (col < work.cols) {
        add(col, [lanes = static_cast<uint32_t>(work.cols - col)](const T* p) { return LoadPartial(p, lanes); });
    }
    const VF folded = FoldedRows(sums, [](VF x, VF y) { return x + y; });
    T* const dvalues = reinterpret_cast<T*>(work.dvalues) + entry;
    if (count == W) {
        Store(dvalues, folded);
    } else {
        StorePartial(dvalues, folded, static_cast<uint32_t>(count));
    }
}

template <typename T>
bool MultiplySparseRows(const SparseGradWork& work)
{
    if (!HasIndices(work)) {
        return false;
    }
    int32_t entry = work.begin == 0 ? 0 : work.rowEnds[work.begin - 1];
    for (uint64_t row = work.begin; row < work.end; ++row) {
        const T* const dy = reinterpret_cast<const T*>(work.dy) + static_cast<int64_t>(row) * work.cols;
        const int32_t end = work.rowEnds[row];
        for (; entry + W <= end; entry += W) {
            MultiplyRow(work, dy, entry, std::integral_constant<int32_t, W>{});
        }
        if (entry < end) {
            MultiplyRow(work, dy, entry, end - entry);
            entry = end;
        }
    }
    return true;
}

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_SPARSE_ROWS_UNIT_H
