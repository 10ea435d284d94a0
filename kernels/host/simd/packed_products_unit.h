/*!
 * Multiplies rows of small integers, or of floats, with a packed weight of 8 or 4 bits (PackedProduct), for
 * vector_unit.cpp only.
 *
 * With integers a lane is a column of the result, so that no sum goes across lanes. A tile, as many rows of the weight
 * as a vector has lanes, is transposed by fours of numbers and unpacked into bytes, which stay in the cache for all
 * rows of x. Four numbers of a row of x are then the same in each lane. Numbers of 4 bits become 0 to 15, those of 8
 * bits 0 to 255 where the CPU adds up four products in one instruction (VNNI): the surplus is one sum of the row of x,
 * with which the sums begin. Groups of a row are added up in their order. So a result depends on neither the other rows
 * nor the vector unit.
 */
#ifndef ASCENDC_HOST_SIMD_PACKED_PRODUCTS_UNIT_H
#define ASCENDC_HOST_SIMD_PACKED_PRODUCTS_UNIT_H

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "simd/functions.h"
#include "simd/packed_floats_unit.h"
#include "simd/packed_rows_unit.h"
#include "simd/simd.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

constexpr uint32_t QUAD = 4;                                   // numbers that a lane of 32 bits holds
constexpr uint32_t ROUNDED_ROWS = RoundedRows::ROWS_OF_BLOCK;  // of x, side by side
constexpr uint32_t CHUNK_NUMBERS = RoundedRows::NUMBERS_OF_CHUNK;
constexpr uint32_t CHUNK_QUADS = CHUNK_NUMBERS / QUAD;
#if defined(HOST_SIMD_AVX512)
constexpr uint32_t ROWS_OF_X = 8;  // whose sums are in registers
#else
constexpr uint32_t ROWS_OF_X = 4;
#endif
#if defined(HOST_SIMD_AVX512) && defined(__AVX512VNNI__)
constexpr bool ADDS_FOUR = true;
#else
constexpr bool ADDS_FOUR = false;
#endif

// This is added to numbers of the weight.
template <uint32_t PER_BYTE>
constexpr int32_t RAISED = PER_BYTE == 2 ? 8
                           : ADDS_FOUR   ? 128
                                         : 0;

HOST_INLINE VI AndOf(VI v, int32_t mask)
{
    return v & SetInt(mask);
}

// ---- x

// Stores sixteen integers of 32 bits as bytes; with `parted`, of eight those at even places first.
HOST_INLINE void StoreBytes(const VI* v, bool parted, int8_t* to)
{
#if defined(HOST_SIMD_AVX512) || defined(HOST_SIMD_AVX2)
#if defined(HOST_SIMD_AVX512)
    __m128i bytes = _mm512_cvtepi32_epi8(reinterpret_cast<__m512i>(v[0]));
#else
    const __m256i words = _mm256_packs_epi32(reinterpret_cast<__m256i>(v[0]), reinterpret_cast<__m256i>(v[1]));
    const __m256i ordered = _mm256_permute4x64_epi64(words, 0xd8);
    __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
#endif
    if (parted) {
        bytes = _mm_shuffle_epi8(bytes, _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15));
    }
    memcpy(to, &bytes, sizeof(bytes));
#else
    static_cast<void>(parted);  // only blocks are
    for (uint32_t i = 0; i < CHUNK_NUMBERS; ++i) {
        to[i] = static_cast<int8_t>(v[i / W][i % W]);
    }
#endif
}

