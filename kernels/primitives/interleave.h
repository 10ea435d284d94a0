/*!
 * Puts two tensors of floats together element by element, without Gather, which makes 5 elements a cycle.
 *
 * They lie in runs of 64: 64 of the first, 64 of the second, 64 of the first ... Such a pair of runs is 16 blocks of 8.
 * Transposed as a matrix of 16 x 8 and once more, element j of run s comes to be element 2 j + s: the first time blocks
 * 2 c and 2 c + 1 take column c of either run, the second time block pair r takes their elements r.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_INTERLEAVE_H
#define MS_ASCEND_OPS_PRIMITIVES_INTERLEAVE_H

#include "kernel_operator.h"
#include "primitives/rows.h"

namespace ms_ascend_ops {

constexpr uint32_t RUN = FLOAT_LANES;  // floats, one repeat of an instruction
constexpr uint32_t BLOCKS_OF_PAIR = 2 * RUN / FLOATS_PER_BLOCK;

// Transposes each 16 blocks of src, at most 255 times.
__aicore__ inline void TransposeBlocks(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                       uint32_t times)
{
    AscendC::LocalTensor<float> dstList[AscendC::NCHW_CONV_ADDR_LIST_SIZE];
    AscendC::LocalTensor<float> srcList[AscendC::NCHW_CONV_ADDR_LIST_SIZE];
    for (int32_t i = 0; i < AscendC::NCHW_CONV_ADDR_LIST_SIZE; ++i) {
        dstList[i] = dst[i * FLOATS_PER_BLOCK];
        srcList[i] = src[i * FLOATS_PER_BLOCK];
    }
    // A single repeat would begin a stride further on.
    const uint16_t stride = times == 1 ? 0 : BLOCKS_OF_PAIR;
    AscendC::TransDataTo5HD(dstList, srcList, {false, false, static_cast<uint8_t>(times), stride, stride});
}

// dst = a[0] b[0] a[1] b[1] ... of `count` elements each, which lie in `runs` as above. dst and `scratch` have room for
// whole pairs of runs; scratch is neither of the others, dst may be `runs`. At most 255 pairs.
__aicore__ inline void Interleave(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& runs,
                                  const AscendC::LocalTensor<float>& scratch, uint32_t count)
{
    const uint32_t times = (count + RUN - 1) / RUN;
    TransposeBlocks(scratch, runs, times);
    TransposeBlocks(dst, scratch, times);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_INTERLEAVE_H
