/*!
 * Runs conv2d_batch_norm by a library of the host instead of the kernel (host/operators/convolution.h).
 */
#ifndef MS_ASCEND_OPS_CONV2D_BATCH_NORM_LIBRARY_H
#define MS_ASCEND_OPS_CONV2D_BATCH_NORM_LIBRARY_H

#include "conv2d/conv2d_library.h"
#include "conv2d_batch_norm_params.h"

namespace ms_ascend_ops {

inline AscendC::host::Convolution InLibrary(const Conv2dBatchNormParams& params)
{
    AscendC::host::Convolution c = PlacedConvolution(params, params.x, params.weight);
    c.activation = static_cast<AscendC::host::ConvolutionActivation>(params.activation);
    c.hasNorm = 1;
    c.hasBias = params.bias.IsGiven() ? 1 : 0;
    c.biasType = params.gamma.dtype;
    return c;
}

// Says who answers; empty: the kernel.
inline std::string AnsweringLibrary(const Conv2dBatchNormParams& params)
{
    return AscendC::host::ConvolutionImplementation(InLibrary(params));
}

// Returns whether the library has answered.
inline bool RunInLibrary(const Conv2dBatchNormParams& params, void* const* tensors)
{
    AscendC::host::ConvolutionTensors t{tensors[0], tensors[1], params.bias.IsGiven() ? tensors[6] : nullptr,
                                        tensors[7]};
    t.norm = {tensors[2], tensors[3], tensors[4], tensors[5], static_cast<float>(params.epsilon)};
    return AscendC::host::Convolve(InLibrary(params), t);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_CONV2D_BATCH_NORM_LIBRARY_H
