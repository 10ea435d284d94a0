/*!
 * Computes the gradient of attention over sequences of equal lengths. For the plan see primitives/attention_backward.h.
 */
#ifndef MS_ASCEND_OPS_FLASH_ATTENTION_GRAD_KERNEL_H
#define MS_ASCEND_OPS_FLASH_ATTENTION_GRAD_KERNEL_H

#include "flash_attention_tiling.h"
#include "kernel_operator.h"
#include "primitives/attention_backward.h"
#include "primitives/products.h"

namespace ms_ascend_ops {

template <typename T, typename M>
__aicore__ inline void FlashAttentionGradKernel(GM_ADDR dout, GM_ADDR query, GM_ADDR key, GM_ADDR value, GM_ADDR lse,
                                                GM_ADDR delta, GM_ADDR mask, GM_ADDR dquery, GM_ADDR dkey,
                                                GM_ADDR dvalue, GM_ADDR workspace,
                                                const FlashAttentionGradTilingData& tiling)
{
    AscendC::TPipe pipe;
    AttentionBackward<T, M> gradient;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), gradient.tiles, &tiling.tiles, gradient.sums, &tiling.sums,
                      gradient.sumsOfTransposes, &tiling.sumsOfTransposes);
    gradient.Init(dout, query, key, value, lse, delta, mask, dquery, dkey, dvalue, workspace, tiling, pipe);
    const uint64_t each = gradient.Tasks(EqualSequenceAt(tiling, 0));
    const uint64_t tasks = tiling.sequences * each;
    const uint64_t core = AscendC::GetBlockIdx();  // groups of cores may be one more than there is work for
    for (uint64_t round = 0; core < tiling.cores && round * tiling.cores < tasks; ++round) {
        const uint64_t task = DealtTask(round, core, tiling.cores);
        if (task >= tasks) {
            break;
        }
        const uint64_t batch = task / each;
        gradient.Task(EqualSequenceAt(tiling, batch), task - batch * each);
    }
    gradient.End();
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_FLASH_ATTENTION_GRAD_KERNEL_H