// Rounds row `row` of x. A value that is not finite makes the scale of its group NaN.
template <uint32_t PER_BYTE>
void RoundRow(const RoundedRows& rounded, const float* x, uint32_t row)
{
    constexpr uint32_t VECTORS = CHUNK_NUMBERS / W;
    constexpr float LEAST = 1e-30f;          // a group of smaller numbers has the scale of this one, as in the kernel
    constexpr float ROUNDING = 12582912.0f;  // 1.5 * 2^23: a float of this size has no fraction
    constexpr float INFINITE = __builtin_inff();
    const uint32_t group = rounded.group;
    const uint32_t groups = rounded.groups;
    const uint32_t rows = rounded.BlockRows();
    int8_t* to = rounded.Integers(row, 0);
    float* const scales = rounded.Factor(rounded.scale, row, 0);
    float* const allSums = rounded.Factor(rounded.sums, row, 0);
    int32_t* const shifts = rounded.Factor(rounded.shifts, row, 0);
    for (uint32_t g = 0; g < groups; ++g) {
        const float* const from = x + uint64_t{g} * group;
        VI largest = AsInt(Set(LEAST));
        for (uint32_t i = 0; i < group; i += W) {
            const VI magnitude = AndOf(AsInt(Load(from + i)), 0x7fffffff);  // as an integer, NaN is larger than numbers
            largest = magnitude > largest ? magnitude : largest;
        }
        const int32_t bits = Folded(largest, [](VI a, VI b) { return a > b ? a : b; });
        float most;
        memcpy(&most, &bits, sizeof(most));
        const VF inverse = Set(127.0f / most);
        const VI finite = SetInt(most < INFINITE ? -1 : 0);  // the bits of NaN are no integers to add up
        VI sums = SetInt(0);
        for (uint32_t i = 0; i < group; i += CHUNK_NUMBERS) {
            VI integers[VECTORS];
#pragma GCC unroll 2
            for (uint32_t v = 0; v < VECTORS; ++v) {
                const VF value = Load(from + i + v * W) * inverse;
                integers[v] = (AsInt(value + Set(ROUNDING)) - AsInt(Set(ROUNDING))) & finite;
                sums += integers[v];
            }
            StoreBytes(integers, PER_BYTE == 2 && rounded.inBlocks, to);
            to += rows * CHUNK_NUMBERS;
        }
        const int32_t sum = Folded(sums, [](VI a, VI b) { return a + b; });
        const float scale = most < INFINITE ? most * (1.0f / 127.0f) : __builtin_nanf("");
        scales[g * rows] = scale;
        allSums[g * rows] = static_cast<float>(sum) * scale;
        shifts[g * rows] = -RAISED<PER_BYTE> * sum;
    }
}

// ---- results

// Adds the bias to R results of one part, of `cols` columns from `col` on.
template <uint32_t R>
HOST_INLINE void AddBias(const PackedProduct& product, uint32_t part, uint32_t col, uint32_t cols, VF (&results)[R])
{
    if (product.bias == nullptr) {
        return;
    }
    const float* const bias = product.bias + part * uint64_t{product.n} + col;
    const VF values = cols == W ? Load(bias) : LoadPartial(bias, cols);
    for (uint32_t r = 0; r < R; ++r) {
        results[r] = results[r] + values;
    }
}

// Makes silu(gate) * up.
HOST_INLINE VF Gated(VF gate, VF up)
{
    return gate / (Set(1.0f) + ExpOf(-gate)) * up;
}

// Makes R rows of columns of the result from `sums`, which makes those of a part: the products.
template <uint32_t R, class SUMS>
HOST_INLINE void FinishColumns(const PackedProduct& product, uint32_t row, uint32_t col, uint32_t cols,
                               const SUMS& sums)
{
    VF results[R];
    sums(0, results);
    AddBias(product, 0, col, cols, results);
    if (product.parts == 2) {
        VF up[R];
        sums(1, up);
        AddBias(product, 1, col, cols, up);
        for (uint32_t r = 0; r < R; ++r) {
            results[r] = Gated(results[r], up[r]);
        }
    }
    for (uint32_t r = 0; r < R; ++r) {
        float* const to = product.y + (row + r) * uint64_t{product.n} + col;
        cols == W ? Store(to, results[r]) : StorePartial(to, results[r], cols);
    }
}

