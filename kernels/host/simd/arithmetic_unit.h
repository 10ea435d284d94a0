/*!
 * Implements arithmetic, for vector_unit.cpp only: each operation in each layout.
 *
 * half arithmetic is done in float and rounded once, which gives the correctly rounded half result for + - * / sqrt.
 */
#ifndef ASCENDC_HOST_SIMD_ARITHMETIC_UNIT_H
#define ASCENDC_HOST_SIMD_ARITHMETIC_UNIT_H

#include "ir/instruction.h"
#include "simd/arithmetic.h"
#include "simd/operands_unit.h"
#include "simd/simd.h"

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

// Runs with one DataBlock repeated; FIRST: it is the left operand. The block holds 8 floats (or int32) or 16 halfs.
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

inline void RunAxpy(const Instruction& self, uint32_t begin, uint32_t end)
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

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_ARITHMETIC_UNIT_H
