/*!
 * The loops behind every recorded instruction. Compiled once per instruction set (HOST_ISA names it); each copy fills
 * one VectorUnit table, and vector_unit_select.cpp picks the best one for the CPU.
 *
 * half arithmetic is done in float and rounded once, which gives the correctly rounded half result for + - * / sqrt.
 */
#if defined(__GNUC__) && !defined(__clang__)
// GCC's own AVX-512 header triggers it (bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <utility>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "simd/bytes_unit.h"
#include "simd/few_rows_unit.h"
#include "simd/folding.h"
#include "simd/fused_sequence_unit.h"
#include "simd/integers_unit.h"
#include "simd/packed_integers_unit.h"
#include "simd/packed_rows_unit.h"
#include "simd/panels_unit.h"
#include "simd/row_sums_unit.h"
#include "simd/simd.h"
#include "simd/squares.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

// ---- loops over n contiguous elements

template <class Op, typename T>
HOST_INLINE void BinaryLoop(T* dst, const T* a, const T* b, uint32_t n)
{
    uint32_t i = 0;
#pragma GCC unroll 4
    for (; i + W <= n; i += W) {
        Store(dst + i, Op::Apply(Load(a + i), Load(b + i)));
    }
    if (i < n) {
        StorePartial(dst + i, Op::Apply(LoadPartial(a + i, n - i), LoadPartial(b + i, n - i)), n - i);
    }
}

template <class Op, typename T>
HOST_INLINE void ScalarLoop(T* dst, const T* a, float scalar, uint32_t n)
{
    typename VectorOf<T>::Type s = FromScalar(scalar, typename VectorOf<T>::Type{});
    uint32_t i = 0;
#pragma GCC unroll 4
    for (; i + W <= n; i += W) {
        Store(dst + i, Op::Apply(Load(a + i), s));
    }
    if (i < n) {
        StorePartial(dst + i, Op::Apply(LoadPartial(a + i, n - i), s), n - i);
    }
}

template <class Op, typename T>
HOST_INLINE void UnaryLoop(T* dst, const T* a, uint32_t n)
{
    uint32_t i = 0;
    if constexpr (std::is_same<Op, Arithmetic<Opcode::EXP>>::value) {
        constexpr uint32_t N = 4;
        for (; i + N * W <= n; i += N * W) {
            VF x[N];
#pragma GCC unroll 4
            for (uint32_t k = 0; k < N; ++k) {
                x[k] = Load(a + i + k * W);
            }
            Exp(x);
#pragma GCC unroll 4
            for (uint32_t k = 0; k < N; ++k) {
                Store(dst + i + k * W, x[k]);
            }
        }
    }
#pragma GCC unroll 2
    for (; i + W <= n; i += W) {
        Store(dst + i, Op::Apply(Load(a + i)));
    }
    if (i < n) {
        StorePartial(dst + i, Op::Apply(LoadPartial(a + i, n - i)), n - i);
    }
}

// One DataBlock repeated; FIRST: it is the left operand. The block holds 8 floats (or int32) or 16 halfs.
template <class Op, typename T, bool FIRST>
HOST_INLINE void BlockLoop(T* dst, const T* vector, const T* block, uint32_t n)
{
    using V = typename VectorOf<T>::Type;
    constexpr uint32_t BLOCK = ONE_BLK_SIZE / sizeof(T);
    constexpr uint32_t PERIOD = BLOCK > W ? BLOCK : W;
    V pattern[PERIOD / W];
    for (uint32_t k = 0; k < PERIOD / W; ++k) {
        pattern[k] = LoadBlock(block, k * W);
    }
    uint32_t i = 0;
#pragma GCC unroll 4
    for (; i + PERIOD <= n; i += PERIOD) {
#pragma GCC unroll 4
        for (uint32_t k = 0; k < PERIOD / W; ++k) {
            const V v = Load(vector + i + k * W);
            Store(dst + i + k * W, FIRST ? Op::Apply(pattern[k], v) : Op::Apply(v, pattern[k]));
        }
    }
    for (uint32_t k = 0; i < n; i += W, ++k) {
        const uint32_t count = n - i < W ? n - i : W;
        const V v = LoadPartial(vector + i, count);
        StorePartial(dst + i, FIRST ? Op::Apply(pattern[k], v) : Op::Apply(v, pattern[k]), count);
    }
}

// acc[lane] = Op(src[repeat * LANES + lane], acc[lane]): the repeats come one after the other, as on the chip.
template <class Op, typename T>
HOST_INLINE void AccumulateLoop(T* acc, const char* src, int64_t srcStride, uint32_t repeats, uint32_t lanes)
{
    using V = typename VectorOf<T>::Type;
    constexpr uint32_t LANES = ONE_REPEAT_BYTE_SIZE / sizeof(T);
    if (lanes == LANES) {
        constexpr uint32_t N = LANES / W > 8 ? 8 : LANES / W;  // accumulators that fit the registers
        for (uint32_t part = 0; part < LANES; part += N * W) {
            V sum[N];
#pragma GCC unroll 8
            for (uint32_t k = 0; k < N; ++k) {
                sum[k] = Load(acc + part + k * W);
            }
            for (uint32_t r = 0; r < repeats; ++r) {
                const T* row = reinterpret_cast<const T*>(src + r * srcStride) + part;
#pragma GCC unroll 8
                for (uint32_t k = 0; k < N; ++k) {
                    sum[k] = Rounded(Op::Apply(Load(row + k * W), sum[k]), acc);  // half rounds at every step
                }
            }
#pragma GCC unroll 8
            for (uint32_t k = 0; k < N; ++k) {
                Store(acc + part + k * W, sum[k]);
            }
        }
        return;
    }
    for (uint32_t r = 0; r < repeats; ++r) {
        BinaryLoop<Op, T>(acc, reinterpret_cast<const T*>(src + r * srcStride), acc, lanes);
    }
}