#if defined(HOST_SIMD_AVX512) || defined(HOST_SIMD_AVX2)

// ---- the weight

#if defined(HOST_SIMD_AVX512)
typedef __m512i BytesOfVector;
#else
typedef __m256i BytesOfVector;
#endif

// Lane i of v[j] becomes lane j of v[i]: each round puts the lanes of two vectors by turns.
template <typename V, size_t... I>
HOST_INLINE void TransposeLanes(V (&v)[W], std::index_sequence<I...>)
{
#pragma GCC unroll 4
    for (int round = 1; round < W; round *= 2) {
        V mixed[W];
#pragma GCC unroll 8
        for (int i = 0; i < W / 2; ++i) {
            mixed[2 * i] = Shuffled<(I / 2 + I % 2 * W)...>(v[i], v[i + W / 2]);
            mixed[2 * i + 1] = Shuffled<(W / 2 + I / 2 + I % 2 * W)...>(v[i], v[i + W / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) {
            v[i] = mixed[i];
        }
    }
}
template <typename V>
HOST_INLINE void TransposeLanes(V (&v)[W])
{
    TransposeLanes(v, std::make_index_sequence<W>());
}

// Holds W rows of the weight: bytes, with four numbers of each row side by side, and factors, with one of each.
struct PackedTile {
    uint8_t* bytes;
    float* scale;
    float* offset;
};

template <uint32_t PER_BYTE>
HOST_INLINE void StoreQuads(VI packed, uint8_t* to)
{
    if constexpr (PER_BYTE == 1) {
        const VI raised = ADDS_FOUR ? packed ^ SetInt(static_cast<int32_t>(0x80808080)) : packed;
        memcpy(to, &raised, sizeof(VI));
    } else {
        const VI raised = packed ^ SetInt(static_cast<int32_t>(0x88888888));
        const VI even = AndOf(raised, 0x0f0f0f0f);
        const VI odd = AndOf(raised >> 4, 0x0f0f0f0f);
        memcpy(to, &even, sizeof(VI));
        memcpy(to + sizeof(VI), &odd, sizeof(VI));
    }
}

template <typename S>
void PackFactors(const S* from, uint32_t rows, uint32_t groups, float* to)
{
    for (uint32_t g = 0; g < groups; g += W) {
        const uint32_t count = std::min<uint32_t>(W, groups - g);
        VF v[W];
        for (uint32_t i = 0; i < W; ++i) {
            const S* const row = from + uint64_t{i} * groups + g;
            v[i] = i >= rows ? Set(0.0f) : count == W ? Load(row) : LoadPartial(row, count);
        }
        TransposeLanes(v);
        for (uint32_t i = 0; i < count; ++i) {
            memcpy(to + uint64_t{g + i} * W, &v[i], sizeof(VF));
        }
    }
}

// `rows` rows from `row` on; lanes behind them are zero.
template <uint32_t PER_BYTE, typename S>
void PackTile(const PackedProduct& product, uint64_t row, uint32_t rows, const PackedTile& tile)
{
    const uint64_t rowBytes = product.x.k / PER_BYTE;
    const uint32_t quads = static_cast<uint32_t>(rowBytes / QUAD);
    const uint8_t* const from = reinterpret_cast<const uint8_t*>(product.weight) + row * rowBytes;
    for (uint32_t q = 0; q < quads; q += W) {
        const uint32_t count = std::min<uint32_t>(W, quads - q);
        VI v[W];
#pragma GCC unroll 16
        for (uint32_t i = 0; i < W; ++i) {
            const auto* const place = reinterpret_cast<const int32_t*>(from + i * rowBytes + q * QUAD);
            __builtin_prefetch(reinterpret_cast<const uint8_t*>(place) + 2 * W * rowBytes, 0,
                               2);  // a later tile, into L2
            v[i] = i >= rows ? SetInt(0) : count == W ? LoadRaw<VI>(place) : LoadPartial(place, count);
        }
        TransposeLanes(v);
        for (uint32_t i = 0; i < count; ++i) {
            StoreQuads<PER_BYTE>(v[i], tile.bytes + (q + i) * PER_BYTE * sizeof(VI));
        }
    }
    const uint64_t factor = row * product.x.groups;
    PackFactors(static_cast<const S*>(product.scale) + factor, rows, product.x.groups, tile.scale);
    if (product.offset != nullptr) {
        PackFactors(static_cast<const S*>(product.offset) + factor, rows, product.x.groups, tile.offset);
    }
}

// ---- sums

HOST_INLINE BytesOfVector QuadOf(const int8_t* p)
{
    int32_t bits;
    memcpy(&bits, p, sizeof(bits));
    return reinterpret_cast<BytesOfVector>(SetInt(bits));
}

// Adds products of four numbers a lane, of CHUNK_QUADS vectors of a tile, to the sums of R rows of x.
template <uint32_t PER_BYTE, uint32_t R>
HOST_INLINE void AddChunk(const uint8_t* bytes, const int8_t* x, VI (&sums)[R])
{
    if constexpr (ADDS_FOUR) {
#pragma GCC unroll 4
        for (uint32_t j = 0; j < CHUNK_QUADS; ++j) {
            const auto w = LoadRaw<BytesOfVector>(bytes + j * sizeof(VI));
#pragma GCC unroll 8
            for (uint32_t r = 0; r < R; ++r) {
#if defined(__AVX512VNNI__) && defined(HOST_SIMD_AVX512)
                sums[r] = reinterpret_cast<VI>(_mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sums[r]), w,
                                                                   QuadOf(x + r * CHUNK_NUMBERS + j * QUAD)));
#endif
            }
        }
        return;
    }
#if defined(HOST_SIMD_AVX512)
    const auto add = [](__m512i a, __m512i b) { return _mm512_add_epi16(a, b); };
    const auto pairs = [](__m512i a, __m512i b) { return _mm512_maddubs_epi16(a, b); };
    const auto widened = [](__m512i a) { return reinterpret_cast<VI>(_mm512_madd_epi16(a, _mm512_set1_epi16(1))); };
#else
    const auto add = [](__m256i a, __m256i b) { return _mm256_add_epi16(a, b); };
    const auto pairs = [](__m256i a, __m256i b) { return _mm256_maddubs_epi16(a, b); };
    const auto widened = [](__m256i a) { return reinterpret_cast<VI>(_mm256_madd_epi16(a, _mm256_set1_epi16(1))); };
#endif
    if constexpr (PER_BYTE == 2) {
        BytesOfVector some[R];  // of 16 bits: 15240 at most
#pragma GCC unroll 4
        for (uint32_t j = 0; j < CHUNK_QUADS; ++j) {
            const auto w = LoadRaw<BytesOfVector>(bytes + j * sizeof(VI));
#pragma GCC unroll 8
            for (uint32_t r = 0; r < R; ++r) {
                const BytesOfVector products = pairs(w, QuadOf(x + r * CHUNK_NUMBERS + j * QUAD));
                some[r] = j == 0 ? products : add(some[r], products);
            }
        }
#pragma GCC unroll 8
        for (uint32_t r = 0; r < R; ++r) {
            sums[r] += widened(some[r]);
        }
    } else {
#if defined(HOST_SIMD_AVX2)
        // The sign of a number goes over to that of x: a pair is 32512 at most.
#pragma GCC unroll 4
        for (uint32_t j = 0; j < CHUNK_QUADS; ++j) {
            const auto w = LoadRaw<BytesOfVector>(bytes + j * sizeof(VI));
            const __m256i magnitude = _mm256_abs_epi8(w);
#pragma GCC unroll 8
            for (uint32_t r = 0; r < R; ++r) {
                const __m256i other = _mm256_sign_epi8(QuadOf(x + r * CHUNK_NUMBERS + j * QUAD), w);
                sums[r] += widened(pairs(magnitude, other));
            }
        }
#else
        // Vectors of AVX-512 have no such instruction: numbers at even and at odd places come to 16 bits.
        const auto odd = [](__m512i v) { return _mm512_srai_epi16(v, 8); };
        const auto even = [&](__m512i v) { return odd(_mm512_slli_epi16(v, 8)); };
        for (uint32_t j = 0; j < CHUNK_QUADS; ++j) {
            const auto w = LoadRaw<BytesOfVector>(bytes + j * sizeof(VI));
#pragma GCC unroll 8
            for (uint32_t r = 0; r < R; ++r) {
                const BytesOfVector quad = QuadOf(x + r * CHUNK_NUMBERS + j * QUAD);
                sums[r] += reinterpret_cast<VI>(
                    _mm512_add_epi32(_mm512_madd_epi16(even(w), even(quad)), _mm512_madd_epi16(odd(w), odd(quad))));
            }
        }
#endif
    }
}

