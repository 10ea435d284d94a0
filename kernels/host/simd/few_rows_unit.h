/*!
 * Multiplies a few rows with a matrix, for vector_unit.cpp only. They take as long as reading the matrix: it is read
 * once, front to back, and converted to float in registers, or multiplied as it lies.
 *
 * Each element of the result is summed over k in one order, whatever the sizes of blocks: with a transposed matrix in
 * W lanes, which are folded at the end, else one product or pair of products after the other.
 */
#ifndef ASCENDC_HOST_SIMD_FEW_ROWS_UNIT_H
#define ASCENDC_HOST_SIMD_FEW_ROWS_UNIT_H

#include <algorithm>

#include "simd/few_rows_terms.h"
#include "simd/folding.h"
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
// So many vectors of b are taken at a time: sums of all rows stay in registers. With a single row of a that is all it
// takes, and long pieces of the rows of b come faster: 1 x 4096 x 4096 on a Zen 5 takes 0.83 of the time with 16
// instead of 4, bfloat16 0.7.
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

// Keeps v in a register: multiplications that read a vector from memory each read it anew, and one that crosses a cache
// line takes twice as long.
HOST_INLINE VF InRegister(VF v)
{
#if defined(HOST_SIMD_AVX512)
    asm("" : "+v"(v));
#elif defined(HOST_SIMD_AVX2)
    asm("" : "+x"(v));
#endif
    return v;
}

template <class TERMS>
HOST_INLINE const typename TERMS::A* RowOfA(const FewRowsProduct& product, uint32_t row)
{
    return reinterpret_cast<const typename TERMS::A*>(product.a) + row * product.aStride;
}

template <typename T>
HOST_INLINE const T* RowOf(const FewRowsProduct& product, uint32_t row)
{
    return reinterpret_cast<const T*>(product.b) + row * product.bStride;
}