// ---- the same loops as instructions

template <typename T>
HOST_INLINE T* At(const Instruction& self, int operand, uint32_t unit)
{
    return reinterpret_cast<T*>(self.operands[operand].base + self.operands[operand].stride * unit);
}

template <Opcode OP, typename T, Layout LAYOUT>
void RunBinary(const Instruction& self, uint32_t begin, uint32_t end)
{
    using Op = Arithmetic<OP>;
    T* dst = At<T>(self, 0, begin);
    const T* a = At<T>(self, 1, begin);
    const T* b = At<T>(self, 2, begin);
    if constexpr (LAYOUT == Layout::CONTIGUOUS) {
        BinaryLoop<Op, T>(dst, a, b, end - begin);
    } else if constexpr (LAYOUT == Layout::BROADCAST0) {
        BlockLoop<Op, T, true>(dst, b, a, end - begin);
    } else if constexpr (LAYOUT == Layout::BROADCAST1) {
        BlockLoop<Op, T, false>(dst, a, b, end - begin);
    } else if constexpr (LAYOUT == Layout::ACCUMULATE) {
        constexpr uint32_t LANES = ONE_REPEAT_BYTE_SIZE / sizeof(T);
        const uint32_t repeats = (end - begin) / LANES;
        AccumulateLoop<Op, T>(dst, reinterpret_cast<const char*>(a), ONE_REPEAT_BYTE_SIZE, repeats, LANES);
        const uint32_t tail = (end - begin) % LANES;
        BinaryLoop<Op, T>(dst, a + repeats * LANES, dst, tail);
    } else if constexpr (LAYOUT == Layout::ACCUMULATE_REPEAT) {
        AccumulateLoop<Op, T>(dst, reinterpret_cast<const char*>(a), self.operands[1].stride, end - begin, self.lanes);
    } else {
        for (uint32_t u = begin; u < end; ++u) {
            if constexpr (LAYOUT == Layout::REPEAT) {
                BinaryLoop<Op, T>(At<T>(self, 0, u), At<T>(self, 1, u), At<T>(self, 2, u), self.lanes);
            } else if constexpr (LAYOUT == Layout::FOLD) {
                constexpr uint32_t LANES = ONE_REPEAT_BYTE_SIZE / sizeof(T);
                T* acc = At<T>(self, 0, u);
                const T* row = At<T>(self, 1, u);
                const uint32_t repeats = self.lanes / LANES;
                AccumulateLoop<Op, T>(acc, reinterpret_cast<const char*>(row), ONE_REPEAT_BYTE_SIZE, repeats, LANES);
                BinaryLoop<Op, T>(acc, row + repeats * LANES, acc, self.lanes % LANES);
            } else if constexpr (LAYOUT == Layout::REPEAT_BROADCAST0) {
                BlockLoop<Op, T, true>(At<T>(self, 0, u), At<T>(self, 2, u), At<T>(self, 1, u), self.lanes);
            } else {
                BlockLoop<Op, T, false>(At<T>(self, 0, u), At<T>(self, 1, u), At<T>(self, 2, u), self.lanes);
            }
        }
    }
}

template <Opcode OP, typename T, Layout LAYOUT>
void RunScalar(const Instruction& self, uint32_t begin, uint32_t end)
{
    using Op = Arithmetic<OP>;
    if constexpr (LAYOUT == Layout::CONTIGUOUS) {
        ScalarLoop<Op, T>(At<T>(self, 0, begin), At<T>(self, 1, begin), self.scalar, end - begin);
    } else {
        for (uint32_t u = begin; u < end; ++u) {
            ScalarLoop<Op, T>(At<T>(self, 0, u), At<T>(self, 1, u), self.scalar, self.lanes);
        }
    }
}

template <Opcode OP, typename T, Layout LAYOUT>
void RunUnary(const Instruction& self, uint32_t begin, uint32_t end)
{
    using Op = Arithmetic<OP>;
    if constexpr (LAYOUT == Layout::CONTIGUOUS) {
        UnaryLoop<Op, T>(At<T>(self, 0, begin), At<T>(self, 1, begin), end - begin);
    } else {
        for (uint32_t u = begin; u < end; ++u) {
            UnaryLoop<Op, T>(At<T>(self, 0, u), At<T>(self, 1, u), self.lanes);
        }
    }
}