// Makes the results of R rows of x, from `row` on, with a tile.
template <uint32_t PER_BYTE, bool OFFSET, uint32_t R>
HOST_INLINE void MultiplyTile(const RoundedRows& x, const PackedTile& tile, uint32_t row, VF (&results)[R])
{
    const uint32_t chunks = x.group / CHUNK_NUMBERS;
    const int8_t* const allIntegers = x.Integers(row, 0);
    const float* const xScale = x.Factor(x.scale, row, 0);
    const float* const xSums = x.Factor(x.sums, row, 0);
    const int32_t* const shifts = x.Factor(x.shifts, row, 0);
    VF others[R] = {};
    for (uint32_t fourth = 0; fourth < 4; ++fourth) {
        VF terms[R];
#pragma GCC unroll 8
        for (uint32_t r = 0; r < R; ++r) {
            terms[r] = Set(0.0f);
        }
        for (uint32_t g = fourth; g < x.groups; g += 4) {
            VI sums[R];
#pragma GCC unroll 8
            for (uint32_t r = 0; r < R; ++r) {
                sums[r] = SetInt(shifts[g * ROUNDED_ROWS + r]);
            }
            const uint8_t* bytes = tile.bytes + uint64_t{g} * chunks * CHUNK_QUADS * sizeof(VI);
            const int8_t* integers = allIntegers + uint64_t{g} * chunks * ROUNDED_ROWS * CHUNK_NUMBERS;
            for (uint32_t u = 0; u < chunks; ++u) {
                AddChunk<PER_BYTE>(bytes, integers, sums);
                bytes += CHUNK_QUADS * sizeof(VI);
                integers += ROUNDED_ROWS * CHUNK_NUMBERS;
            }
            const VF scale = Load(tile.scale + g * W);
            const VF offset = OFFSET ? Load(tile.offset + g * W) : VF{};
#pragma GCC unroll 8
            for (uint32_t r = 0; r < R; ++r) {
                VF term = __builtin_convertvector(sums[r], VF) * Set(xScale[g * ROUNDED_ROWS + r]);
                if (OFFSET) {
                    term = term + offset * Set(xSums[g * ROUNDED_ROWS + r]);
                }
                terms[r] = terms[r] + term * scale;
            }
        }
#pragma GCC unroll 8
        for (uint32_t r = 0; r < R; ++r) {
            if (fourth == 0) {
                results[r] = terms[r];
            } else if (fourth == 1) {
                results[r] = results[r] + terms[r];
            } else if (fourth == 2) {
                others[r] = terms[r];
            } else {
                results[r] = results[r] + (others[r] + terms[r]);
            }
        }
    }
}

