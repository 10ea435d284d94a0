/*!
 * Sequences of instructions in one pass, for vector_unit.cpp only. A sequence is worth a loop here when kernels use it
 * on whole tiles: the sum of squares and the scaling of a norm, SiLU.
 */
#ifndef ASCENDC_HOST_SEQUENCES_H
#define ASCENDC_HOST_SEQUENCES_H

#include "instruction.h"
#include "simd.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

template <typename T>
HOST_INLINE T* PartAt(const Instruction& part, uint32_t operand, uint32_t unit)
{
    return reinterpret_cast<T*>(part.operands[operand].base + part.operands[operand].stride * unit);
}

HOST_INLINE bool Same(const Instruction& a, uint32_t operandA, const Instruction& b, uint32_t operandB)
{
    return a.operands[operandA].base == b.operands[operandB].base &&
           a.operands[operandA].stride == b.operands[operandB].stride;
}

// W elements at a time, the last time fewer: `body(i, n)` with n <= W.
template <class BODY>
HOST_INLINE void ForVectors(uint32_t count, BODY&& body)
{
    uint32_t i = 0;
#pragma GCC unroll 4
    for (; i + W <= count; i += W) {
        body(i, static_cast<uint32_t>(W));
    }
    if (i < count) {
        body(i, count - i);
    }
}

template <typename T>
HOST_INLINE VF LoadSome(const T* p, uint32_t n)
{
    return n == W ? Load(p) : LoadPartial(p, n);
}

template <typename T>
HOST_INLINE void StoreSome(T* p, VF v, uint32_t n)
{
    if (n == W) {
        Store(p, v);
    } else {
        StorePartial(p, v, n);
    }
}

// ---- [x = Cast(t)] s = x * x; sum += s by lanes

constexpr uint32_t SUM_LANES = 64;

template <bool CAST>
bool SquaresFit(const Instruction* const* parts)
{
    const Instruction& mul = *parts[CAST ? 1 : 0];
    const Instruction& sum = *parts[CAST ? 2 : 1];
    return Same(mul, 1, mul, 2) && Same(sum, 1, mul, 0) && !Same(mul, 0, mul, 1) &&
           (!CAST || Same(mul, 1, *parts[0], 0));
}

template <typename T>
void RunSquares(const Instruction* const* parts, uint32_t begin, uint32_t end)
{
    constexpr bool CAST = !std::is_same<T, float>::value;
    const Instruction& mul = *parts[CAST ? 1 : 0];
    const T* src = CAST ? PartAt<T>(*parts[0], 1, begin) : PartAt<T>(mul, 1, begin);
    float* widened = CAST ? PartAt<float>(*parts[0], 0, begin) : nullptr;
    float* square = PartAt<float>(mul, 0, begin);
    float* sum = PartAt<float>(*parts[CAST ? 2 : 1], 0, 0);
    constexpr uint32_t N = SUM_LANES / W;
    constexpr uint32_t PART = N > 8 ? 8 : N;
    const uint32_t count = end - begin;
    const uint32_t whole = count / SUM_LANES * SUM_LANES;
    for (uint32_t lane = 0; lane < SUM_LANES; lane += PART * W) {  // once, where the registers hold all lanes
        VF acc[PART];
#pragma GCC unroll 8
        for (uint32_t k = 0; k < PART; ++k) {
            acc[k] = Load(sum + lane + k * W);
        }
        for (uint32_t i = lane; i < whole; i += SUM_LANES) {
#pragma GCC unroll 8
            for (uint32_t k = 0; k < PART; ++k) {
                const VF x = Load(src + i + k * W);
                if (CAST) {
                    Store(widened + i + k * W, x);
                }
                const VF s = x * x;
                Store(square + i + k * W, s);
                acc[k] = s + acc[k];
            }
        }
#pragma GCC unroll 8
        for (uint32_t k = 0; k < PART; ++k) {
            Store(sum + lane + k * W, acc[k]);
        }
    }
    for (uint32_t i = whole; i < count; i += W) {
        const uint32_t n = count - i < W ? count - i : W;
        const VF x = LoadSome(src + i, n);
        if (CAST) {
            StoreSome(widened + i, x, n);
        }
        const VF s = x * x;
        StoreSome(square + i, s, n);
        float* lanes = sum + (i - whole);
        StoreSome(lanes, s + LoadSome(lanes, n), n);
    }
}

// ---- z = x * r (r one block), [y = Cast(z), z = Cast(y)], z = z * g, [y = Cast(z)]

