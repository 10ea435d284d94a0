/*!
 * Runs conv2d and conv2d_grad by a library of the host instead of the kernel (host/operators/convolution.h).
 */
#ifndef MS_ASCEND_OPS_CONV2D_LIBRARY_H
#define MS_ASCEND_OPS_CONV2D_LIBRARY_H

#include <optional>

#include "conv2d_params.h"
#include "host/operators/convolution.h"

namespace ms_ascend_ops {

// Forward and gradients share the sizes and the placement.
template <typename PARAMS>
AscendC::host::Convolution PlacedConvolution(const PARAMS& params, const TensorDesc& x, const TensorDesc& weight)
{
    const bool last = params.data_format == std::decay_t<decltype(params.data_format)>::NHWC;
    const int rows = last ? 1 : 2;
    const auto positions = [&](int64_t size, int64_t kernelSize, int64_t before, int64_t behind, int64_t stride,
                               int64_t dilation) {
        return WindowCount(size + before + behind, (kernelSize - 1) * dilation + 1, stride);
    };
    AscendC::host::Convolution c{};
    c.type = x.dtype;
    c.biasType = DataType::FLOAT32;
    c.samples = x.dims[0];
    c.channels = x.dims[last ? 3 : 1];
    c.height = x.dims[rows];
    c.width = x.dims[rows + 1];
    c.outChannels = weight.dims[0];
    c.kernelHeight = weight.dims[rows];
    c.kernelWidth = weight.dims[rows + 1];
    c.strideHeight = params.stride_h;
    c.strideWidth = params.stride_w;
    c.padTop = params.pad_top;
    c.padBottom = params.pad_bottom;
    c.padLeft = params.pad_left;
    c.padRight = params.pad_right;
    c.dilationHeight = params.dilation_h;
    c.dilationWidth = params.dilation_w;
    c.outHeight = positions(c.height, c.kernelHeight, c.padTop, c.padBottom, c.strideHeight, c.dilationHeight);
    c.outWidth = positions(c.width, c.kernelWidth, c.padLeft, c.padRight, c.strideWidth, c.dilationWidth);
    c.groups = params.groups;
    c.channelsLast = last ? 1 : 0;
    return c;
}

// The gradient of x is the convolution of dy, with gaps, with the flipped and transposed weight.
inline AscendC::host::Convolution AsGradientOfX(AscendC::host::Convolution c, int64_t gapHeight, int64_t gapWidth)
{
    std::swap(c.channels, c.outChannels);
    std::swap(c.height, c.outHeight);
    std::swap(c.width, c.outWidth);
    const int64_t rows = (c.kernelHeight - 1) * c.dilationHeight;
    const int64_t cols = (c.kernelWidth - 1) * c.dilationWidth;
    c.strideHeight = gapHeight + 1;
    c.strideWidth = gapWidth + 1;
    c.padTop = rows - c.padTop;
    c.padLeft = cols - c.padLeft;
    // The last row of dy needs as much; it is below 0 where that row does not see the end of x.
    c.padBottom = (c.outHeight - 1) * c.strideHeight + rows + 1 - c.height - c.padTop;
    c.padRight = (c.outWidth - 1) * c.strideWidth + cols + 1 - c.width - c.padLeft;
    c.result = AscendC::host::ConvolutionResult::DX;
    return c;
}

inline std::optional<AscendC::host::Convolution> InLibrary(const Conv2dParams& params)
{
    AscendC::host::Convolution c = PlacedConvolution(params, params.x, params.weight);
    c.activation = static_cast<AscendC::host::ConvolutionActivation>(params.activation);
    c.hasBias = params.bias.IsGiven() ? 1 : 0;
    c.biasType = c.hasBias != 0 ? params.bias.dtype : DataType::FLOAT32;
    if (!params.flip_weight) {
        if (params.gap_h != 0 || params.gap_w != 0) {
            return std::nullopt;
        }
        c.weightTransposed = params.transposed_weight ? 1 : 0;
        return c;
    }
    const bool isGradient = params.transposed_weight && c.strideHeight == 1 && c.strideWidth == 1 && c.hasBias == 0 &&
                            params.activation == Conv2dActivation::NONE;
    return isGradient ? std::optional(AsGradientOfX(c, params.gap_h, params.gap_w)) : std::nullopt;
}

inline std::optional<AscendC::host::Convolution> InLibrary(const Conv2dGradParams& params)
{
    if (params.flip_weight || params.transposed_weight) {
        return std::nullopt;
    }
    AscendC::host::Convolution c = PlacedConvolution(params, params.x, params.weight);
    c.result = AscendC::host::ConvolutionResult::DWEIGHT;
    return c;
}

// Says who answers; empty: the kernel.
template <typename PARAMS>
std::string AnsweringLibrary(const PARAMS& params)
{
    const auto convolution = InLibrary(params);
    return convolution ? AscendC::host::ConvolutionImplementation(*convolution) : "";
}

// Returns whether the library has answered.
inline bool RunInLibrary(const Conv2dParams& params, void* const* tensors)
{
    const auto convolution = InLibrary(params);
    if (!convolution) {
        return false;
    }
    if (convolution->result == AscendC::host::ConvolutionResult::DX) {  // x is dy there, and y dx
        return AscendC::host::Convolve(*convolution, {tensors[3], tensors[1], nullptr, tensors[0]});
    }
    return AscendC::host::Convolve(*convolution, {tensors[0], tensors[1], tensors[2], tensors[3]});
}

inline bool RunInLibrary(const Conv2dGradParams& params, void* const* tensors)
{
    const auto convolution = InLibrary(params);
    return convolution && AscendC::host::Convolve(*convolution, {tensors[1], tensors[3], tensors[4], tensors[0]});
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_CONV2D_LIBRARY_H