// Multiplies R rows of x, from `row` on, with one tile, or two of a gated pair: columns of the result from `col` on.
template <uint32_t PER_BYTE, bool OFFSET, uint32_t R>
void MultiplyRowsOfX(const PackedProduct& product, const PackedTile (&tiles)[2], uint32_t row, uint32_t col,
                     uint32_t cols)
{
    FinishColumns<R>(product, row, col, cols, [&](uint32_t part, VF(&sums)[R]) {
        MultiplyTile<PER_BYTE, OFFSET>(product.x, tiles[part], row, sums);
    });
}

template <uint32_t PER_BYTE, bool OFFSET, uint32_t R = ROWS_OF_X>
void MultiplySomeRows(const PackedProduct& product, const PackedTile (&tiles)[2], uint32_t row, uint32_t rows,
                      uint32_t col, uint32_t cols)
{
    if constexpr (R > 1) {
        if (rows < R) {
            MultiplySomeRows<PER_BYTE, OFFSET, R - 1>(product, tiles, row, rows, col, cols);
            return;
        }
    }
    MultiplyRowsOfX<PER_BYTE, OFFSET, R>(product, tiles, row, col, cols);
}

// Makes columns [begin, end) of the result.
template <uint32_t PER_BYTE, typename S>
void MultiplyPackedOf(const PackedProduct& product, uint32_t begin, uint32_t end)
{
    static thread_local std::vector<float> memory;
    const uint64_t bytes = uint64_t{product.x.k} * W;
    const uint64_t factors = uint64_t{product.x.groups} * W;
    const uint64_t floats = bytes / sizeof(float) + 2 * factors;
    memory.resize(std::max<size_t>(memory.size(), product.parts * floats + 64 / sizeof(float)));
    const uintptr_t line = 64 - reinterpret_cast<uintptr_t>(memory.data()) % 64;
    PackedTile tiles[2];
    for (uint32_t i = 0; i < 2; ++i) {
        float* const first = memory.data() + line % 64 / sizeof(float) + (i < product.parts ? i : 0) * floats;
        tiles[i] = {reinterpret_cast<uint8_t*>(first + 2 * factors), first, first + factors};
    }
    for (uint32_t col = begin; col < end; col += W) {
        const uint32_t cols = std::min<uint32_t>(W, end - col);
        for (uint32_t i = 0; i < product.parts; ++i) {
            PackTile<PER_BYTE, S>(product, uint64_t{i} * product.n + col, cols, tiles[i]);
        }
        for (uint32_t row = 0; row < product.x.m; row += ROWS_OF_X) {
            const uint32_t rows = std::min(ROWS_OF_X, product.x.m - row);
            product.offset != nullptr ? MultiplySomeRows<PER_BYTE, true>(product, tiles, row, rows, col, cols)
                                      : MultiplySomeRows<PER_BYTE, false>(product, tiles, row, rows, col, cols);
        }
    }
}

