/*!
 * Calculates the tiling of kv_cache_update, in plain C++.
 *
 * Tokens are split over cores. A tile is several tokens; a token that does not fit is copied in pieces.
 */
#ifndef MS_ASCEND_OPS_KV_CACHE_UPDATE_TILING_H
#define MS_ASCEND_OPS_KV_CACHE_UPDATE_TILING_H

#include "kv_cache_update_params.h"
#include "primitives/shape_checks.h"
#include "primitives/split.h"

namespace ms_ascend_ops {

struct KvCacheUpdateTilingData {
    uint32_t tokens;
    uint32_t tokensPerCore;
    int32_t slots;
    uint32_t checkCount;  // slots looked at together
    uint32_t keySize;     // elements of a token
    uint32_t valueSize;
    uint32_t tileSize;  // elements of a tile
    uint32_t reserved;  // tiling data is a multiple of 8 bytes
};

namespace kv_cache {

constexpr uint32_t TILE_BYTES = 32 * 1024;
constexpr uint32_t CHECK_COUNT = 2048;

}  // namespace kv_cache

inline LaunchConfig KvCacheUpdateTiling(const KvCacheUpdateParams& params, const Platform& platform,
                                        KvCacheUpdateTilingData& tiling)
{
    const uint32_t bytes = SizeOf(params.key.dtype);
    const int32_t leading = params.key.rank - 2;
    const uint64_t tokens = params.key.Product(0, leading);
    const uint64_t keySize = params.key.Product(leading, leading + 2);
    const uint64_t valueSize = params.value.Product(leading, leading + 2);
    tiling.tokens = Size32(tokens, "the tokens");
    CheckSlots(params.key_cache, KvCacheUpdateLimits::SLOTS);
    tiling.slots = static_cast<int32_t>(params.key_cache.Product(0, 2));
    tiling.checkCount = kv_cache::CHECK_COUNT;
    tiling.keySize = Size32(keySize, "the elements of a token's keys");
    tiling.valueSize = Size32(valueSize, "the elements of a token's values");
    tiling.tileSize = kv_cache::TILE_BYTES / bytes;
    tiling.reserved = 0;
    LaunchConfig config;
    config.blockDim = CoresFor(tokens, 2 * tokens * (keySize + valueSize) * bytes, platform);
    tiling.tokensPerCore = static_cast<uint32_t>(CeilDiv(tokens, config.blockDim));
    config.blockDim =
        static_cast<uint32_t>(std::max<uint64_t>(1, tokens == 0 ? 0 : CeilDiv(tokens, tiling.tokensPerCore)));
    return config;
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_KV_CACHE_UPDATE_TILING_H
