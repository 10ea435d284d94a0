/*!
 * Declares the fields of CANN's TCubeTiling that kernels may read; binding/entry.h has the same for kernels.
 */
#ifndef MS_ASCEND_OPS_DEVICE_TILING_CUBE_TILING_H
#define MS_ASCEND_OPS_DEVICE_TILING_CUBE_TILING_H

#include <cstdint>

struct TCubeTiling {
    int32_t M, N, Ka, Kb, singleCoreM, singleCoreN, singleCoreK, baseM, baseN, baseK, isBias;
};

namespace optiling {
using ::TCubeTiling;
}

#endif  // MS_ASCEND_OPS_DEVICE_TILING_CUBE_TILING_H
