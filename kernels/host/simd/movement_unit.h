/*!
 * Moves data inside the Unified Buffer, for vector_unit.cpp only.
 */
#ifndef ASCENDC_HOST_SIMD_MOVEMENT_UNIT_H
#define ASCENDC_HOST_SIMD_MOVEMENT_UNIT_H

#include "ir/instruction.h"
#include "simd/operands_unit.h"
#include "simd/simd.h"
#include "simd/squares.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

// Copies SIZE to 2 * SIZE bytes, in two pieces that overlap.
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

// Copies up to 64 bytes.
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

// Every iteration stores `lanes` times the value in `option`.
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

// Computes dst[i] = src[2 * i + option].
template <typename U>
void RunGatherPattern(const Instruction& self, uint32_t begin, uint32_t end)
{
    U* dst = At<U>(self, 0, begin);
    const U* src = At<U>(self, 1, begin) + self.option;
    for (uint32_t i = 0; i < end - begin; ++i) {
        dst[i] = src[2 * i];
    }
}

// Computes dst[i] = src[(option + offset[i]) bytes].
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

// Sets dst[i] to element i of every block of src.
inline void RunTranspose16(const Instruction& self, uint32_t begin, uint32_t end)
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

// Does what RunTranspose16 does with 32-bit elements, in two squares.
inline void RunTranspose32(const Instruction& self, uint32_t begin, uint32_t end)
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

// An iteration copies `extent` bytes; those that follow each other without a gap are copied in one piece.
inline void RunCopy(const Instruction& self, uint32_t begin, uint32_t end)
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
inline void RunCopyAdd(const Instruction& self, uint32_t begin, uint32_t end)
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

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_MOVEMENT_UNIT_H
