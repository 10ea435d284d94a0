/*!
 * Calculates the tiling of flash_attention_varlen, in plain C++. The lengths of sequences are known on the device only:
 * tiles are those of all rows together, and each core counts its tasks. For the plan see
 * primitives/dense_attention_tiling.h.
 */
#ifndef MS_ASCEND_OPS_FLASH_ATTENTION_VARLEN_TILING_H
#define MS_ASCEND_OPS_FLASH_ATTENTION_VARLEN_TILING_H

#include "flash_attention_varlen_params.h"
#include "primitives/dense_attention_tiling.h"

namespace ms_ascend_ops {

using FlashAttentionVarlenTilingData = AttentionTilingData;
using FlashAttentionVarlenGradTilingData = AttentionGradTilingData;

namespace flash_attention_varlen {

template <class PARAMS>
dense_attention::Sizes SizesOf(const PARAMS& params)
{
    dense_attention::Sizes sizes;
    sizes.sequences = params.query_lengths.dims[0];
    sizes.heads = params.query.dims[1];
    sizes.keyHeads = params.key.dims[1];
    sizes.queryLength = params.query.dims[0];
    sizes.keyLength = params.key.dims[0];
    sizes.headSize = params.query.dims[2];
    sizes.valueSize = params.value.dims[2];
    dense_attention::Check(params, sizes, FlashAttentionVarlenLimits::HEAD_SIZE);
    return sizes;
}

template <class PARAMS>
dense_attention::Work WorkOf(const PARAMS& params)
{
    return {params.query.dtype, false, false, params.causal, params.window, params.scale, 0};
}

}  // namespace flash_attention_varlen

inline LaunchConfig FlashAttentionVarlenTiling(const FlashAttentionVarlenParams& params, const Platform& platform,
                                               FlashAttentionVarlenTilingData& tiling)
{
    return dense_attention::Plan(flash_attention_varlen::SizesOf(params), flash_attention_varlen::WorkOf(params),
                                 platform, tiling);
}

inline LaunchConfig FlashAttentionVarlenGradTiling(const FlashAttentionVarlenGradParams& params,
                                                   const Platform& platform, FlashAttentionVarlenGradTilingData& tiling)
{
    return dense_attention::PlanGrad(flash_attention_varlen::SizesOf(params), flash_attention_varlen::WorkOf(params),
                                     platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_FLASH_ATTENTION_VARLEN_TILING_H