// Multiplies M rows of a with J rows of b, which are columns of c.
template <class TERMS, uint32_t M, uint32_t J>
HOST_INLINE void MultiplyColumns(const FewRowsProduct& product, uint32_t row, uint32_t col)
{
    constexpr uint32_t SUMS = (M * J + W - 1) / W * W;
    VF sums[SUMS] = {};
    const auto* const a = RowOfA<TERMS>(product, row);
    const auto add = [&](const auto& load, uint32_t at) {
        VF b[J];
#pragma GCC unroll 16
        for (uint32_t j = 0; j < J; ++j) {
            const VF line = load(RowOf<typename TERMS::B>(product, col + j) + at);
            b[j] = M > 1 ? InRegister(line) : line;  // one row multiplies each vector once
        }
#pragma GCC unroll 16
        for (uint32_t i = 0; i < M; ++i) {
            const VF value = InRegister(load(a + i * product.aStride + at));
#pragma GCC unroll 16
            for (uint32_t j = 0; j < J; ++j) {
                sums[i * J + j] = TERMS::MultiplyAdd(value, b[j], sums[i * J + j]);
            }
        }
    };
    uint32_t at = 0;
    for (; at + TERMS::COUNT <= product.k; at += TERMS::COUNT) {
        add([](const auto* p) { return TERMS::LoadTerms(p); }, at);
    }
    if (at < product.k) {
        add([tail = product.k - at](const auto* p) { return TERMS::LoadTerms(p, tail); }, at);
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

// Adds `depth` products to N vectors of M rows of c, or to nothing; with PART there are `columns` of them.
template <class TERMS, uint32_t M, uint32_t N, bool PART>
HOST_INLINE void AddProducts(const FewRowsProduct& product, uint32_t row, uint32_t col, uint32_t first, uint32_t depth,
                             uint32_t columns)
{
    const auto lanes = [&](uint32_t vector) {
        return std::min<uint32_t>(W, columns - std::min<uint32_t>(columns, vector * W));
    };
    const bool begins = first == 0 && !product.accumulate;
    float* const c = product.c + row * product.cStride + col;
    VF sums[M][N] = {};
    if (!begins) {
#pragma GCC unroll 16
        for (uint32_t i = 0; i < M; ++i) {
#pragma GCC unroll 16
            for (uint32_t j = 0; j < N; ++j) {
                const float* const from = c + i * product.cStride + j * W;
                sums[i][j] = PART ? LoadPartial(from, lanes(j)) : Load(from);
            }
#pragma GCC unroll 16
            for (uint32_t j = 0; j < N; j += TERMS::VECTORS) {
                TERMS::ToOrderOfTerms(sums[i] + j);
            }
        }
    }
    const int64_t aStride = product.aStride;
    const int64_t bStride = product.bStride;
    const auto* a = RowOfA<TERMS>(product, row) + first;
    const auto* line = RowOf<typename TERMS::B>(product, first) + col;
    const auto load = [&](const auto* p) {
        if constexpr (PART) {
            return TERMS::LoadTerms(p, columns);
        } else {
            return TERMS::LoadTerms(p);
        }
    };
    const auto add = [&](uint32_t rows) {
        if constexpr (N * W * sizeof(*line) <= CACHE_LINE) {  // the CPU does not foresee which rows are next
            for (uint32_t i = 0; i < rows; ++i) {
                __builtin_prefetch(line + (depth + i) * bStride, 0, L2_CACHE);
            }
        }
        VF b[N];
#pragma GCC unroll 16
        for (uint32_t j = 0; j < N; j += TERMS::VECTORS) {
            TERMS::LoadRows(line + j * W, bStride, rows, load, b + j);
        }
#pragma GCC unroll 16
        for (uint32_t j = 0; j < N; ++j) {
            b[j] = InRegister(b[j]);
        }
#pragma GCC unroll 16
        for (uint32_t i = 0; i < M; ++i) {
            const VF value = TERMS::Spread(a + i * aStride, rows);
#pragma GCC unroll 16
            for (uint32_t j = 0; j < N; ++j) {
                sums[i][j] = TERMS::MultiplyAdd(value, b[j], sums[i][j]);
            }
        }
    };
    const auto* const end = a + depth / TERMS::ROWS * TERMS::ROWS;
    for (; a != end; a += TERMS::ROWS, line += TERMS::ROWS * bStride) {
        add(TERMS::ROWS);
    }
    if (depth % TERMS::ROWS != 0) {
        add(depth % TERMS::ROWS);
    }
#pragma GCC unroll 16
    for (uint32_t i = 0; i < M; ++i) {
#pragma GCC unroll 16
        for (uint32_t j = 0; j < N; j += TERMS::VECTORS) {
            TERMS::ToOrderOfColumns(sums[i] + j);
        }
#pragma GCC unroll 16
        for (uint32_t j = 0; j < N; ++j) {
            float* const to = c + i * product.cStride + j * W;
            if constexpr (PART) {
                StorePartial(to, sums[i][j], lanes(j));
            } else {
                Store(to, sums[i][j]);
            }
        }
    }
}

// Multiplies with `columns` rows of b from `col` on.
template <class TERMS, uint32_t M>
void MultiplyTransposed(const FewRowsProduct& product, uint32_t row, uint32_t col, uint32_t columns)
{
    constexpr uint32_t J = FEW_ROWS_COLUMNS<M>;
    uint32_t j = 0;
    for (; j + J <= columns; j += J) {
        MultiplyColumns<TERMS, M, J>(product, row, col + j);
    }
    for (; j + 2 <= columns; j += 2) {
        MultiplyColumns<TERMS, M, 2>(product, row, col + j);
    }
    for (; j < columns; ++j) {
        MultiplyColumns<TERMS, M, 1>(product, row, col + j);
    }
}

// Multiplies with `depth` rows of b from `first` on.
template <class TERMS, uint32_t M>
void MultiplyPlain(const FewRowsProduct& product, uint32_t row, uint32_t first, uint32_t depth)
{
    constexpr uint32_t N = FEW_ROWS_WIDTH<M>;
    uint32_t col = 0;
    for (; col + N * W <= product.n; col += N * W) {
        AddProducts<TERMS, M, N, false>(product, row, col, first, depth, N * W);
    }
    constexpr uint32_t TAIL_VECTORS = 4;  // as many as a head of 64 has
    for (; N > TAIL_VECTORS && col + TAIL_VECTORS * W <= product.n; col += TAIL_VECTORS * W) {
        AddProducts<TERMS, M, TAIL_VECTORS, false>(product, row, col, first, depth, TAIL_VECTORS * W);
    }
    constexpr uint32_t LEAST = TERMS::VECTORS;
    for (; col + LEAST * W <= product.n; col += LEAST * W) {
        AddProducts<TERMS, M, LEAST, false>(product, row, col, first, depth, LEAST * W);
    }
    if (col < product.n) {
        AddProducts<TERMS, M, LEAST, true>(product, row, col, first, depth, product.n - col);
    }
}

// Multiplies `rows` rows of a, by the function for as many.
template <class TERMS, uint32_t M = MOST_FEW_ROWS>
void MultiplyLines(const FewRowsProduct& product, uint32_t row, uint32_t rows, uint32_t line, uint32_t lines)
{
    if constexpr (M > 1) {
        if (rows < M) {
            MultiplyLines<TERMS, M - 1>(product, row, rows, line, lines);
            return;
        }
    }
    product.transposed ? MultiplyTransposed<TERMS, M>(product, row, line, lines)
                       : MultiplyPlain<TERMS, M>(product, row, line, lines);
}

template <class TERMS>
void MultiplyFewRows(const FewRowsProduct& product)
{
    using T = typename TERMS::B;
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
            // Multiplies all rows of a, while these of b are in the cache.
            for (uint32_t row = 0; row < product.m; row += rows) {
                MultiplyLines<TERMS>(group, row, std::min(rows, product.m - row), line, count);
            }
            group.a += product.m * product.aStride * sizeof(typename TERMS::A);
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
