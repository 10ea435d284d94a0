/*!
 * Calculates the tiling of a Matmul object, in plain C++.
 *
 * On the NPU CANN's tiling classes make a TCubeTiling of it (kernels/ascend/op_host.h), which a kernel finds under the
 * same name in its tiling data; kernels read no field that TCubeTiling does not have. On a host it is used as it is.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_CUBE_TILING_H
#define MS_ASCEND_OPS_PRIMITIVES_CUBE_TILING_H

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "interface/launch_config.h"

namespace ms_ascend_ops {

struct CubeTiling {
    // The names are those of TCubeTiling: the shapes of the matrices in memory, the shape that a core calculates at
    // once, and its base blocks.
    int32_t M = 0;
    int32_t N = 0;
    int32_t Ka = 0;
    int32_t Kb = 0;
    int32_t singleCoreM = 0;
    int32_t singleCoreN = 0;
    int32_t singleCoreK = 0;
    int32_t baseM = 0;
    int32_t baseN = 0;
    int32_t baseK = 0;
    int32_t isBias = 0;
    // Only CANN's tiling classes read these.
    int32_t transposeA = 0;
    int32_t transposeB = 0;
    DataType type = DataType::FLOAT32;        // of the operands
    DataType resultType = DataType::FLOAT32;  // of the result
};

constexpr uint32_t CUBE_SIDE = 16;      // the cube multiplies blocks of 16 x 16
constexpr uint32_t FRACTAL_BYTES = 32;  // of a row
constexpr uint32_t BASE_M = 128;
constexpr uint32_t BASE_N = 256;

// Plans products of up to (m, k) x (k, n). Base blocks are as large as L0C takes, and two of each operand's as L0A and
// L0B take; on the NPU baseK is CANN's choice.
inline CubeTiling PlanCube(uint64_t m, uint64_t n, uint64_t k, DataType type, DataType resultType, bool transposeA,
                           bool transposeB)
{
    const auto blocks = [](uint64_t size, uint64_t most, uint64_t step) {
        return static_cast<int32_t>(std::min<uint64_t>((size + step - 1) / step * step, most));
    };
    const uint64_t depth = std::max<uint64_t>(CUBE_SIDE, FRACTAL_BYTES / SizeOf(type));
    CubeTiling tiling;
    tiling.M = static_cast<int32_t>(m);
    tiling.N = static_cast<int32_t>(n);
    tiling.Ka = static_cast<int32_t>(k);
    tiling.Kb = static_cast<int32_t>(k);
    tiling.singleCoreM = tiling.M;
    tiling.singleCoreN = tiling.N;
    // CANN's CPU debug run ends in a float product of one base block whose K has an odd number of fractals of 8.
    tiling.singleCoreK = SizeOf(type) == sizeof(float) ? blocks(k, UINT64_MAX, CUBE_SIDE) : tiling.Ka;
    tiling.baseM = blocks(m, BASE_M, CUBE_SIDE);
    tiling.baseN = blocks(n, BASE_N, CUBE_SIDE);
    tiling.baseK = blocks(k, 128 / SizeOf(type), depth);  // 128 bytes of a row of x
    tiling.transposeA = transposeA ? 1 : 0;
    tiling.transposeB = transposeB ? 1 : 0;
    tiling.type = type;
    tiling.resultType = resultType;
    return tiling;
}

// Describes the elements from a row of an operand to the next, as it lies in memory.
struct RowsApart {
    uint64_t elements;
    const char* what;
};

// A copy to L1 takes rows that lie 65,535 elements apart or more one by one (products.h), and CANN counts the elements
// from its first row to its last in 32 bits. Several base blocks along M or N come at once only if all of K does.
inline void CheckRowsApart(const CubeTiling& tiling, bool isA, const RowsApart& apart)
{
    constexpr uint64_t l1Bytes = 512 * 1024;
    const bool alongK = isA == ((isA ? tiling.transposeA : tiling.transposeB) != 0);
    const auto single = static_cast<uint64_t>(isA ? tiling.singleCoreM : tiling.singleCoreN);
    const auto base = static_cast<uint64_t>(isA ? tiling.baseM : tiling.baseN);
    const auto depth = static_cast<uint64_t>(tiling.singleCoreK);
    const uint64_t fit = l1Bytes / SizeOf(tiling.type) / std::max<uint64_t>(1, alongK ? base : depth);
    const uint64_t rows = alongK ? std::min(depth, fit) : std::min(single, std::max(base, fit));
    const uint64_t most = rows < 2 ? INT32_MAX : INT32_MAX / (rows - 1);
    if (apart.elements > most) {
        throw std::invalid_argument("the elements from " + std::string(apart.what) + " to the next must be at most " +
                                    std::to_string(most) + ", got " + std::to_string(apart.elements));
    }
}

// A host has no such limit.
inline void CheckRowsApart(const CubeTiling& tiling, const RowsApart& a, const RowsApart& b, const Platform& platform)
{
    if (platform.tileBytes == 0) {
        CheckRowsApart(tiling, true, a);
        CheckRowsApart(tiling, false, b);
    }
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_CUBE_TILING_H