template <typename T, bool ROUND>
bool ScaleFits(const Instruction* const* parts)
{
    constexpr bool CAST = !std::is_same<T, float>::value;
    const Instruction& rows = *parts[0];
    const Instruction& columns = *parts[ROUND ? 3 : 1];
    bool fits = Same(columns, 0, rows, 0) && Same(columns, 1, rows, 0) && !Same(columns, 2, rows, 0);
    if (ROUND) {
        fits = fits && Same(*parts[1], 1, rows, 0) && Same(*parts[2], 1, *parts[1], 0) && Same(*parts[2], 0, rows, 0) &&
               Same(*parts[4], 0, *parts[1], 0);
    }
    return fits && (!CAST || Same(*parts[ROUND ? 4 : 2], 1, rows, 0));
}

template <typename T, bool ROUND>
void RunScale(const Instruction* const* parts, uint32_t begin, uint32_t end)
{
    constexpr bool CAST = !std::is_same<T, float>::value;
    constexpr uint32_t BLOCK = ONE_BLK_SIZE / sizeof(float);
    const float* x = PartAt<float>(*parts[0], 1, begin);
    float* z = PartAt<float>(*parts[0], 0, begin);
    const float* column = PartAt<float>(*parts[ROUND ? 3 : 1], 2, begin);
    T* y = CAST ? PartAt<T>(*parts[ROUND ? 4 : 2], 0, begin) : nullptr;
    constexpr uint32_t PERIOD = BLOCK > W ? BLOCK : W;
    float filled[PERIOD];
    for (uint32_t i = 0; i < PERIOD; i += BLOCK) {
        memcpy(filled + i, parts[0]->operands[2].base, ONE_BLK_SIZE);
    }
    ForVectors(end - begin, [&](uint32_t i, uint32_t n) {
        VF v = LoadSome(x + i, n) * Load(filled + i % PERIOD);
        if (ROUND) {
            v = Rounded(v, y);
        }
        v = v * LoadSome(column + i, n);
        StoreSome(z + i, v, n);
        if (CAST) {
            StoreSome(y + i, v, n);
        }
    });
}

// ---- z = x * -1; z = exp(z); z = z + 1; z = x / z

HOST_INLINE bool InPlace(const Instruction& part, const Instruction& first)
{
    return Same(part, 0, first, 0) && Same(part, 1, first, 0);
}

inline bool SiluFits(const Instruction* const* parts)
{
    const Instruction& negate = *parts[0];
    const Instruction& divide = *parts[3];
    return !Same(negate, 0, negate, 1) && InPlace(*parts[1], negate) && InPlace(*parts[2], negate) &&
           Same(divide, 0, negate, 0) && Same(divide, 1, negate, 1) && Same(divide, 2, negate, 0);
}

inline void RunSilu(const Instruction* const* parts, uint32_t begin, uint32_t end)
{
    const float* x = PartAt<float>(*parts[0], 1, begin);
    float* z = PartAt<float>(*parts[0], 0, begin);
    const VF factor = Set(parts[0]->scalar);
    const VF summand = Set(parts[2]->scalar);
    ForVectors(end - begin, [&](uint32_t i, uint32_t n) {
        const VF v = LoadSome(x + i, n);
        StoreSome(z + i, Divide(v, ExpOf(v * factor) + summand), n);
    });
}

// ---- z = x * -1; z = exp(z); z = z + 1; z = ones / z

inline bool SigmoidFits(const Instruction* const* parts)
{
    const Instruction& negate = *parts[0];
    return !Same(negate, 0, negate, 1) && InPlace(*parts[1], negate) && InPlace(*parts[2], negate) &&
           Same(*parts[3], 0, negate, 0) && Same(*parts[3], 2, negate, 0);
}

inline void RunSigmoid(const Instruction* const* parts, uint32_t begin, uint32_t end)
{
    constexpr uint32_t BLOCK = ONE_BLK_SIZE / sizeof(float);
    constexpr uint32_t PERIOD = BLOCK > W ? BLOCK : W;
    const float* x = PartAt<float>(*parts[0], 1, begin);
    float* z = PartAt<float>(*parts[0], 0, begin);
    const VF factor = Set(parts[0]->scalar);
    const VF summand = Set(parts[2]->scalar);
    float filled[PERIOD];
    for (uint32_t i = 0; i < PERIOD; i += BLOCK) {
        memcpy(filled + i, parts[3]->operands[1].base, ONE_BLK_SIZE);
    }
    ForVectors(end - begin, [&](uint32_t i, uint32_t n) {
        const VF v = LoadSome(x + i, n);
        StoreSome(z + i, Divide(Load(filled + i % PERIOD), ExpOf(v * factor) + summand), n);
    });
}

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SEQUENCES_H
