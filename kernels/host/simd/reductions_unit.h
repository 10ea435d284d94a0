/*!
 * Implements reductions within a repeat, and And and Or of 16-bit elements, for vector_unit.cpp only.
 */
#ifndef ASCENDC_HOST_SIMD_REDUCTIONS_UNIT_H
#define ASCENDC_HOST_SIMD_REDUCTIONS_UNIT_H

#include <utility>

#include "ir/instruction.h"
#include "simd/folding.h"
#include "simd/operands_unit.h"
#include "simd/simd.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

// ---- reductions within a repeat

// Computes a value for each of the iterations [begin, end): `part` makes a vector of one, which `op` folds.
template <class PART, class OP>
HOST_INLINE void ReduceIterations(const Instruction& self, uint32_t begin, uint32_t end, const PART& part, const OP& op)
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

inline void RunReduceSum(const Instruction& self, uint32_t begin, uint32_t end)
{
    ReduceIterations(
        self, begin, end, [lanes = self.lanes](const float* src) { return TreeSum(src, lanes); },
        [](VF a, VF b) { return a + b; });
}

// Returns the largest or smallest value, in one of the lanes that are left. A NaN gives NaN.
template <class PICK>
HOST_INLINE VF Extreme(const float* src, uint32_t lanes, const PICK& pick)
{
    VF best = Set(src[0]);
    for (uint32_t i = 0; i + W <= lanes; i += W) {
        best = pick(best, Load(src + i));
    }
    const uint32_t tail = lanes % W;
    if (tail > 0 && lanes > W) {
        best = pick(best, Load(src + lanes - W));  // some a second time
    } else if (tail > 0) {
        const VI active = LaneNumbers(std::make_integer_sequence<int32_t, W>()) < SetInt(static_cast<int32_t>(tail));
        best = pick(best, Choose(active, LoadPartial(src, tail), best));
    }
    return best;
}

inline void RunReduceMax(const Instruction& self, uint32_t begin, uint32_t end)
{
    const auto pick = [](VF a, VF b) { return MaxOf(a, b); };
    ReduceIterations(
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

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_REDUCTIONS_UNIT_H
