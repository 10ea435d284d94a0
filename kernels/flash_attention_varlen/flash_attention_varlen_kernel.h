/*!
 * Computes attention over sequences of different lengths, and its gradient. For the plan see
 * primitives/attention_forward.h and primitives/attention_backward.h. Tiles belong to one sequence; every core walks
 * through all sequences and takes the tasks that are its own, so that results do not depend on the number of cores.
 */
#ifndef MS_ASCEND_OPS_FLASH_ATTENTION_VARLEN_KERNEL_H
#define MS_ASCEND_OPS_FLASH_ATTENTION_VARLEN_KERNEL_H

#include "flash_attention_varlen_tiling.h"
#include "kernel_operator.h"
#include "packed_sequences.h"
#include "primitives/attention_backward.h"
#include "primitives/attention_forward.h"
#include "primitives/products.h"

namespace ms_ascend_ops {

template <typename T>
__aicore__ inline void FlashAttentionVarlenKernel(GM_ADDR query, GM_ADDR key, GM_ADDR value, GM_ADDR queryLengths,
                                                  GM_ADDR keyLengths, GM_ADDR out, GM_ADDR lse, GM_ADDR workspace,
                                                  const FlashAttentionVarlenTilingData& tiling)
{
    AscendC::TPipe pipe;
    AttentionForward<T, float> attention;  // without a mask
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), attention.scores, &tiling.scores, attention.values, &tiling.values);
    attention.Init(query, key, value, nullptr, out, lse, workspace, tiling, pipe);
    PackedSequences sequences;
    sequences.Init(queryLengths, keyLengths, tiling);
    AttentionSequence sequence;
    uint64_t next = AscendC::GetBlockIdx();  // of this core, counted from the first task of the sequence
    const bool idle = next >= tiling.cores;  // groups of cores may be one more than there is work for
    while (!idle && sequences.Next(tiling, sequence)) {
        const uint64_t tiles = (sequence.queryLength + tiling.tileRows - 1) / tiling.tileRows;
        const uint64_t tasks = tiles * tiling.heads;
        for (; next < tasks; next += tiling.cores) {
            const uint64_t head = next / tiles;
            attention.Tile(sequence, head, (next - head * tiles) * tiling.tileRows, sequence.queryLength);
        }
        next -= tasks;
    }
    attention.End();
}

template <typename T>
__aicore__ inline void FlashAttentionVarlenGradKernel(GM_ADDR dout, GM_ADDR query, GM_ADDR key, GM_ADDR value,
                                                      GM_ADDR lse, GM_ADDR delta, GM_ADDR queryLengths,
                                                      GM_ADDR keyLengths, GM_ADDR dquery, GM_ADDR dkey, GM_ADDR dvalue,
                                                      GM_ADDR workspace,
                                                      const FlashAttentionVarlenGradTilingData& tiling)
{
    AscendC::TPipe pipe;
    AttentionBackward<T, float> gradient;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), gradient.tiles, &tiling.tiles, gradient.sums, &tiling.sums,
                      gradient.sumsOfTransposes, &tiling.sumsOfTransposes);
    gradient.Init(dout, query, key, value, lse, delta, nullptr, dquery, dkey, dvalue, workspace, tiling, pipe);
    PackedSequences sequences;
    sequences.Init(queryLengths, keyLengths, tiling);
    AttentionSequence sequence;
    uint64_t next = AscendC::GetBlockIdx();
    const bool idle = next >= tiling.cores;
    while (!idle && sequences.Next(tiling, sequence)) {
        const uint64_t tasks = gradient.Tasks(sequence);
        for (; next < tasks; next += tiling.cores) {
            gradient.Task(sequence, next);
        }
        next -= tasks;
    }
    gradient.End();
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_FLASH_ATTENTION_VARLEN_KERNEL_H
