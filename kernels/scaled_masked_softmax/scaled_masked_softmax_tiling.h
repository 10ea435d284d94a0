/*!
 * Calculates the tiling of scaled_masked_softmax and its gradient, in plain C++.
 *
 * Rows of x are split over cores and tiles as primitives/softmax_rows_tiling.h says. The mask row of a row of x follows
 * from its leading dims: merged where they lie in memory as one, they are groups of (dim, mask rows from one to the
 * next), the innermost first. A tile stays within the innermost group, where mask rows are either consecutive or all
 * the same.
 */
#ifndef MS_ASCEND_OPS_SCALED_MASKED_SOFTMAX_TILING_H
#define MS_ASCEND_OPS_SCALED_MASKED_SOFTMAX_TILING_H

#include "primitives/softmax_rows_tiling.h"
#include "scaled_masked_softmax_params.h"

namespace ms_ascend_ops {

struct ScaledMaskedSoftmaxTilingData {
    uint64_t rows;
    uint64_t rowsPerCore;
    uint32_t cols;
    uint32_t tileRows;
    uint32_t stepRows;
    uint32_t tileCols;
    uint32_t stride;
    float scale;
    uint64_t piecesPerCore;  // 0: a core takes whole rows
    uint32_t pieces;         // of a row that cores may share (row_pieces_tiling.h), or 0
    uint32_t pieceCols;
    uint64_t dim0;
    uint64_t dim1;
    uint64_t dim2;
    uint64_t dim3;
    uint64_t dim4;
    uint64_t dim5;
    uint64_t dim6;
    uint64_t stride0;  // 0 or 1
    uint64_t stride1;
    uint64_t stride2;
    uint64_t stride3;
    uint64_t stride4;
    uint64_t stride5;
    uint64_t stride6;
};

struct ScaledMaskedSoftmaxGradTilingData {
    uint64_t rows;
    uint64_t rowsPerCore;
    uint32_t cols;
    uint32_t tileRows;
    uint32_t stepRows;
    uint32_t tileCols;
    uint32_t stride;
    float scale;
    uint64_t piecesPerCore;  // 0: a core takes whole rows
    uint32_t pieces;         // of a row that cores may share (row_pieces_tiling.h), or 0
    uint32_t pieceCols;
};

namespace softmax {

constexpr int32_t MAX_GROUPS = MAX_RANK - 1;

struct MaskGroups {
    uint64_t dims[MAX_GROUPS] = {1, 1, 1, 1, 1, 1, 1};
    uint64_t strides[MAX_GROUPS] = {};
};

inline MaskGroups GroupMask(const TensorDesc& x, const TensorDesc& mask)
{
    MaskGroups groups;
    int32_t last = -1;
    uint64_t maskRows = 1;  // below the dim at hand
    for (int32_t i = 2; i <= x.rank; ++i) {
        const uint64_t dim = x.dims[x.rank - i];
        const uint64_t maskDim = i <= mask.rank ? mask.dims[mask.rank - i] : 1;
        if (dim == 1) {
            continue;
        }
        const uint64_t stride = maskDim == 1 ? 0 : maskRows;
        maskRows *= maskDim;
        const bool same =
            last >= 0 && (groups.strides[last] == 0 ? stride == 0 : stride == groups.strides[last] * groups.dims[last]);
        if (same) {
            groups.dims[last] *= dim;
        } else {
            ++last;
            groups.dims[last] = dim;
            groups.strides[last] = stride;
        }
    }
    return groups;
}

}  // namespace softmax

inline LaunchConfig ScaledMaskedSoftmaxTiling(const ScaledMaskedSoftmaxParams& params, const Platform& platform,
                                              ScaledMaskedSoftmaxTilingData& tiling)
{
    const uint32_t bytes = SizeOf(params.x.dtype);
    const uint32_t maskBytes = SizeOf(params.mask.dtype);
    tiling.scale = params.scale;
    const softmax::MaskGroups groups = softmax::GroupMask(params.x, params.mask);
    tiling.dim0 = groups.dims[0];
    tiling.dim1 = groups.dims[1];
    tiling.dim2 = groups.dims[2];
    tiling.dim3 = groups.dims[3];
    tiling.dim4 = groups.dims[4];
    tiling.dim5 = groups.dims[5];
    tiling.dim6 = groups.dims[6];
    tiling.stride0 = groups.strides[0];
    tiling.stride1 = groups.strides[1];
    tiling.stride2 = groups.strides[2];
    tiling.stride3 = groups.strides[3];
    tiling.stride4 = groups.strides[4];
    tiling.stride5 = groups.strides[5];
    tiling.stride6 = groups.strides[6];
    // The mask is in two buffers, with a float copy of it unless it is float.
    const uint32_t perElement = softmax::ForwardBytes(bytes) + 2 * maskBytes + (maskBytes == 4 ? 0 : 4);
    return softmax::PlanRowTiles(params.x.Product(0, params.x.rank - 1), params.x.LastDim(), bytes, perElement,
                                 3 * bytes, softmax::FORWARD_VALUES, platform, tiling);
}

inline LaunchConfig ScaledMaskedSoftmaxGradTiling(const ScaledMaskedSoftmaxGradParams& params, const Platform& platform,
                                                  ScaledMaskedSoftmaxGradTilingData& tiling)
{
    const uint32_t bytes = SizeOf(params.y.dtype);
    tiling.scale = params.scale;
    return softmax::PlanRowTiles(params.y.Product(0, params.y.rank - 1), params.y.LastDim(), bytes,
                                 softmax::GradientBytes(bytes), 3 * bytes, softmax::GRADIENT_VALUES, platform, tiling);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_SCALED_MASKED_SOFTMAX_TILING_H
