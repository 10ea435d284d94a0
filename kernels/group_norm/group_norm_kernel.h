/*!
 * Computes GroupNorm, y = act((x - mean) * rstd * gamma + beta), with mean and rstd over the D = C / num_groups
 * channels of a group and all positions; act is nothing, SiLU or ReLU. Channels first (N, C, ...) or last (N, ..., C),
 * both as they lie.
 *
 * Plan, in three stages. (1) Sum: the sums of c = x - K and c^2, where K is the mean of some of the elements, so that
 * nothing cancels (primitives/layer_norm_forward.h). Channels first: of every group, whose D * S elements lie in one
 * piece, or of pieces of it; K is the group's. Channels last: of every channel, or piece of one, with a shift of its
 * own, from which the piece's mean and its squares from that mean are calculated: positions that are unlike the others
 * do not spoil the sums of other pieces. (2) Combine (pieces as Chan, Golub and LeVeque do): to mean and rstd of the
 * groups; from these, gamma and beta the factors of y = (x - K) * A + B for every channel. (3) Apply, to channels.
 * Channel values go through the workspace, where D needs no alignment: groups of any number of channels are packed many
 * to a tile. When there are groups enough for the cores, a core takes batches of its groups through all stages, so that
 * x is in the cache when it is read again; else the cores share each stage, with barriers between. The arithmetic is
 * the same. One value a channel (no spatial dims): stage 2 alone, from x to y.
 * Bound: memory (x twice, the second time from the L2 cache where it fits; y once).
 */
#ifndef MS_ASCEND_OPS_GROUP_NORM_KERNEL_H
#define MS_ASCEND_OPS_GROUP_NORM_KERNEL_H

#include "group_norm_stages.h"
#include "group_norm_sums.h"
#include "group_norm_tiling.h"
#include "kernel_operator.h"
#include "primitives/group_norm_combine.h"

namespace ms_ascend_ops {

template <typename T, typename G, bool LAST>
__aicore__ inline void RunGroupNorm(GM_ADDR x, GM_ADDR gamma, GM_ADDR beta, GM_ADDR y, GM_ADDR mean, GM_ADDR rstd,
                                    GM_ADDR workspace, const GroupNormTilingData& tiling)
{
    AscendC::TPipe pipe;
    GroupNormData<T, LAST> data;
    GroupNormCombine<T, G, LAST ? GroupNormFrom::CHANNELS : GroupNormFrom::GROUPS> combine;
    data.Init(x, y, workspace, tiling, pipe);
    combine.Init(x, gamma, beta, y, mean, rstd, workspace, tiling, pipe);
    RunStages<false>(data, combine, tiling.sumPieces, tiling, pipe);
}

template <typename T, typename G>
__aicore__ inline void GroupNormKernel(GM_ADDR x, GM_ADDR gamma, GM_ADDR beta, GM_ADDR y, GM_ADDR mean, GM_ADDR rstd,
                                       GM_ADDR workspace, const GroupNormTilingData& tiling)
{
    if (tiling.size == 1) {
        AscendC::TPipe pipe;
        GroupNormCombine<T, G, GroupNormFrom::X> combine;
        combine.Init(x, gamma, beta, y, mean, rstd, workspace, tiling, pipe);
        const CoreShare groups = ShareOf(tiling.groups, tiling.groupsPerCore);
        combine.Process(groups.begin, groups.end);
    } else if (tiling.channelsLast != 0) {
        RunGroupNorm<T, G, true>(x, gamma, beta, y, mean, rstd, workspace, tiling);
    } else {
        RunGroupNorm<T, G, false>(x, gamma, beta, y, mean, rstd, workspace, tiling);
    }
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_GROUP_NORM_KERNEL_H
