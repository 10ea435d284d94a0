/*!
 * Computes attention over sequences of equal lengths. For the plan see primitives/attention_forward.h.
 */
#ifndef MS_ASCEND_OPS_FLASH_ATTENTION_KERNEL_H
#define MS_ASCEND_OPS_FLASH_ATTENTION_KERNEL_H

#include "flash_attention_tiling.h"
#include "kernel_operator.h"
#include "primitives/attention_forward.h"
#include "primitives/products.h"

namespace ms_ascend_ops {

template <typename T, typename M>
__aicore__ inline void FlashAttentionKernel(GM_ADDR query, GM_ADDR key, GM_ADDR value, GM_ADDR mask, GM_ADDR out,
                                            GM_ADDR lse, GM_ADDR workspace, const FlashAttentionTilingData& tiling)
{
    AscendC::TPipe pipe;
    AttentionForward<T, M> attention;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), attention.scores, &tiling.scores, attention.values, &tiling.values);
    attention.Init(query, key, value, mask, out, lse, workspace, tiling, pipe);
    const uint64_t each = tiling.headGroupsPerBatch * tiling.tilesPerHeadGroup;
    const uint64_t tasks = tiling.sequences * each;
    const uint64_t core = AscendC::GetBlockIdx();  // groups of cores may be one more than there is work for
    for (uint64_t round = 0; core < tiling.cores && round * tiling.cores < tasks; ++round) {
        const uint64_t task = DealtTask(round, core, tiling.cores);
        if (task >= tasks) {
            break;
        }
        const uint64_t batch = task / each;
        const uint64_t headGroup = (task - batch * each) / tiling.tilesPerHeadGroup;
        const uint64_t tile = task - batch * each - headGroup * tiling.tilesPerHeadGroup;
        attention.Tile(EqualSequenceAt(tiling, batch), headGroup, tile * tiling.tileRows, tiling.rowsPerHeadGroup);
    }
    attention.End();
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_FLASH_ATTENTION_KERNEL_H
