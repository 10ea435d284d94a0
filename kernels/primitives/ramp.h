/*!
 * Makes numbers of columns in the Unified Buffer.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_RAMP_H
#define MS_ASCEND_OPS_PRIMITIVES_RAMP_H

#include "kernel_operator.h"
#include "primitives/core_share.h"
#include "primitives/rows.h"

namespace ms_ascend_ops {

// Makes 0, step, 2 * step ...: the first block by hand, then each stretch from the one before it.
template <typename V>
__aicore__ inline void FillRamp(const AscendC::LocalTensor<V>& ramp, V step, uint32_t count, AscendC::TPipe& pipe)
{
    for (uint32_t i = 0; i < FLOATS_PER_BLOCK; ++i) {
        ramp.SetValue(i, static_cast<V>(i) * step);
    }
    WaitForPipe<AscendC::HardEvent::S_V>(pipe);
    for (uint32_t done = FLOATS_PER_BLOCK; done < count; done *= 2) {
        const uint32_t now = count - done < done ? count - done : done;
        AscendC::Adds(ramp[done], ramp, static_cast<V>(done) * step, static_cast<int32_t>(now));
    }
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_RAMP_H
