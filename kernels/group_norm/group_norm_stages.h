/*!
 * Runs the stages of group_norm and its gradient in their order.
 */
#ifndef MS_ASCEND_OPS_GROUP_NORM_STAGES_H
#define MS_ASCEND_OPS_GROUP_NORM_STAGES_H

#include "group_norm_tiling.h"
#include "kernel_operator.h"
#include "primitives/group_norm_tiles.h"

namespace ms_ascend_ops {

// Either all cores share each stage, with a barrier behind it, or each core takes its groups through all of them, some
// groups at a time. `data` has Sum(begin, end) and Apply(begin, end) of items, `combine` has Process(begin, end) of
// groups and, with PREPARES, Prepare(begin, end), which comes first. `sumsOfGroup`: a group's items in Sum.
template <bool PREPARES, class DATA, class COMBINE>
__aicore__ inline void RunStages(DATA& data, COMBINE& combine, uint64_t sumsOfGroup, const GroupNormTilingData& tiling,
                                 AscendC::TPipe& pipe)
{
    const CoreShare groups = ShareOf(tiling.groups, tiling.groupsPerCore);
    if (tiling.batchGroups == 0) {
        const CoreShare items = ShareOf(tiling.items, tiling.itemsPerCore);
        const CoreShare sums = ShareOf(tiling.sumItems, tiling.sumItemsPerCore);
        if constexpr (PREPARES) {
            combine.Prepare(groups.begin, groups.end);
            AscendC::SyncAll();
        }
        data.Sum(sums.begin, sums.end);
        AscendC::SyncAll();
        combine.Process(groups.begin, groups.end);
        AscendC::SyncAll();
        data.Apply(items.begin, items.end);
        return;
    }
    const uint64_t itemsOfGroup = static_cast<uint64_t>(tiling.groupChannels) * tiling.pieces;
    for (uint64_t begin = groups.begin; begin < groups.end; begin += tiling.batchGroups) {
        const uint64_t end = begin + tiling.batchGroups < groups.end ? begin + tiling.batchGroups : groups.end;
        if constexpr (PREPARES) {
            combine.Prepare(begin, end);
            WaitForStores(pipe);
        }
        data.Sum(begin * sumsOfGroup, end * sumsOfGroup);
        WaitForStores(pipe);
        combine.Process(begin, end);
        WaitForStores(pipe);
        data.Apply(begin * itemsOfGroup, end * itemsOfGroup);
    }
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_GROUP_NORM_STAGES_H
