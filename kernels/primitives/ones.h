/*!
 * Makes a block of ones, which instructions read with a stride of 0: ones - x and ones / x take one instruction.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_ONES_H
#define MS_ASCEND_OPS_PRIMITIVES_ONES_H

#include "kernel_operator.h"
#include "primitives/rows.h"

namespace ms_ascend_ops {

__aicore__ inline AscendC::LocalTensor<float> BlockOfOnes(AscendC::TBuf<AscendC::TPosition::VECCALC>& buffer,
                                                          AscendC::TPipe& pipe)
{
    pipe.InitBuffer(buffer, AscendC::ONE_BLK_SIZE);
    const AscendC::LocalTensor<float> ones = buffer.template Get<float>();
    AscendC::Duplicate(ones, 1.0f, static_cast<int32_t>(FLOATS_PER_BLOCK));
    return ones;
}

// dst = 1 - src
__aicore__ inline void OneMinus(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& ones,
                                const AscendC::LocalTensor<float>& src, int32_t count)
{
    BeginCounterMode(static_cast<uint32_t>(count));
    AscendC::Sub<float, false>(dst, ones, src, AscendC::MASK_PLACEHOLDER, 1, {1, 0, 1, 8, 0, 8});
    EndCounterMode();
}

// dst = 1 / src
__aicore__ inline void OneOver(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& ones,
                               const AscendC::LocalTensor<float>& src, int32_t count)
{
    BeginCounterMode(static_cast<uint32_t>(count));
    AscendC::Div<float, false>(dst, ones, src, AscendC::MASK_PLACEHOLDER, 1, {1, 0, 1, 8, 0, 8});
    EndCounterMode();
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_ONES_H
