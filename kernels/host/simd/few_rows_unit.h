/*!
 * Products of a few rows with a matrix, for vector_unit.cpp only. They take as long as reading the matrix: it is read
 * once, front to back, and converted to float in registers.
 *
 * Each element of the result is summed over k in one order, whatever the sizes of blocks: with a transposed matrix in
 * W lanes, which are folded at the end, else one product after the other.
 */
#ifndef ASCENDC_HOST_SIMD_FEW_ROWS_UNIT_H
#define ASCENDC_HOST_SIMD_FEW_ROWS_UNIT_H

#include <algorithm>

#include "simd/folding.h"
#include "simd/simd.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

#if defined(HOST_SIMD_AVX512) || defined(HOST_SIMD_NEON)
constexpr uint32_t REGISTERS = 32;
#else
constexpr uint32_t REGISTERS = 16;
#endif
constexpr uint32_t MOST_FEW_ROWS = REGISTERS / 4;  // of a at a time
// If all rows of a are more than the L1 data cache holds, fewer at a time meet twice as many rows of a transposed b
// each time they are read: 8 x 4096 x 4096 takes 0.75 of the time on a Zen 5.
constexpr uint32_t FEWER_ROWS = 4;
constexpr uint64_t FLOATS_OF_FEWER_ROWS = 16384;
// Vectors of b at a time: sums of all rows stay in registers. Of a single row of a that is all it takes, and long
// pieces of the rows of b come faster: 1 x 4096 x 4096 on a Zen 5 takes 0.83 of the time with 16 instead of 4, bfloat16
// 0.7.
template <uint32_t M>
constexpr uint32_t FEW_ROWS_WIDTH = M == 1 && REGISTERS == 32 ? 16
                                    : M <= REGISTERS / 8      ? 4
                                                              : 2;
// So many rows of a transposed b are multiplied at a time: with 3 the CPU waits less for the sums of four rows.
template <uint32_t M>
constexpr uint32_t FEW_ROWS_COLUMNS = M <= REGISTERS / 8 ? 4
                                      : REGISTERS == 32  ? 2
                                                         : 3;

constexpr uint32_t CACHE_LINE = 64;
// A row of some heads' worth of elements lies in a page of its own, which no prefetcher of the CPU foresees. Longer
// ones it does.
// Rows of 128 floats of 8 heads are 4 KiB apart: eight of them fill the ways of their sets in the L1 cache. The more
// rows at a time, the less often sums come and go.
template <typename T>
constexpr uint32_t ROWS_AHEAD = 32 / sizeof(T);
constexpr uint32_t ROWS_OF_A_TRANSPOSED_AHEAD = 12;  // a multiple of 3 and of 4
constexpr uint32_t LONG_ROW_BYTES = 2048;
// Rows of several groups (cube/product.h) are read as a whole, so those at a time and those ahead fill the L1 cache.
constexpr uint32_t ROWS_OF_GROUPS_AHEAD = 8;
template <typename T>
constexpr uint32_t ROWS_OF_TRANSPOSED_GROUPS_AHEAD = 16 / sizeof(T);  // no sums come and go

HOST_INLINE void Prefetch(const char* begin, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += CACHE_LINE) {
        __builtin_prefetch(begin + at);
    }
}

// In a register: multiplications that read a vector from memory each read it anew, and one that crosses a cache line
// takes twice as long.
HOST_INLINE VF InRegister(VF v)
{
#if defined(HOST_SIMD_AVX512)
    asm("" : "+v"(v));
#elif defined(HOST_SIMD_AVX2)
    asm("" : "+x"(v));
#endif
    return v;
}

template <typename T>
HOST_INLINE const T* RowOf(const FewRowsProduct& product, uint32_t row)
{
    return reinterpret_cast<const T*>(product.b) + row * product.bStride;
}