// ---- one row of x

// Sums W rows of terms, each as it says above.
HOST_INLINE VF SumsOfTerms(const float* terms, uint32_t groups, uint32_t rows)
{
    alignas(sizeof(VF)) float results[W] = {};
    const __m128i tail = _mm_cmpgt_epi32(_mm_set1_epi32(static_cast<int32_t>(groups % 4)), _mm_setr_epi32(0, 1, 2, 3));
    for (uint32_t first = 0; first < rows; first += 4) {
        __m128 v[4];
        for (uint32_t i = 0; i < 4; ++i) {
            const float* const row = terms + std::min(first + i, rows - 1) * uint64_t{groups};
            v[i] = _mm_setzero_ps();
            uint32_t g = 0;
            for (; g + 4 <= groups; g += 4) {
                v[i] = _mm_add_ps(v[i], _mm_loadu_ps(row + g));
            }
            if (g < groups) {
                v[i] = _mm_add_ps(v[i], _mm_maskload_ps(row + g, tail));
            }
        }
        _MM_TRANSPOSE4_PS(v[0], v[1], v[2], v[3]);
        _mm_store_ps(results + first, _mm_add_ps(_mm_add_ps(v[0], v[1]), _mm_add_ps(v[2], v[3])));
    }
    return Load(results);
}

