/*!
 * What stages of a kernel share that go one after the other over data in global memory: the part of a core, and the
 * order of what it writes and reads.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_CORE_SHARE_H
#define MS_ASCEND_OPS_PRIMITIVES_CORE_SHARE_H

#include "kernel_operator.h"

namespace ms_ascend_ops {

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

// What this core has written to the workspace can be read by it afterwards.
__aicore__ inline void WaitForStores(AscendC::TPipe& pipe)
{
    const int32_t event = static_cast<int32_t>(pipe.FetchEventID(AscendC::HardEvent::MTE3_MTE2));
    AscendC::SetFlag<AscendC::HardEvent::MTE3_MTE2>(event);
    AscendC::WaitFlag<AscendC::HardEvent::MTE3_MTE2>(event);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_CORE_SHARE_H