void RunAxpy(const Instruction& self, uint32_t begin, uint32_t end)
{
    using Op = Arithmetic<Opcode::AXPY>;
    float* dst = At<float>(self, 0, begin);
    const float* src = At<float>(self, 1, begin);
    const float* sum = At<float>(self, 2, begin);  // the destination, or what was copied there and is read in place
    const VF scalar = Set(self.scalar);
    const uint32_t n = end - begin;
    uint32_t i = 0;
#pragma GCC unroll 4
    for (; i + W <= n; i += W) {
        Store(dst + i, Op::Apply(Load(src + i), scalar, Load(sum + i)));
    }
    if (i < n) {
        StorePartial(dst + i, Op::Apply(LoadPartial(src + i, n - i), scalar, LoadPartial(sum + i, n - i)), n - i);
    }
}

// ---- Cast

// The integral value of x in the given mode; NaN and infinities pass.
float RoundToIntegral(float x, RoundMode mode)
{
    switch (mode) {
        case RoundMode::CAST_FLOOR:
            return std::floor(x);
        case RoundMode::CAST_CEIL:
            return std::ceil(x);
        case RoundMode::CAST_ROUND:
            return std::round(x);
        case RoundMode::CAST_TRUNC:
            return std::trunc(x);
        default:
            return std::nearbyint(x);
    }
}

int32_t ToInt32(float x, RoundMode mode)
{
    const float rounded = RoundToIntegral(x, mode);
    if (rounded != rounded) {
        return 0;
    }
    if (rounded >= 2147483648.0f) {
        return INT32_MAX;
    }
    return rounded < -2147483648.0f ? INT32_MIN : static_cast<int32_t>(rounded);
}

float ToFloat(int32_t x, RoundMode mode)
{
    const float nearest = static_cast<float>(x);
    const double exact = x;
    const bool above = nearest > exact;
    const bool below = nearest < exact;
    const bool down = mode == RoundMode::CAST_FLOOR || (mode == RoundMode::CAST_TRUNC && x > 0);
    const bool up = mode == RoundMode::CAST_CEIL || (mode == RoundMode::CAST_TRUNC && x < 0);
    if (above && down) {
        return std::nextafter(nearest, -INFINITY);
    }
    if (below && up) {
        return std::nextafter(nearest, INFINITY);
    }
    if (mode == RoundMode::CAST_ROUND && (above || below)) {  // a tie goes away from zero
        const float other = std::nextafter(nearest, above ? -INFINITY : INFINITY);
        const bool tie = (static_cast<double>(nearest) + static_cast<double>(other)) / 2 == exact;
        return tie && std::fabs(other) > std::fabs(nearest) ? other : nearest;
    }
    return nearest;
}

