/*!
 * Runs conv2d_group_norm as two whole operators of the host instead of the kernel: a library makes z
 * (host/operators/convolution.h), and group_norm normalizes it.
 */
#ifndef MS_ASCEND_OPS_CONV2D_GROUP_NORM_LIBRARY_H
#define MS_ASCEND_OPS_CONV2D_GROUP_NORM_LIBRARY_H

#include "binding/op.h"
#include "conv2d/conv2d_library.h"
#include "conv2d_group_norm_params.h"

namespace ms_ascend_ops {

inline AscendC::host::Convolution InLibrary(const Conv2dGroupNormParams& params)
{
    AscendC::host::Convolution c = PlacedConvolution(params, params.x, params.weight);
    c.hasBias = params.bias.IsGiven() ? 1 : 0;
    c.biasType = c.hasBias != 0 ? params.bias.dtype : DataType::FLOAT32;
    c.hasShift = params.shift.IsGiven() ? 1 : 0;
    c.hasResidual = params.residual.IsGiven() ? 1 : 0;
    return c;
}

// Says who answers; empty: the kernel.
inline std::string AnsweringLibrary(const Conv2dGroupNormParams& params)
{
    return AscendC::host::ConvolutionImplementation(InLibrary(params));
}

// Returns whether the library has answered.
inline bool RunInLibrary(const Conv2dGroupNormParams& params, void* const* tensors)
{
    const AscendC::host::Convolution c = InLibrary(params);
    void* const z = tensors[8];
    const auto given = [&](int input, const TensorDesc& desc) { return desc.IsGiven() ? tensors[input] : nullptr; };
    if (!AscendC::host::Convolve(
            c, {tensors[0], tensors[1], tensors[4], z, given(5, params.shift), given(6, params.residual)})) {
        return false;
    }
    static const binding::Op& norm = binding::FindOp("group_norm");
    const bool last = c.channelsLast != 0;
    TensorDesc image{params.x.dtype, 4, {c.samples, c.outChannels, c.outHeight, c.outWidth}};
    if (last) {
        image = {params.x.dtype, 4, {c.samples, c.outHeight, c.outWidth, c.outChannels}};
    }
    const TensorDesc statistics{DataType::FLOAT32, 2, {c.samples, params.num_groups}};
    void* const arguments[] = {z, tensors[2], tensors[3], tensors[7], tensors[9], tensors[10]};
    const TensorDesc descs[] = {image, params.gamma, params.beta, image, statistics, statistics};
    norm.Launch(arguments, descs,
                {{params.num_groups, 0.0},
                 {0, params.epsilon},
                 {static_cast<int64_t>(params.activation), 0.0},
                 {static_cast<int64_t>(params.data_format), 0.0}});
    return true;
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_CONV2D_GROUP_NORM_LIBRARY_H
