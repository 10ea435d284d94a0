/*!
 * Holds what concerns cores and pipes: a core's share of the work, and the wait of one pipe for another.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_CORE_SHARE_H
#define MS_ASCEND_OPS_PRIMITIVES_CORE_SHARE_H

#include "kernel_operator.h"

namespace ms_ascend_ops {

// Returns the vector cores of a launch. Where they share cube cores, GetBlockNum counts groups of a cube core and its
// two vector cores, and GetBlockIdx vector cores.
__aicore__ inline uint64_t VectorCores()
{
    return static_cast<uint64_t>(AscendC::GetBlockNum() * AscendC::GetTaskRation());
}

// The second pipe of EVENT waits for all instructions that were issued to the first one before.
template <AscendC::HardEvent EVENT>
__aicore__ inline void WaitForPipe(AscendC::TPipe& pipe)
{
    const int32_t event = static_cast<int32_t>(pipe.FetchEventID(EVENT));
    AscendC::SetFlag<EVENT>(event);
    AscendC::WaitFlag<EVENT>(event);
}

// Pieces of work of this core.
struct CoreShare {
    uint64_t begin;
    uint64_t end;
};

__aicore__ inline CoreShare ShareOf(uint64_t total, uint64_t perCore)
{
    const uint64_t begin = perCore * AscendC::GetBlockIdx();
    const uint64_t end = begin + perCore < total ? begin + perCore : total;
    return {begin < end ? begin : end, end};
}

// Waits until this core can read what it has written to the workspace.
__aicore__ inline void WaitForStores(AscendC::TPipe& pipe)
{
    WaitForPipe<AscendC::HardEvent::MTE3_MTE2>(pipe);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_CORE_SHARE_H