inline float Widen(half h)
{
    return HalfToFloatScalar(h.bits);
}
inline float Widen(bfloat16_t h)
{
    const uint32_t bits = static_cast<uint32_t>(h.bits) << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

// To a 16-bit format in a directed mode: start from the nearest value and step to its neighbour where the mode wants
// the other side. Neighbours of a sign-magnitude format are one bit pattern apart.
template <typename To>
To Narrow(float x, uint16_t nearest, RoundMode mode)
{
    To result{nearest};
    const float value = Widen(result);
    if (value == x || x != x) {
        return result;
    }
    const bool away = std::fabs(value) > std::fabs(x);  // nearest lies further from zero than x
    bool wantAway;
    switch (mode) {
        case RoundMode::CAST_TRUNC:
            wantAway = false;
            break;
        case RoundMode::CAST_FLOOR:
            wantAway = x < 0.0f;
            break;
        case RoundMode::CAST_CEIL:
            wantAway = x > 0.0f;
            break;
        case RoundMode::CAST_ODD: {  // the inexact result gets an odd mantissa
            if ((nearest & 1u) == 0) {
                result.bits = static_cast<uint16_t>(away ? nearest - 1 : nearest + 1);
            }
            return result;
        }
        case RoundMode::CAST_ROUND: {  // ties away from zero: only an exact tie differs from nearest-even
            if (!away) {
                const To next{static_cast<uint16_t>(nearest + 1)};
                const double tie = (static_cast<double>(value) + static_cast<double>(Widen(next))) / 2;
                if (tie == static_cast<double>(x)) {
                    return next;
                }
            }
            return result;
        }
        default:
            return result;
    }
    if (away && !wantAway) {
        result.bits = static_cast<uint16_t>(nearest - 1);
    } else if (!away && wantAway) {
        result.bits = static_cast<uint16_t>(nearest + 1);
    }
    return result;
}

template <typename To, typename From>
HOST_INLINE void CastLoop(To* dst, const From* src, uint32_t n, RoundMode mode)
{
    if constexpr (std::is_same<To, int32_t>::value || std::is_same<From, int32_t>::value ||
                  (std::is_same<To, From>::value)) {
        if constexpr (std::is_same<To, float>::value && std::is_same<From, int32_t>::value) {
            if (mode == RoundMode::CAST_NONE || mode == RoundMode::CAST_RINT) {  // as the CPU does
                for (uint32_t i = 0; i < n; ++i) {
                    dst[i] = static_cast<float>(src[i]);
                }
                return;
            }
        }
        for (uint32_t i = 0; i < n; ++i) {
            if constexpr (std::is_same<To, int32_t>::value) {
                if constexpr (std::is_same<From, float>::value) {
                    dst[i] = ToInt32(src[i], mode);
                } else {
                    dst[i] = ToInt32(Widen(src[i]), mode);
                }
            } else if constexpr (std::is_same<To, float>::value && std::is_same<From, int32_t>::value) {
                dst[i] = ToFloat(src[i], mode);
            } else if constexpr (std::is_same<To, float>::value) {
                dst[i] = RoundToIntegral(src[i], mode);
            }
        }
        return;
    }
    if constexpr (!std::is_same<To, int32_t>::value && !std::is_same<From, int32_t>::value) {
        const bool directed = mode != RoundMode::CAST_NONE && mode != RoundMode::CAST_RINT;
        if constexpr (sizeof(To) == 2) {
            if (directed) {
                for (uint32_t i = 0; i < n; ++i) {
                    To nearest;
                    StorePartial(&nearest, LoadPartial(src + i, 1), 1);
                    dst[i] = Narrow<To>(src[i], nearest.bits, mode);
                }
                return;
            }
        }
        uint32_t i = 0;
#pragma GCC unroll 4
        for (; i + W <= n; i += W) {
            Store(dst + i, Load(src + i));
        }
        if (i < n) {
            StorePartial(dst + i, LoadPartial(src + i, n - i), n - i);
        }
    }
}

template <typename To, typename From, bool REPEAT>
void RunCast(const Instruction& self, uint32_t begin, uint32_t end)
{
    const RoundMode mode = static_cast<RoundMode>(self.option);
    if constexpr (REPEAT) {
        for (uint32_t u = begin; u < end; ++u) {
            CastLoop(At<To>(self, 0, u), At<From>(self, 1, u), self.lanes, mode);
        }
    } else {
        CastLoop(At<To>(self, 0, begin), At<From>(self, 1, begin), end - begin, mode);
    }
}

// W floats, integral ones between -128 and 127, as bytes.
HOST_INLINE void StoreBytes(int8_t* p, VF x)
{
#if defined(HOST_SIMD_AVX512)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(x)));
#elif defined(HOST_SIMD_AVX2)
    const __m256i numbers = _mm256_cvtps_epi32(x);
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(numbers), _mm256_extracti128_si256(numbers, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
#else
    for (uint32_t k = 0; k < W; ++k) {
        p[k] = static_cast<int8_t>(x[k]);
    }
#endif
}

// Saturates, and makes 0 of NaN.
void RunCastToInt8(const Instruction& self, uint32_t begin, uint32_t end)
{
    auto* const dst = reinterpret_cast<int8_t*>(self.operands[0].base);
    const auto* const src = reinterpret_cast<const half*>(self.operands[1].base);
    const RoundMode mode = static_cast<RoundMode>(self.option);
    const bool nearest = mode == RoundMode::CAST_NONE || mode == RoundMode::CAST_RINT;
    const VF magic = Set(12582912.0f);  // 1.5 * 2^23: a number that it is added to is rounded to nearest even
    const auto convert = [&](VF x, uint32_t count) {
        if (!nearest) {
            for (uint32_t k = 0; k < count; ++k) {
                x[k] = RoundToIntegral(x[k], mode);
            }
        }
        const VF finite = SmallerOf(LargerOf(Choose(x == x, x, Set(0.0f)), Set(-128.0f)), Set(127.0f));
        return finite + magic - magic;
    };
    uint32_t i = begin;
    for (; i + W <= end; i += W) {
        StoreBytes(dst + i, convert(Load(src + i), W));
    }
    if (i < end) {
        int8_t last[W];
        StoreBytes(last, convert(LoadPartial(src + i, end - i), end - i));
        memcpy(dst + i, last, end - i);
    }
}

// ---- reductions within a repeat

// A value for each of units [begin, end): `part` makes a vector of a unit, which `op` folds.
template <class PART, class OP>
HOST_INLINE void ReduceUnits(const Instruction& self, uint32_t begin, uint32_t end, const PART& part, const OP& op)
{
    uint32_t u = begin;
    for (; u + W <= end && self.operands[0].stride == sizeof(float); u += W) {
        VF rows[W];
        for (uint32_t k = 0; k < W; ++k) {
            rows[k] = part(At<float>(self, 1, u + k));
        }
        Store(At<float>(self, 0, u), FoldedRows(rows, op));
    }
    for (; u < end; ++u) {
        *At<float>(self, 0, u) = Folded(part(At<float>(self, 1, u)), op);
    }
}

template <int32_t... I>
HOST_INLINE VI LaneNumbers(std::integer_sequence<int32_t, I...>)
{
    return VI{I...};
}

void RunReduceSum(const Instruction& self, uint32_t begin, uint32_t end)
{
    ReduceUnits(
        self, begin, end, [lanes = self.lanes](const float* src) { return TreeSum(src, lanes); },
        [](VF a, VF b) { return a + b; });
}

// The largest or smallest value, in one of the lanes that are left. A NaN gives NaN.
template <class PICK>
HOST_INLINE VF Extreme(const float* src, uint32_t lanes, const PICK& pick)
{
    VF best = Set(src[0]);
    for (uint32_t i = 0; i + W <= lanes; i += W) {
        best = pick(best, Load(src + i));
    }
    const uint32_t rest = lanes % W;
    if (rest > 0 && lanes > W) {
        best = pick(best, Load(src + lanes - W));  // some a second time
    } else if (rest > 0) {
        const VI active = LaneNumbers(std::make_integer_sequence<int32_t, W>()) < SetInt(static_cast<int32_t>(rest));
        best = pick(best, Choose(active, LoadPartial(src, rest), best));
    }
    return best;
}

void RunReduceMax(const Instruction& self, uint32_t begin, uint32_t end)
{
    const auto pick = [](VF a, VF b) { return MaxOf(a, b); };
    ReduceUnits(
        self, begin, end, [lanes = self.lanes, &pick](const float* src) { return Extreme(src, lanes, pick); }, pick);
}

// ---- And, Or of 16-bit elements

template <bool OR, typename V>
HOST_INLINE V Bitwise(V a, V b)
{
    return OR ? a | b : a & b;
}

template <bool OR, bool BLOCK>
void RunBitwise(const Instruction& self, uint32_t begin, uint32_t end)
{
    constexpr uint32_t PERIOD = sizeof(VI) > ONE_BLK_SIZE ? sizeof(VI) : ONE_BLK_SIZE;
    const uint64_t bytes = (end - begin) * sizeof(uint16_t);
    char* dst = At<char>(self, 0, begin);
    const char* a = At<char>(self, 1, begin);
    const char* b = At<char>(self, 2, begin);
    char filled[PERIOD];
    for (uint32_t i = 0; BLOCK && i < PERIOD; i += ONE_BLK_SIZE) {
        memcpy(filled + i, b, ONE_BLK_SIZE);
    }
    uint64_t i = 0;
    for (; i + sizeof(VI) <= bytes; i += sizeof(VI)) {
        const VI v = Bitwise<OR>(LoadRaw<VI>(a + i), LoadRaw<VI>(BLOCK ? filled + i % PERIOD : b + i));
        memcpy(dst + i, &v, sizeof(v));
    }
    for (; i < bytes; i += sizeof(uint16_t)) {
        uint16_t x;
        uint16_t y;
        memcpy(&x, a + i, sizeof(x));
        memcpy(&y, BLOCK ? filled + i % PERIOD : b + i, sizeof(y));
        x = Bitwise<OR>(x, y);
        memcpy(dst + i, &x, sizeof(x));
    }
}

// ---- data movement inside the Unified Buffer

// SIZE to 2 * SIZE bytes, in two pieces that overlap.
template <uint64_t SIZE>
HOST_INLINE void CopyEnds(char* dst, const char* src, uint64_t bytes)
{
    char first[SIZE];
    char last[SIZE];
    memcpy(first, src, SIZE);
    memcpy(last, src + bytes - SIZE, SIZE);
    memcpy(dst, first, SIZE);
    memcpy(dst + bytes - SIZE, last, SIZE);
}

// Up to 64 bytes.
HOST_INLINE void CopyFew(char* dst, const char* src, uint64_t bytes)
{
    if (bytes >= 32) {
        CopyEnds<32>(dst, src, bytes);
    } else if (bytes >= 16) {
        CopyEnds<16>(dst, src, bytes);
    } else if (bytes >= 8) {
        CopyEnds<8>(dst, src, bytes);
    } else if (bytes >= 4) {
        CopyEnds<4>(dst, src, bytes);
    } else if (bytes >= 2) {
        CopyEnds<2>(dst, src, bytes);
    } else if (bytes == 1) {
        *dst = *src;
    }
}

// Every unit: `lanes` times the value in `option`.
template <typename U>
void RunFill(const Instruction& self, uint32_t begin, uint32_t end)
{
    const U value = static_cast<U>(self.option);
    const Operand& to = self.operands[0];
    const bool gapless = to.stride == static_cast<int64_t>(to.extent);
    if (!gapless && self.lanes * sizeof(U) <= ONE_BLK_SIZE) {
        U block[ONE_BLK_SIZE / sizeof(U)];
        for (U& element : block) {
            element = value;
        }
        for (uint32_t u = begin; u < end; ++u) {
            CopyFew(At<char>(self, 0, u), reinterpret_cast<const char*>(block), self.lanes * sizeof(U));
        }
        return;
    }
    const uint32_t rows = gapless ? 1 : end - begin;
    const uint32_t count = gapless ? (end - begin) * self.lanes : self.lanes;
    for (uint32_t row = 0; row < rows; ++row) {
        U* dst = At<U>(self, 0, begin + row);
        for (uint32_t i = 0; i < count; ++i) {
            dst[i] = value;
        }
    }
}

template <typename U>
void RunBroadcastBlock(const Instruction& self, uint32_t begin, uint32_t end)
{
    for (uint32_t u = begin; u < end; ++u) {
        const U value = *At<U>(self, 1, u);
        U* dst = At<U>(self, 0, u);
        for (uint32_t i = 0; i < ONE_BLK_SIZE / sizeof(U); ++i) {
            dst[i] = value;
        }
    }
}

// dst[i] = src[2 * i + option]
template <typename U>
void RunGatherPattern(const Instruction& self, uint32_t begin, uint32_t end)
{
    U* dst = At<U>(self, 0, begin);
    const U* src = At<U>(self, 1, begin) + self.option;
    for (uint32_t i = 0; i < end - begin; ++i) {
        dst[i] = src[2 * i];
    }
}

// dst[i] = src[(option + offset[i]) bytes]
template <typename U>
void RunGather(const Instruction& self, uint32_t begin, uint32_t end)
{
    U* dst = At<U>(self, 0, begin);
    const char* src = self.operands[1].base + self.option;
    const uint32_t* offset = At<uint32_t>(self, 2, begin);
    for (uint32_t i = 0; i < end - begin; ++i) {
        memcpy(dst + i, src + offset[i], sizeof(U));
    }
}

// dst[i] = element i of every block of src.
void RunTranspose16(const Instruction& self, uint32_t begin, uint32_t end)
{
    constexpr uint32_t SIDE = ONE_BLK_SIZE / sizeof(uint16_t);
    const uint32_t dstStep = (self.option >> 16) * SIDE;
    const uint32_t srcStep = (self.option & 0xffff) * SIDE;
    for (uint32_t u = begin; u < end; ++u) {
        uint16_t* dst = At<uint16_t>(self, 0, u);
        const uint16_t* src = At<uint16_t>(self, 1, u);
        for (uint32_t column = 0; column < SIDE; ++column) {
            for (uint32_t row = 0; row < SIDE; ++row) {
                dst[column * dstStep + row] = src[row * srcStep + column];
            }
        }
    }
}

// The same as RunTranspose16 of 32-bit elements, in two squares.
void RunTranspose32(const Instruction& self, uint32_t begin, uint32_t end)
{
    constexpr uint32_t SIDE = ONE_BLK_SIZE / sizeof(uint32_t);
    const uint32_t dstStep = (self.option >> 16) * SIDE;  // from a pair of blocks to the next
    const uint32_t srcStep = (self.option & 0xffff) * SIDE;
    const uint32_t second = (self.operands[0].extent / ONE_BLK_SIZE - 1) * SIDE - (SIDE - 1) * dstStep;
    for (uint32_t u = begin; u < end; ++u) {
        for (uint32_t square = 0; square < 2; ++square) {
            TransposeSquare(At<uint32_t>(self, 0, u) + square * second, dstStep,
                            At<uint32_t>(self, 1, u) + square * SIDE * srcStep, srcStep);
        }
    }
}

// In vectors: strips are short, and memcpy has a start-up of its own.
HOST_INLINE void CopyVectors(char* dst, const char* src, uint64_t bytes)
{
    uint64_t i = 0;
#pragma GCC unroll 4
    for (; i + sizeof(VF) <= bytes; i += sizeof(VF)) {
        const VF v = LoadRaw<VF>(src + i);
        memcpy(dst + i, &v, sizeof(v));
    }
    CopyFew(dst + i, src + i, bytes - i);
}

// A unit is `extent` bytes; units that follow each other without a gap are copied in one piece.
void RunCopy(const Instruction& self, uint32_t begin, uint32_t end)
{
    const Operand& to = self.operands[0];
    const Operand& from = self.operands[1];
    if (to.stride == from.stride && to.stride == static_cast<int64_t>(to.extent)) {
        CopyVectors(to.base + to.stride * begin, from.base + from.stride * begin,
                    static_cast<uint64_t>(end - begin) * to.extent);
        return;
    }
    for (uint32_t u = begin; u < end; ++u) {
        CopyVectors(to.base + to.stride * u, from.base + from.stride * u, to.extent);
    }
}

// Adds floats to memory that other cores may add to at the same time.
void RunCopyAdd(const Instruction& self, uint32_t begin, uint32_t end)
{
    for (uint32_t u = begin; u < end; ++u) {
        uint32_t* to = At<uint32_t>(self, 0, u);
        const float* from = At<float>(self, 1, u);
        for (uint32_t i = 0; i < self.operands[0].extent / sizeof(float); ++i) {
            uint32_t before = __atomic_load_n(to + i, __ATOMIC_RELAXED);
            uint32_t after;
            do {
                float sum;
                memcpy(&sum, &before, sizeof(sum));
                sum += from[i];
                memcpy(&after, &sum, sizeof(sum));
            } while (!__atomic_compare_exchange_n(to + i, &before, after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
        }
    }
}

// ---- the table

template <Opcode OP, typename T>
void FillBinary(VectorUnit& unit, ElementType type)
{
    RunFn* row = unit.runs[static_cast<uint32_t>(OP)][static_cast<uint32_t>(type)];
    row[static_cast<uint32_t>(Layout::CONTIGUOUS)] = RunBinary<OP, T, Layout::CONTIGUOUS>;
    row[static_cast<uint32_t>(Layout::REPEAT)] = RunBinary<OP, T, Layout::REPEAT>;
    row[static_cast<uint32_t>(Layout::FOLD)] = RunBinary<OP, T, Layout::FOLD>;
    row[static_cast<uint32_t>(Layout::BROADCAST0)] = RunBinary<OP, T, Layout::BROADCAST0>;
    row[static_cast<uint32_t>(Layout::BROADCAST1)] = RunBinary<OP, T, Layout::BROADCAST1>;
    row[static_cast<uint32_t>(Layout::REPEAT_BROADCAST0)] = RunBinary<OP, T, Layout::REPEAT_BROADCAST0>;
    row[static_cast<uint32_t>(Layout::REPEAT_BROADCAST1)] = RunBinary<OP, T, Layout::REPEAT_BROADCAST1>;
    row[static_cast<uint32_t>(Layout::ACCUMULATE)] = RunBinary<OP, T, Layout::ACCUMULATE>;
    row[static_cast<uint32_t>(Layout::ACCUMULATE_REPEAT)] = RunBinary<OP, T, Layout::ACCUMULATE_REPEAT>;
}

template <Opcode OP, typename T>
void FillScalar(VectorUnit& unit, ElementType type)
{
    RunFn* row = unit.runs[static_cast<uint32_t>(OP)][static_cast<uint32_t>(type)];
    row[static_cast<uint32_t>(Layout::CONTIGUOUS)] = RunScalar<OP, T, Layout::CONTIGUOUS>;
    row[static_cast<uint32_t>(Layout::REPEAT)] = RunScalar<OP, T, Layout::REPEAT>;
}

template <Opcode OP, typename T>
void FillUnary(VectorUnit& unit, ElementType type)
{
    RunFn* row = unit.runs[static_cast<uint32_t>(OP)][static_cast<uint32_t>(type)];
    row[static_cast<uint32_t>(Layout::CONTIGUOUS)] = RunUnary<OP, T, Layout::CONTIGUOUS>;
    row[static_cast<uint32_t>(Layout::REPEAT)] = RunUnary<OP, T, Layout::REPEAT>;
}

// half, float and, where the chip has it, int32.
template <typename T>
void FillArithmetic(VectorUnit& unit, ElementType type)
{
    FillBinary<Opcode::ADD, T>(unit, type);
    FillBinary<Opcode::SUB, T>(unit, type);
    FillBinary<Opcode::MUL, T>(unit, type);
    FillBinary<Opcode::MAX, T>(unit, type);
    FillBinary<Opcode::MIN, T>(unit, type);
    FillScalar<Opcode::ADDS, T>(unit, type);
    FillScalar<Opcode::MULS, T>(unit, type);
    FillScalar<Opcode::MAXS, T>(unit, type);
    FillScalar<Opcode::MINS, T>(unit, type);
    if constexpr (!std::is_same<T, int32_t>::value) {
        FillBinary<Opcode::DIV, T>(unit, type);
        FillUnary<Opcode::EXP, T>(unit, type);
        FillUnary<Opcode::LN, T>(unit, type);
        FillUnary<Opcode::SQRT, T>(unit, type);
        FillUnary<Opcode::ABS, T>(unit, type);
        FillUnary<Opcode::RELU, T>(unit, type);
    }
}

template <typename To, typename From>
void FillCast(VectorUnit& unit, ElementType to, ElementType from)
{
    RunFn* entry = unit.casts[static_cast<uint32_t>(from)][static_cast<uint32_t>(to)];
    entry[0] = RunCast<To, From, false>;
    entry[1] = RunCast<To, From, true>;
}

// Of AMD's CPUs Zen 4 was measured.
bool IsAmd()
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_is("amd");
#else
    return false;
#endif
}

// CPUs of Intel with AVX512_FP16, which not every compiler knows, gather 16 floats in some 8 cycles. Those before them
// take many times that, since microcode keeps gathers from leaking data. Zen 4 takes 22 cycles, or 11 for a load of
// each, and calculates half as much in a cycle.
LookupMethod LookupMethodOfCpu()
{
#if defined(__x86_64__)
    if (IsAmd()) {
        return LookupMethod::BY_ELEMENT;
    }
    constexpr unsigned int LEAF = 7;
    constexpr unsigned int BIT = 23;  // of EDX
    unsigned int eax, ebx, ecx, edx;
    const bool hasFp16 = __get_cpuid_count(LEAF, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx >> BIT & 1) != 0;
    return W == 16 && hasFp16 ? LookupMethod::GATHERED : LookupMethod::NONE;
#else
    return LookupMethod::NONE;
#endif
}

const VectorUnit& Table(const char* name)
{
    static const VectorUnit table = [name] {
        VectorUnit unit{};
        unit.name = name;
        unit.lanes = W;
        unit.convertsHalf = CONVERTS_HALF;
#if defined(HOST_SIMD_AVX512)
        unit.convertsBFloat16 = __builtin_cpu_supports("avx512bf16");
#endif
        unit.lookupMethod = LookupMethodOfCpu();
        // The other way compares, which takes twice as long as adding on Zen 4. This one permutes words, which is
        // slower on Intel's.
        unit.roundsByConverting = unit.convertsBFloat16 && IsAmd();
        FillArithmetic<float>(unit, ElementType::FLOAT);
        unit.runs[static_cast<uint32_t>(Opcode::AXPY)][static_cast<uint32_t>(ElementType::FLOAT)]
                 [static_cast<uint32_t>(Layout::CONTIGUOUS)] = RunAxpy;
        FillArithmetic<half>(unit, ElementType::HALF);
        FillArithmetic<int32_t>(unit, ElementType::INT32);
        FillCast<float, half>(unit, ElementType::FLOAT, ElementType::HALF);
        FillCast<float, bfloat16_t>(unit, ElementType::FLOAT, ElementType::BFLOAT16);
        FillCast<half, float>(unit, ElementType::HALF, ElementType::FLOAT);
        FillCast<bfloat16_t, float>(unit, ElementType::BFLOAT16, ElementType::FLOAT);
        FillCast<float, float>(unit, ElementType::FLOAT, ElementType::FLOAT);
        FillCast<int32_t, float>(unit, ElementType::INT32, ElementType::FLOAT);
        FillCast<int32_t, half>(unit, ElementType::INT32, ElementType::HALF);
        FillCast<int32_t, bfloat16_t>(unit, ElementType::INT32, ElementType::BFLOAT16);
        FillCast<float, int32_t>(unit, ElementType::FLOAT, ElementType::INT32);
        unit.casts[static_cast<uint32_t>(ElementType::INT8)][static_cast<uint32_t>(ElementType::HALF)][0] = RunCastInt8;
        unit.casts[static_cast<uint32_t>(ElementType::HALF)][static_cast<uint32_t>(ElementType::INT8)][0] =
            RunCastToInt8;
        unit.casts[static_cast<uint32_t>(ElementType::INT4)][static_cast<uint32_t>(ElementType::HALF)][0] = RunCastInt4;
        const auto add = [&unit](Opcode opcode, ElementType from, RunFn run, Layout layout = Layout::CONTIGUOUS) {
            unit.runs[static_cast<uint32_t>(opcode)][static_cast<uint32_t>(from)][static_cast<uint32_t>(layout)] = run;
        };
        add(Opcode::PACKED_DOTS, ElementType::INT8, RunPackedDots<1>);
        add(Opcode::PACKED_DOTS, ElementType::INT4, RunPackedDots<2>);
        add(Opcode::PACKED_INTEGERS, ElementType::INT8, RunPackedIntegers<1>);
        add(Opcode::PACKED_INTEGERS, ElementType::INT4, RunPackedIntegers<2>);
        add(Opcode::PACKED_ROWS, ElementType::INT8, RunPackedRows<1>);
        add(Opcode::PACKED_ROWS, ElementType::INT4, RunPackedRows<2>);
        add(Opcode::REDUCE_SUM, ElementType::FLOAT, RunReduceSum);
        add(Opcode::REDUCE_MAX, ElementType::FLOAT, RunReduceMax);
        // Two of 16 bits are the bits of a float; where there is an odd number, they are not.
        FillBinary<Opcode::AND, float>(unit, ElementType::FLOAT);
        FillBinary<Opcode::OR, float>(unit, ElementType::FLOAT);
        add(Opcode::AND, BitsOf(2), RunBitwise<false, false>);
        add(Opcode::AND, BitsOf(2), RunBitwise<false, true>, Layout::BROADCAST1);
        add(Opcode::OR, BitsOf(2), RunBitwise<true, false>);
        add(Opcode::OR, BitsOf(2), RunBitwise<true, true>, Layout::BROADCAST1);
        add(Opcode::FILL, BitsOf(1), RunFill<uint8_t>);
        add(Opcode::FILL, BitsOf(2), RunFill<uint16_t>);
        add(Opcode::FILL, BitsOf(4), RunFill<uint32_t>);
        add(Opcode::BROADCAST_BLOCK, BitsOf(2), RunBroadcastBlock<uint16_t>);
        add(Opcode::BROADCAST_BLOCK, BitsOf(4), RunBroadcastBlock<uint32_t>);
        add(Opcode::GATHER_PATTERN, BitsOf(2), RunGatherPattern<uint16_t>);
        add(Opcode::GATHER_PATTERN, BitsOf(4), RunGatherPattern<uint32_t>);
        add(Opcode::GATHER, BitsOf(2), RunGather<uint16_t>);
        add(Opcode::GATHER, BitsOf(4), RunGather<uint32_t>);
        add(Opcode::TRANSPOSE, BitsOf(2), RunTranspose16);
        add(Opcode::TRANSPOSE, BitsOf(4), RunTranspose32);
        add(Opcode::COPY, ElementType::FLOAT, RunCopy);
        add(Opcode::COPY_ADD, ElementType::FLOAT, RunCopyAdd);
        unit.runSequence = RunSequence;
        unit.multiplyFewRows[static_cast<uint32_t>(ElementType::FLOAT)] = MultiplyFewRows<float>;
        unit.multiplyFewRows[static_cast<uint32_t>(ElementType::HALF)] = MultiplyFewRows<half>;
        unit.multiplyFewRows[static_cast<uint32_t>(ElementType::BFLOAT16)] = MultiplyFewRows<bfloat16_t>;
        unit.multiplyIntegers = MultiplyIntegers;
        unit.packPanel[static_cast<uint32_t>(ElementType::FLOAT)] = PackPanel<float>;
        unit.packPanel[static_cast<uint32_t>(ElementType::HALF)] = PackPanel<half>;
        unit.packPanel[static_cast<uint32_t>(ElementType::BFLOAT16)] = PackPanel<bfloat16_t>;
        unit.sumRows[static_cast<uint32_t>(ElementType::FLOAT)] = SumRows<float>;
        unit.sumRows[static_cast<uint32_t>(ElementType::HALF)] = SumRows<half>;
        unit.sumRows[static_cast<uint32_t>(ElementType::BFLOAT16)] = SumRows<bfloat16_t>;
        return unit;
    }();
    return table;
}

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC
