/*!
 * Calculates the tiling of moe_token_unpermute and its gradient, in plain C++.
 *
 * Tokens are split over cores. A tile is a stretch of columns of one token: a row of each of its experts.
 */
#ifndef MS_ASCEND_OPS_MOE_TOKEN_UNPERMUTE_TILING_H
#define MS_ASCEND_OPS_MOE_TOKEN_UNPERMUTE_TILING_H

#include "moe_token_unpermute_params.h"
#include "primitives/expert_entries.h"
#include "primitives/split.h"

namespace ms_ascend_ops {

struct MoeTokenUnpermuteTilingData {
    uint32_t tokens;
    uint32_t tokensPerCore;
    uint32_t chosen;  // experts of a token
    uint32_t hidden;
    uint32_t tileCols;
    uint32_t hasProbs;
};

using MoeTokenUnpermuteGradTilingData = MoeTokenUnpermuteTilingData;

namespace moe_token_unpermute {

constexpr uint32_t MAX_TILE_COLS = 4096;
constexpr uint32_t SHARE_TOKENS = 16;  // whole blocks of the 16-bit outputs, whatever the size of a token
constexpr uint32_t FIXED_BYTES = 1024 + MOST_ENTRIES * (4 + 4 + 4 + 32) + MOST_ENTRIES * 256;
static_assert(MoeTokenUnpermuteLimits::EXPERTS_OF_A_TOKEN <= MOST_ENTRIES);

// `perColumn` is the Unified Buffer for each column of a tile.
inline LaunchConfig Plan(const TensorDesc& permuted, bool hasProbs, uint64_t perColumn, const Platform& platform,
                         MoeTokenUnpermuteTilingData& tiling)
{
    const uint32_t bytes = SizeOf(permuted.dtype);
    const uint64_t tokens = static_cast<uint64_t>(permuted.dims[0]);
    const uint64_t chosen = static_cast<uint64_t>(permuted.dims[1]);
    const uint64_t hidden = static_cast<uint64_t>(permuted.dims[2]);
    if (chosen > MoeTokenUnpermuteLimits::EXPERTS_OF_A_TOKEN) {
        throw std::invalid_argument("a token must have at most " +
                                    std::to_string(MoeTokenUnpermuteLimits::EXPERTS_OF_A_TOKEN) + " experts, got " +
                                    std::to_string(chosen));
    }
    Size32(tokens * chosen, "the tokens of all experts");
    tiling.tokens = Size32(tokens, "the tokens");
    tiling.chosen = static_cast<uint32_t>(chosen);
    tiling.hidden = Size32(hidden, "the elements of a token");
    tiling.hasProbs = hasProbs ? 1 : 0;
    // In whole repeats, so that lane sums meet the same columns whatever the tile.
    const uint64_t fit = (platform.ubBytes - FIXED_BYTES) / perColumn / FLOATS_PER_REPEAT * FLOATS_PER_REPEAT;
    const uint64_t wanted = RoundUp(std::max<uint64_t>(1, hidden), FLOATS_PER_REPEAT);
    tiling.tileCols = static_cast<uint32_t>(std::min<uint64_t>({fit, wanted, MAX_TILE_COLS}));
    LaunchConfig config;
    const uint64_t shares = CeilDiv(tokens, SHARE_TOKENS);
    const uint64_t cores = CoresFor(shares, tokens * (1 + chosen) * hidden * bytes, platform);
    tiling.tokensPerCore = static_cast<uint32_t>(SHARE_TOKENS * CeilDiv(shares, cores));
    config.blockDim = static_cast<uint32_t>(
        std::max<uint64_t>(1, tokens == 0 ? 0 : CeilDiv(tokens, std::max<uint32_t>(1, tiling.tokensPerCore))));
    return config;
}

}  // namespace moe_token_unpermute

inline LaunchConfig MoeTokenUnpermuteTiling(const MoeTokenUnpermuteParams& params, const Platform& platform,
                                            MoeTokenUnpermuteTilingData& tiling)
{
    // There are a row in two buffers and its float copy, the sum, a product, and the result in two buffers.
    const uint64_t bytes = SizeOf(params.permuted.dtype);
    return moe_token_unpermute::Plan(params.permuted, params.probs.IsGiven(), 4 * bytes + 12, platform, tiling);
}

inline LaunchConfig MoeTokenUnpermuteGradTiling(const MoeTokenUnpermuteGradParams& params, const Platform& platform,
                                                MoeTokenUnpermuteGradTilingData& tiling)
{
    // dtokens, a row and its gradient in two buffers each, float copies of the first two, and a product.
    const uint64_t bytes = SizeOf(params.permuted.dtype);
    return moe_token_unpermute::Plan(params.permuted, params.probs.IsGiven(), 6 * bytes + 12, platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_MOE_TOKEN_UNPERMUTE_TILING_H
