/*!
 * Calculates the tiling of moe_token_permute, in plain C++.
 *
 * Tokens are split over cores. A tile is several tokens, or a stretch of columns of some where a token does not fit.
 */
#ifndef MS_ASCEND_OPS_MOE_TOKEN_PERMUTE_TILING_H
#define MS_ASCEND_OPS_MOE_TOKEN_PERMUTE_TILING_H

#include "moe_token_permute_params.h"
#include "primitives/expert_entries.h"
#include "primitives/split.h"

namespace ms_ascend_ops {

struct MoeTokenPermuteTilingData {
    uint32_t tokens;
    uint32_t tokensPerCore;
    uint32_t chosen;  // experts of a token
    uint32_t hidden;
    uint32_t experts;
    uint32_t countStride;  // integers from the counts of a core to those of the next
    uint32_t tileTokens;
    uint32_t tileCols;
    uint32_t tileStride;  // elements from a token to the next in a tile
    uint32_t cores;
};

namespace moe_token_permute {

constexpr uint32_t COPY_BYTES = 32 * 1024;
constexpr uint64_t MOST_COPIES = 32;   // of a tile: planning more at once takes a host disproportionately long
constexpr uint32_t SHARE_TOKENS = 16;  // whole blocks of the 16-bit outputs, whatever the size of a token

static_assert(MoeTokenPermuteLimits::EXPERTS <= MOST_EXPERTS);
static_assert(MoeTokenPermuteLimits::EXPERTS_OF_A_TOKEN <= MOST_ENTRIES);

}  // namespace moe_token_permute

inline LaunchConfig MoeTokenPermuteTiling(const MoeTokenPermuteParams& params, const Platform& platform,
                                          MoeTokenPermuteTilingData& tiling)
{
    using namespace moe_token_permute;
    const uint32_t bytes = SizeOf(params.tokens.dtype);
    const uint64_t tokens = static_cast<uint64_t>(params.tokens.dims[0]);
    const uint64_t hidden = static_cast<uint64_t>(params.tokens.dims[1]);
    const uint64_t chosen = static_cast<uint64_t>(params.indices.dims[1]);
    if (params.num_experts > int64_t{MoeTokenPermuteLimits::EXPERTS}) {
        throw std::invalid_argument("num_experts must be at most " + std::to_string(MoeTokenPermuteLimits::EXPERTS) +
                                    ", got " + std::to_string(params.num_experts));
    }
    if (chosen > MoeTokenPermuteLimits::EXPERTS_OF_A_TOKEN) {
        throw std::invalid_argument("a token must have at most " +
                                    std::to_string(MoeTokenPermuteLimits::EXPERTS_OF_A_TOKEN) + " experts, got " +
                                    std::to_string(chosen));
    }
    Size32(tokens * chosen, "the tokens of all experts");
    tiling.tokens = Size32(tokens, "the tokens");
    tiling.chosen = static_cast<uint32_t>(chosen);
    tiling.hidden = Size32(hidden, "the elements of a token");
    tiling.experts = static_cast<uint32_t>(params.num_experts);
    tiling.countStride = static_cast<uint32_t>(RoundUp(tiling.experts, LINE_BYTES / sizeof(int32_t)));
    const uint64_t stride = RoundUp(std::max<uint64_t>(1, hidden), BLOCK_BYTES / bytes);
    tiling.tileStride = static_cast<uint32_t>(std::min<uint64_t>(stride, COPY_BYTES / bytes));
    tiling.tileCols = static_cast<uint32_t>(std::min<uint64_t>(hidden, tiling.tileStride));
    tiling.tileTokens = static_cast<uint32_t>(
        std::max<uint64_t>(1, std::min<uint64_t>(COPY_BYTES / bytes / tiling.tileStride, MOST_COPIES / chosen)));
    LaunchConfig config;
    const uint64_t shares = CeilDiv(tokens, SHARE_TOKENS);
    const uint64_t cores = CoresFor(shares, tokens * ((1 + chosen) * hidden * bytes + chosen * 32), platform);
    tiling.tokensPerCore = static_cast<uint32_t>(SHARE_TOKENS * CeilDiv(shares, cores));
    config.blockDim = static_cast<uint32_t>(
        std::max<uint64_t>(1, tokens == 0 ? 0 : CeilDiv(tokens, std::max<uint32_t>(1, tiling.tokensPerCore))));
    tiling.cores = config.blockDim;
    if (config.blockDim > 1) {
        config.workspaceBytes = uint64_t{config.blockDim} * tiling.countStride * sizeof(int32_t);
    }
    return config;
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_MOE_TOKEN_PERMUTE_TILING_H
