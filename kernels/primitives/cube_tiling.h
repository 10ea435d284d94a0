/*!
 * The tiling of a Matmul object. Plain C++.
 *
 * On the NPU CANN's tiling classes make a TCubeTiling of it (kernels/ascend/op_host.h), which a kernel finds under the
 * same name in its tiling data; kernels read no field that TCubeTiling does not have. On a host it is used as it is.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_CUBE_TILING_H
#define MS_ASCEND_OPS_PRIMITIVES_CUBE_TILING_H

#include <algorithm>
#include <cstdint>

#include "interface/launch_config.h"

namespace ms_ascend_ops {

struct CubeTiling {
    // As in TCubeTiling: the shapes of the matrices in memory, what a core calculates at once, and its base blocks.
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
    // For CANN's tiling classes only.
    int32_t transposeA = 0;
    int32_t transposeB = 0;
    DataType type = DataType::FLOAT32;        // of the operands
    DataType resultType = DataType::FLOAT32;  // of the result
};

constexpr uint32_t CUBE_SIDE = 16;  // the cube multiplies blocks of 16 x 16
constexpr uint32_t BASE_M = 128;
constexpr uint32_t BASE_N = 256;

// The tiling of products of up to (m, k) x (k, n). Base blocks are as large as L0C takes, and two of each operand's as
// L0A and L0B take.
inline CubeTiling PlanCube(uint64_t m, uint64_t n, uint64_t k, DataType type, DataType resultType, bool transposeA,
                           bool transposeB)
{
    const auto blocks = [](uint64_t size, uint64_t most) {
        return static_cast<int32_t>(std::min<uint64_t>((size + CUBE_SIDE - 1) / CUBE_SIDE * CUBE_SIDE, most));
    };
    CubeTiling tiling;
    tiling.M = static_cast<int32_t>(m);
    tiling.N = static_cast<int32_t>(n);
    tiling.Ka = static_cast<int32_t>(k);
    tiling.Kb = static_cast<int32_t>(k);
    tiling.singleCoreM = tiling.M;
    tiling.singleCoreN = tiling.N;
    tiling.singleCoreK = tiling.Ka;
    tiling.baseM = blocks(m, BASE_M);
    tiling.baseN = blocks(n, BASE_N);
    tiling.baseK = blocks(k, 128 / SizeOf(type));  // 128 bytes of a row of x
    tiling.transposeA = transposeA ? 1 : 0;
    tiling.transposeB = transposeB ? 1 : 0;
    tiling.type = type;
    tiling.resultType = resultType;
    return tiling;
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_CUBE_TILING_H