template <bool OFFSET, uint32_t PER_BYTE, uint32_t GROUP, typename S>
void MultiplyOneRowOf(const PackedProduct& product, uint32_t begin, uint32_t end)
{
    using Factors = PeriodicFactors<PER_BYTE, GROUP>;
    const RoundedRows& x = product.x;
    static thread_local std::vector<std::unique_ptr<Factors>> kept;  // of parts of a row, if it is long
    static thread_local std::vector<float> terms;
    const uint32_t parts = (x.groups + MOST_ROW_GROUPS - 1) / MOST_ROW_GROUPS;
    for (uint32_t i = 0; i < parts; ++i) {
        if (i == kept.size()) {
            kept.push_back(std::make_unique<Factors>());
        }
        const uint32_t first = i * MOST_ROW_GROUPS;
        kept[i]->Take(std::min(MOST_ROW_GROUPS, x.groups - first), x.integers + uint64_t{first} * GROUP,
                      x.scale + first, x.sums + first);
    }
    terms.resize(std::max<size_t>(terms.size(), uint64_t{W} * x.groups + 16));
    const auto sums = [&](uint32_t part, uint32_t col, uint32_t cols) {
        for (uint32_t r = 0; r < cols; ++r) {
            const uint64_t factor = (uint64_t{part} * product.n + col + r) * x.groups;
            for (uint32_t i = 0; i < parts; ++i) {
                const uint64_t first = factor + i * MOST_ROW_GROUPS;
                // Rows that are not taken in parts follow each other.
                TermsOf<OFFSET>(*kept[i], reinterpret_cast<const uint8_t*>(product.weight) + first * GROUP / PER_BYTE,
                                static_cast<const S*>(product.scale) + first,
                                OFFSET ? static_cast<const S*>(product.offset) + first : nullptr,
                                kept[i]->groups * (parts == 1 ? cols : 1),
                                terms.data() + r * x.groups + i * MOST_ROW_GROUPS);
            }
            if (parts == 1) {
                break;
            }
        }
        return SumsOfTerms(terms.data(), x.groups, cols);
    };
    for (uint32_t col = begin; col < end; col += W) {
        const uint32_t cols = std::min<uint32_t>(W, end - col);
        FinishColumns<1>(product, 0, col, cols,
                         [&](uint32_t part, VF(&results)[1]) { results[0] = sums(part, col, cols); });
    }
}

template <uint32_t PER_BYTE, typename S>
void MultiplyOneRow(const PackedProduct& product, uint32_t begin, uint32_t end)
{
    const auto run = [&](auto group) {
        constexpr uint32_t GROUP = decltype(group)::value;
        product.offset != nullptr ? MultiplyOneRowOf<true, PER_BYTE, GROUP, S>(product, begin, end)
                                  : MultiplyOneRowOf<false, PER_BYTE, GROUP, S>(product, begin, end);
    };
    product.x.group == 16   ? run(std::integral_constant<uint32_t, 16>())
    : product.x.group == 32 ? run(std::integral_constant<uint32_t, 32>())
                            : run(std::integral_constant<uint32_t, 64>());
}

#else