// M rows of a with J rows of b, which are columns of c.
template <typename T, uint32_t M, uint32_t J>
HOST_INLINE void MultiplyColumns(const FewRowsProduct& product, uint32_t row, uint32_t col)
{
    constexpr uint32_t SUMS = (M * J + W - 1) / W * W;
    VF sums[SUMS] = {};
    const float* const a = product.a + row * product.aStride;
    const auto add = [&](const auto& load, uint32_t at) {
        VF b[J];
#pragma GCC unroll 16
        for (uint32_t j = 0; j < J; ++j) {
            const VF line = load(RowOf<T>(product, col + j) + at);
            b[j] = M > 1 ? InRegister(line) : line;  // one row multiplies each vector once
        }
#pragma GCC unroll 16
        for (uint32_t i = 0; i < M; ++i) {
            const VF value = InRegister(load(a + i * product.aStride + at));
#pragma GCC unroll 16
            for (uint32_t j = 0; j < J; ++j) {
                sums[i * J + j] = Fma(value, b[j], sums[i * J + j]);
            }
        }
    };
    uint32_t at = 0;
    for (; at + W <= product.k; at += W) {
        add([](const auto* p) { return Load(p); }, at);
    }
    if (at < product.k) {
        add([tail = product.k - at](const auto* p) { return LoadPartial(p, tail); }, at);
    }
    float folded[SUMS];
#pragma GCC unroll 16
    for (uint32_t i = 0; i < SUMS; i += W) {
        Store(folded + i, FoldedRows(sums + i, [](VF x, VF y) { return x + y; }));
    }
    for (uint32_t i = 0; i < M; ++i) {
        float* const c = product.c + (row + i) * product.cStride + col;
        for (uint32_t j = 0; j < J; ++j) {
            c[j] = product.accumulate ? c[j] + folded[i * J + j] : folded[i * J + j];
        }
    }
}

// Adds `depth` products to N vectors of M rows of c, or to nothing; of the last vector there are `lanes`.
template <typename T, uint32_t M, uint32_t N, bool PART>
HOST_INLINE void AddProducts(const FewRowsProduct& product, uint32_t row, uint32_t col, uint32_t first, uint32_t depth,
                             [[maybe_unused]] uint32_t lanes)
{
    const auto load = [&](const auto* p) {
        if constexpr (PART) {
            return LoadPartial(p, lanes);
        } else {
            return Load(p);
        }
    };
    const bool begins = first == 0 && !product.accumulate;
    float* const c = product.c + row * product.cStride + col;
    VF sums[M][N] = {};
    if (!begins) {
#pragma GCC unroll 16
        for (uint32_t i = 0; i < M; ++i) {
#pragma GCC unroll 16
            for (uint32_t j = 0; j < N; ++j) {
                sums[i][j] = load(c + i * product.cStride + j * W);
            }
        }
    }
    const int64_t aStride = product.aStride;
    const int64_t bStride = product.bStride;
    const float* a = product.a + row * aStride + first;
    const T* line = RowOf<T>(product, first) + col;
    for (const float* const end = a + depth; a != end; ++a, line += bStride) {
        VF b[N];
#pragma GCC unroll 16
        for (uint32_t j = 0; j < N; ++j) {
            b[j] = InRegister(load(line + j * W));
        }
#pragma GCC unroll 16
        for (uint32_t i = 0; i < M; ++i) {
            const VF value = Set(a[i * aStride]);
#pragma GCC unroll 16
            for (uint32_t j = 0; j < N; ++j) {
                sums[i][j] = Fma(value, b[j], sums[i][j]);
            }
        }
    }
#pragma GCC unroll 16
    for (uint32_t i = 0; i < M; ++i) {
#pragma GCC unroll 16
        for (uint32_t j = 0; j < N; ++j) {
            if constexpr (PART) {
                StorePartial(c + i * product.cStride + j * W, sums[i][j], lanes);
            } else {
                Store(c + i * product.cStride + j * W, sums[i][j]);
            }
        }
    }
}

