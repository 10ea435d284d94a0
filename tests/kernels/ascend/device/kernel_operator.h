/*!
 * The host layer plus what CANN's build of an operator adds to Ascend C: the entry's modifiers and the macros around
 * its tiling. GET_TILING_DATA is defined for each operator, as CANN's build does.
 */
#ifndef STAND_IN_KERNEL_OPERATOR_H
#define STAND_IN_KERNEL_OPERATOR_H

#include "host/kernel_operator.h"
#include "tiling/cube_tiling_stand_in.h"

#define __global__

// The entry that runs notes its kernel type; the test gives the tiling key.
enum KernelTypeStandIn { KERNEL_TYPE_AIV_ONLY = 1, KERNEL_TYPE_MIX_AIV_1_0 = 2, KERNEL_TYPE_MIX_AIC_1_2 = 3 };

namespace stand_in {
inline thread_local uint64_t tilingKey = 0;
inline int kernelType = 0;
constexpr uint64_t LIBRARY_WORKSPACE = 512;
}  // namespace stand_in

#define KERNEL_TASK_TYPE_DEFAULT(kind) stand_in::kernelType = kind
#define TILING_KEY_IS(key) (stand_in::tilingKey == (key))

namespace AscendC {
// Behind what CANN keeps for itself.
inline GM_ADDR GetUserWorkspace(GM_ADDR workspace)
{
    return workspace + stand_in::LIBRARY_WORKSPACE;
}

// A barrier in a kernel of another type hangs on the chip.
inline void SyncAllOfKernel()
{
    if (stand_in::kernelType == KERNEL_TYPE_AIV_ONLY) {
        host::Fail("SyncAll in a kernel whose type is KERNEL_TYPE_AIV_ONLY");
    }
    SyncAll();
}
}  // namespace AscendC

#define SyncAll SyncAllOfKernel

#endif  // STAND_IN_KERNEL_OPERATOR_H
