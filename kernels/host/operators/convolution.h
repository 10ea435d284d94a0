/*!
 * Runs convolutions in two dims as oneDNN's primitives for the whole operator, or as loops of our own
 * (convolution_depthwise_gradient.cpp). They answer in the place of a kernel where they are ahead of it (the table in
 * convolution_choice.cpp), in the fast build; the kernel is the reference.
 */
#ifndef ASCENDC_HOST_OPERATORS_CONVOLUTION_H
#define ASCENDC_HOST_OPERATORS_CONVOLUTION_H

#include <cstdint>
#include <string>

#include "interface/launch_config.h"

namespace AscendC {
namespace host {

enum class ConvolutionResult : int64_t { Y, DX, DWEIGHT };
enum class ConvolutionActivation : int64_t { NONE, RELU, GELU, GELU_TANH, SILU, RELU6, HARD_SWISH };

// Describes y = activation(x * weight + bias), or one of its gradients. It is compared as bytes.
struct Convolution {
    ConvolutionResult result;
    ms_ascend_ops::DataType type;
    ms_ascend_ops::DataType biasType;
    int64_t samples, channels, height, width;
    int64_t outChannels, outHeight, outWidth;
    int64_t kernelHeight, kernelWidth;
    int64_t strideHeight, strideWidth;
    int64_t padTop, padBottom, padLeft, padRight;
    int64_t dilationHeight, dilationWidth;
    int64_t groups;
    ConvolutionActivation activation;  // of y alone
    int64_t hasBias;                   // of y alone: the gradient of a weight has always that of the bias, floats
    int64_t channelsLast;
    int64_t weightTransposed;  // its memory has, group by group, the channels of x before those of y
    // Only y has a shift, a value for each channel of each sample, and a residual, a tensor like y; both are added
    // before y is rounded.
    int64_t hasShift;
    int64_t hasResidual;
    int64_t hasNorm;  // y alone: batch normalization behind the bias, whose vectors are of biasType
};

// These are the vectors of a batch normalization with given statistics.
struct BatchNorm {
    void* gamma;
    void* beta;
    void* mean;
    void* variance;
    float epsilon;
};

// Holds the memory of inputs, and of results, which are written. `bias` is null if there is none.
struct ConvolutionTensors {
    void* x;
    void* weight;
    void* bias;
    void* y;
    void* shift = nullptr;
    void* residual = nullptr;
    BatchNorm norm{};
};

// Runs it. False: the library has nothing that is ahead of the kernel.
bool Convolve(const Convolution& convolution, const ConvolutionTensors& tensors);
// Returns for example "oneDNN brg_conv_fwd:avx2", or nothing where the kernel answers.
std::string ConvolutionImplementation(const Convolution& convolution);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_OPERATORS_CONVOLUTION_H