// `columns` rows of b from `col` on.
template <typename T, uint32_t M>
void MultiplyTransposed(const FewRowsProduct& product, uint32_t row, uint32_t col, uint32_t columns)
{
    constexpr uint32_t J = FEW_ROWS_COLUMNS<M>;
    uint32_t j = 0;
    for (; j + J <= columns; j += J) {
        MultiplyColumns<T, M, J>(product, row, col + j);
    }
    for (; j + 2 <= columns; j += 2) {
        MultiplyColumns<T, M, 2>(product, row, col + j);
    }
    for (; j < columns; ++j) {
        MultiplyColumns<T, M, 1>(product, row, col + j);
    }
}

// `depth` rows of b from `first` on.
template <typename T, uint32_t M>
void MultiplyPlain(const FewRowsProduct& product, uint32_t row, uint32_t first, uint32_t depth)
{
    constexpr uint32_t N = FEW_ROWS_WIDTH<M>;
    uint32_t col = 0;
    for (; col + N * W <= product.n; col += N * W) {
        AddProducts<T, M, N, false>(product, row, col, first, depth, W);
    }
    constexpr uint32_t TAIL_VECTORS = 4;  // as many as a head of 64 has
    for (; N > TAIL_VECTORS && col + TAIL_VECTORS * W <= product.n; col += TAIL_VECTORS * W) {
        AddProducts<T, M, TAIL_VECTORS, false>(product, row, col, first, depth, W);
    }
    for (; col + W <= product.n; col += W) {
        AddProducts<T, M, 1, false>(product, row, col, first, depth, W);
    }
    if (col < product.n) {
        AddProducts<T, M, 1, true>(product, row, col, first, depth, product.n - col);
    }
}

// `rows` rows of a, by the function for as many.
template <typename T, uint32_t M = MOST_FEW_ROWS>
void MultiplyLines(const FewRowsProduct& product, uint32_t row, uint32_t rows, uint32_t line, uint32_t lines)
{
    if constexpr (M > 1) {
        if (rows < M) {
            MultiplyLines<T, M - 1>(product, row, rows, line, lines);
            return;
        }
    }
    product.transposed ? MultiplyTransposed<T, M>(product, row, line, lines)
                       : MultiplyPlain<T, M>(product, row, line, lines);
}

template <typename T>
void MultiplyFewRows(const FewRowsProduct& product)
{
    const uint32_t lines = product.transposed ? product.n : product.k;
    const uint32_t width = product.transposed ? product.k : product.n;
    const uint64_t lineBytes = uint64_t{width} * sizeof(T);
    const bool foreseen = lineBytes >= LONG_ROW_BYTES;
    const bool few = product.transposed && uint64_t{product.m} * width > FLOATS_OF_FEWER_ROWS;
    const uint32_t rows = few ? FEWER_ROWS : MOST_FEW_ROWS;
    uint32_t most = product.transposed ? ROWS_OF_A_TRANSPOSED_AHEAD : ROWS_AHEAD<T>;
    if (product.groups > 1) {
        most = product.transposed ? ROWS_OF_TRANSPOSED_GROUPS_AHEAD<T> : ROWS_OF_GROUPS_AHEAD;
    }
    for (uint32_t line = 0; line < lines; line += most) {
        const uint32_t count = std::min(most, lines - line);
        const uint32_t ahead = std::min(most, lines - line - count);
        FewRowsProduct group = product;
        for (uint32_t g = 0; g < product.groups; ++g) {
            for (uint32_t i = 0; i < ahead && !foreseen; ++i) {
                Prefetch(reinterpret_cast<const char*>(RowOf<T>(group, line + count + i)), lineBytes);
            }
            // All rows of a, while these of b are in the cache.
            for (uint32_t row = 0; row < product.m; row += rows) {
                MultiplyLines<T>(group, row, std::min(rows, product.m - row), line, count);
            }
            group.a += product.m * product.aStride;
            group.b += lineBytes;
            group.c += product.m * product.cStride;
        }
    }
    if (lines == 0 && !product.accumulate) {  // sums of nothing
        for (uint32_t row = 0; row < product.m * product.groups; ++row) {
            std::fill_n(product.c + row * product.cStride, product.n, 0.0f);
        }
    }
}

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_FEW_ROWS_UNIT_H
