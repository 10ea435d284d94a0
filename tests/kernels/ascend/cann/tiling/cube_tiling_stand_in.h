/*!
 * A stand-in for TCubeTiling: the fields of it that kernels may read.
 */
#ifndef STAND_IN_CUBE_TILING_H
#define STAND_IN_CUBE_TILING_H

#include <cstdint>

struct TCubeTiling {
    int32_t M, N, Ka, Kb, singleCoreM, singleCoreN, singleCoreK, baseM, baseN, baseK, isBias;
};

namespace optiling {
using ::TCubeTiling;
}

#endif  // STAND_IN_CUBE_TILING_H
