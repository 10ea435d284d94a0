/*!
 * Calculates the tiling of moe_gating_top_k and its gradient, in plain C++.
 *
 * Tokens are split over cores; a tile is several tokens. In the Unified Buffer a token's groups of experts stand one
 * after the other, each padded to whole blocks.
 */
#ifndef MS_ASCEND_OPS_MOE_GATING_TOP_K_TILING_H
#define MS_ASCEND_OPS_MOE_GATING_TOP_K_TILING_H

#include "moe_gating_top_k_params.h"
#include "primitives/row_plan.h"
#include "primitives/shape_checks.h"

namespace ms_ascend_ops {

struct MoeGatingTopKTilingData {
    uint64_t tokens;
    uint64_t tokensPerCore;
    uint32_t experts;
    uint32_t chosen;  // experts of a token
    uint32_t chosenStride;
    uint32_t groups;
    uint32_t chosenGroups;
    uint32_t groupSize;
    uint32_t groupStride;  // elements from a group to the next in the Unified Buffer
    uint32_t tileTokens;
    uint32_t isSigmoid;
    uint32_t renormalizes;
    uint32_t bestTwo;  // the score of a group is the sum of two
    uint32_t hasBias;
    float scale;
    float epsilon;
};

using MoeGatingTopKGradTilingData = MoeGatingTopKTilingData;

namespace moe_gating_top_k {

constexpr uint32_t TILE_ELEMENTS = 4096;
constexpr uint32_t TILE_TOKENS = 64;
// Bytes of the Unified Buffer, forward or gradient, whichever is more: for an element of a tile besides two tensors of
// 16 or 32 bits in two buffers each, for one of those that are chosen, and for a group, which has lanes and blocks of
// its own.
constexpr uint32_t ELEMENT_BYTES = 20;
constexpr uint32_t CHOSEN_BYTES = 24;
constexpr uint32_t GROUP_BYTES = 256 + 4 + 32 + 3 * 32;
constexpr uint32_t FIXED_BYTES = 2048;  // a block of ones, rounding

inline void CheckAtMost(const char* name, int64_t value, uint32_t most)
{
    if (value > int64_t{most}) {
        Refuse(std::string(name) + " must be at most " + std::to_string(most), std::to_string(value));
    }
}

// The bound stands in parentheses behind the rule.
inline void Check(bool holds, const char* rule, int64_t bound, int64_t value)
{
    if (!holds) {
        Refuse(std::string(rule) + " (" + std::to_string(bound) + ")", std::to_string(value));
    }
}

template <class PARAMS>
LaunchConfig Plan(const PARAMS& params, uint64_t groups, bool hasBias, const Platform& platform,
                  MoeGatingTopKTilingData& tiling)
{
    using Limits = MoeGatingTopKLimits;
    const uint64_t experts = static_cast<uint64_t>(params.x.LastDim());
    CheckAtMost("k", params.k, Limits::EXPERTS_OF_A_TOKEN);
    CheckAtMost("group_count", params.group_count, Limits::GROUPS);
    Check(params.k_group <= params.group_count, "k_group must be at most group_count", params.group_count,
          params.k_group);
    CheckLastDim(params.x, "x", Limits::EXPERTS);
    Check(experts % static_cast<uint64_t>(params.group_count) == 0, "group_count must divide x.shape[-1]",
          params.x.LastDim(), params.group_count);
    const uint64_t seen = experts / static_cast<uint64_t>(params.group_count) * static_cast<uint64_t>(params.k_group);
    Check(static_cast<uint64_t>(params.k) <= seen, "k must be at most the experts of k_group groups",
          static_cast<int64_t>(seen), params.k);
    const uint32_t bytes = SizeOf(params.x.dtype);
    tiling.tokens = static_cast<uint64_t>(params.x.Product(0, params.x.rank - 1));
    tiling.experts = static_cast<uint32_t>(experts);
    tiling.chosen = static_cast<uint32_t>(params.k);
    tiling.chosenStride = static_cast<uint32_t>(RoundUp(tiling.chosen, STATES_PER_BLOCK));
    tiling.groups = static_cast<uint32_t>(groups);
    tiling.chosenGroups = static_cast<uint32_t>(params.k_group);
    tiling.groupSize = static_cast<uint32_t>(experts / groups);
    tiling.groupStride = static_cast<uint32_t>(RoundUp(tiling.groupSize, BLOCK_BYTES / bytes));
    tiling.isSigmoid = params.scoring == decltype(params.scoring)::SIGMOID ? 1 : 0;
    tiling.renormalizes = params.renormalize ? 1 : 0;
    tiling.bestTwo = params.group_score == decltype(params.group_score)::TOP2 ? 1 : 0;
    if (groups > 1 && tiling.bestTwo != 0 && tiling.groupSize < 2) {
        Refuse("a group must have two experts for 'top2'", std::to_string(groups) + " of " + std::to_string(experts));
    }
    tiling.hasBias = hasBias ? 1 : 0;
    tiling.scale = static_cast<float>(params.scale);
    tiling.epsilon = static_cast<float>(params.epsilon);
    const uint64_t stride = uint64_t{tiling.groups} * tiling.groupStride;
    // Groups of a tile are rows of one instruction, too.
    const uint64_t perToken =
        stride * (4 * bytes + ELEMENT_BYTES) + tiling.chosenStride * CHOSEN_BYTES + groups * GROUP_BYTES;
    // These are the column numbers, the bias and bounds, and the numbers of the columns of weights and of groups.
    const uint64_t once = stride * 4 * sizeof(float) + tiling.chosenStride * 2 * sizeof(float) +
                          RoundUp(groups, STATES_PER_BLOCK) * 2 * BLOCK_BYTES + FIXED_BYTES;
    const uint64_t most = std::min<uint64_t>(
        {TILE_ELEMENTS / stride, TILE_TOKENS, (MAX_REPEAT_TIMES - 7) / groups, (platform.ubBytes - once) / perToken});
    tiling.tileTokens = static_cast<uint32_t>(std::max<uint64_t>(1, most));
    LaunchConfig config;
    // Instructions are many for each element: a few tokens keep a core busy.
    config.blockDim = CoresFor(CeilDiv(tiling.tokens, STATES_PER_BLOCK),
                               tiling.tokens * experts * bytes * (4 + tiling.chosen), platform);
    tiling.tokensPerCore = SplitRows(tiling.tokens, 0, 2, config);
    return config;
}

}  // namespace moe_gating_top_k

inline LaunchConfig MoeGatingTopKTiling(const MoeGatingTopKParams& params, const Platform& platform,
                                        MoeGatingTopKTilingData& tiling)
{
    return moe_gating_top_k::Plan(params, static_cast<uint64_t>(params.group_count), params.bias.IsGiven(), platform,
                                  tiling);
}

// The gradient knows the experts: groups have no part in it.
inline LaunchConfig MoeGatingTopKGradTiling(const MoeGatingTopKGradParams& params, const Platform& platform,
                                            MoeGatingTopKGradTilingData& tiling)
{
    return moe_gating_top_k::Plan(params, 1, false, platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_MOE_GATING_TOP_K_TILING_H
