/*!
 * Puts the entries of the CANN package into a kernel library of a host: it does what CANN's build does around the
 * generated op_kernel sources, and calls an entry for one core.
 */
#ifndef MS_ASCEND_OPS_BINDING_ENTRY_H
#define MS_ASCEND_OPS_BINDING_ENTRY_H

#include <cstring>
#include <utility>

#include "base/types.h"
#include "binding/op.h"
#include "interface/package.h"
#include "primitives/cube_tiling.h"

#define KERNEL_TASK_TYPE_DEFAULT(kind)  // says which cores of the chip run it
#define TILING_KEY_IS(key) ((key) == ms_ascend_ops::TILING_KEY)

// This is the part of CANN's struct that kernels read; op_host writes the same
// (kernels/device/nnopbase/include/tiling).
struct TCubeTiling {
    int32_t M, N, Ka, Kb, singleCoreM, singleCoreN, singleCoreK, baseM, baseN, baseK, isBias;

    operator ms_ascend_ops::CubeTiling() const
    {
        return {M, N, Ka, Kb, singleCoreM, singleCoreN, singleCoreK, baseM, baseN, baseK, isBias};
    }
};

namespace AscendC {

inline GM_ADDR GetUserWorkspace(GM_ADDR workspace)
{
    return workspace + ms_ascend_ops::LIBRARY_WORKSPACE_BYTES;
}

}  // namespace AscendC

namespace ms_ascend_ops::binding {

template <typename... PARAMETERS, size_t... I>
void CallEntry(void (*entry)(PARAMETERS...), const EntryLaunch& launch, std::index_sequence<I...>)
{
    entry(static_cast<GM_ADDR>(launch.tensors[I])..., static_cast<GM_ADDR>(launch.workspace),
          static_cast<GM_ADDR>(launch.tiling));
}

template <typename... PARAMETERS>
void CallEntry(void (*entry)(PARAMETERS...), const EntryLaunch& launch)
{
    CallEntry(entry, launch, std::make_index_sequence<sizeof...(PARAMETERS) - 2>());
}

// Does the work of one core: there is an EntryFn for each entry, by which launches are told apart (runtime/launch.h).
template <auto ENTRY>
void RunEntry(void* launch, uint8_t*)
{
    CallEntry(ENTRY, *static_cast<const EntryLaunch*>(launch));
}

}  // namespace ms_ascend_ops::binding

#endif  // MS_ASCEND_OPS_BINDING_ENTRY_H
