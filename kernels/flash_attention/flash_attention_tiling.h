/*!
 * Calculates the tiling of flash_attention, in plain C++. For the plan see primitives/dense_attention_tiling.h.
 */
#ifndef MS_ASCEND_OPS_FLASH_ATTENTION_TILING_H
#define MS_ASCEND_OPS_FLASH_ATTENTION_TILING_H

#include "flash_attention_params.h"
#include "primitives/dense_attention_tiling.h"

namespace ms_ascend_ops {

using FlashAttentionTilingData = AttentionTilingData;
using FlashAttentionGradTilingData = AttentionGradTilingData;

namespace flash_attention {

// An element of a chunk takes these: the mask in two buffers, and in float.
inline uint32_t MaskBytes(const TensorDesc& mask)
{
    if (!mask.IsGiven()) {
        return 0;
    }
    return 2 * SizeOf(mask.dtype) + (mask.dtype == DataType::FLOAT32 ? 0 : static_cast<uint32_t>(sizeof(float)));
}

template <class TILING>
void DescribeMask(const TensorDesc& mask, TILING& tiling)
{
    tiling.hasMask = mask.IsGiven() ? 1 : 0;
    if (!mask.IsGiven()) {
        return;
    }
    const uint64_t row = mask.dims[3];
    tiling.maskRow = mask.dims[2] == 1 ? 0 : row;
    tiling.maskHead = mask.dims[1] == 1 ? 0 : mask.dims[2] * row;
    tiling.maskBatch = mask.dims[0] == 1 ? 0 : mask.dims[1] * mask.dims[2] * row;
}

template <class PARAMS>
dense_attention::Sizes SizesOf(const PARAMS& params, bool headsFirst)
{
    const int32_t headAxis = headsFirst ? 1 : 2;
    const int32_t lengthAxis = headsFirst ? 2 : 1;
    dense_attention::Sizes sizes;
    sizes.sequences = params.query.dims[0];
    sizes.heads = params.query.dims[headAxis];
    sizes.keyHeads = params.key.dims[headAxis];
    sizes.queryLength = params.query.dims[lengthAxis];
    sizes.keyLength = params.key.dims[lengthAxis];
    sizes.headSize = params.query.dims[3];
    sizes.valueSize = params.value.dims[3];
    dense_attention::Check(params, sizes, FlashAttentionLimits::HEAD_SIZE);
    return sizes;
}

template <class PARAMS>
dense_attention::Work WorkOf(const PARAMS& params, bool headsFirst)
{
    return {params.query.dtype, headsFirst, true, params.causal, params.window, params.scale, MaskBytes(params.mask)};
}

}  // namespace flash_attention

inline LaunchConfig FlashAttentionTiling(const FlashAttentionParams& params, const Platform& platform,
                                         FlashAttentionTilingData& tiling)
{
    const bool headsFirst = params.layout == FlashAttentionLayout::BNSD;
    flash_attention::DescribeMask(params.mask, tiling);
    return dense_attention::Plan(flash_attention::SizesOf(params, headsFirst),
                                 flash_attention::WorkOf(params, headsFirst), platform, tiling);
}

inline LaunchConfig FlashAttentionGradTiling(const FlashAttentionGradParams& params, const Platform& platform,
                                             FlashAttentionGradTilingData& tiling)
{
    const bool headsFirst = params.layout == FlashAttentionLayout::BNSD;
    flash_attention::DescribeMask(params.mask, tiling);
    return dense_attention::PlanGrad(flash_attention::SizesOf(params, headsFirst),
                                     flash_attention::WorkOf(params, headsFirst), platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_FLASH_ATTENTION_TILING_H