// Makes one result: groups are added up as above.
template <uint32_t PER_BYTE, typename S>
float RoundedSum(const PackedProduct& product, uint32_t row, uint64_t column)
{
    const RoundedRows& x = product.x;
    const auto* numbers = reinterpret_cast<const uint8_t*>(product.weight) + column * (x.k / PER_BYTE);
    const int8_t* integers = x.Integers(row, 0);
    const S* const scale = static_cast<const S*>(product.scale) + column * x.groups;
    const S* const offset = static_cast<const S*>(product.offset) + column * x.groups;
    float terms[4] = {};
    for (uint32_t g = 0; g < x.groups; ++g) {
        int32_t sum = 0;
        for (uint32_t i = 0; i < x.group; i += CHUNK_NUMBERS) {
            sum += PackedIntegerSum<PER_BYTE, CHUNK_NUMBERS>(numbers, integers);
            numbers += CHUNK_NUMBERS / PER_BYTE;
            integers += CHUNK_NUMBERS;
        }
        float term = static_cast<float>(sum) * *x.Factor(x.scale, row, g);
        if (product.offset != nullptr) {
            term = term + FactorAt(offset + g) * *x.Factor(x.sums, row, g);
        }
        terms[g % 4] = terms[g % 4] + term * FactorAt(scale + g);
    }
    return (terms[0] + terms[1]) + (terms[2] + terms[3]);
}

#endif

// ---- floats

template <uint32_t PER_BYTE, typename S, uint32_t R = RoundedRows::MOST_FLOAT_ROWS>
void MultiplyFloats(const PackedProduct& product, uint32_t begin, uint32_t end)
{
    if constexpr (R > 1) {
        if (product.x.m < R) {
            MultiplyFloats<PER_BYTE, S, R - 1>(product, begin, end);
            return;
        }
    }
    for (uint32_t col = begin; col < end; col += W) {
        const uint32_t cols = std::min<uint32_t>(W, end - col);
        FinishColumns<R>(product, 0, col, cols, [&](uint32_t part, VF(&results)[R]) {
            float sums[R * W] = {};
            for (uint32_t i = 0; i < cols; ++i) {
                MultiplyFloatRow<PER_BYTE, R, S>(product, uint64_t{part} * product.n + col + i, sums + i);
            }
            for (uint32_t r = 0; r < R; ++r) {
                results[r] = Load(sums + r * W);
            }
        });
    }
}

template <uint32_t PER_BYTE, typename S>
void MultiplyPackedRows(const PackedProduct& product, uint32_t begin, uint32_t end)
{
    if (product.floats != nullptr) {
        MultiplyFloats<PER_BYTE, S>(product, begin, end);
        return;
    }
#if defined(HOST_SIMD_AVX512) || defined(HOST_SIMD_AVX2)
    (product.x.inBlocks ? MultiplyPackedOf<PER_BYTE, S> : MultiplyOneRow<PER_BYTE, S>)(product, begin, end);
#else
    for (uint32_t col = begin; col < end; col += W) {
        const uint32_t cols = std::min<uint32_t>(W, end - col);
        for (uint32_t row = 0; row < product.x.m; ++row) {
            FinishColumns<1>(product, row, col, cols, [&](uint32_t part, VF(&results)[1]) {
                results[0] = Set(0.0f);
                for (uint32_t i = 0; i < cols; ++i) {
                    results[0][i] = RoundedSum<PER_BYTE, S>(product, row, uint64_t{part} * product.n + col + i);
                }
            });
        }
    }
#endif
}

// Makes columns [begin, end) of the result.
template <typename S>
void MultiplyPacked(const PackedProduct& product, uint32_t begin, uint32_t end)
{
    (product.x.perByte == 1 ? MultiplyPackedRows<1, S> : MultiplyPackedRows<2, S>)(product, begin, end);
}

// Rounds rows [begin, end) of x, or, if they stay floats, only adds up their groups.
inline void RoundRows(const RoundedRows& rounded, const float* x, uint32_t begin, uint32_t end)
{
    for (uint32_t row = begin; row < end; ++row) {
        const float* const from = x + row * uint64_t{rounded.k};
        if (rounded.integers == nullptr) {
            SumGroups(rounded, from, rounded.sums + row * uint64_t{rounded.groups});
        } else {
            rounded.perByte == 1 ? RoundRow<1>(rounded, from, row) : RoundRow<2>(rounded, from, row);
        }
    }
}

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_PACKED_PRODUCTS_UNIT_H
